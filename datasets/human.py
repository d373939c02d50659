"""A person plays: keys in, trajectories out."""

from __future__ import annotations

import signal
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from gymnasium import spaces

from imitate.datasets.trajectory import Policy, Trajectory
from imitate.envs.make import Env
from imitate.envs.spaces import Array, Space
from imitate.envs.trust import bare_id
from imitate.errors import InputError, one_line

__all__ = ["Controls", "KeyMap", "Person", "by_hand", "interventions", "key_map"]

PAUSE, UNDO, QUIT = "p", "backspace", "escape"

KEYS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"keys": {"left": 0, "right": 1}},
    "Acrobot-v1": {"keys": {"left": 0, "right": 2}, "idle": 1},
    "MountainCar-v0": {"keys": {"left": 0, "right": 2}, "idle": 1},
    "MountainCarContinuous-v0": {"keys": {"left": [-1.0], "right": [1.0]}, "idle": [0.0]},
    "Pendulum-v1": {"keys": {"left": [2.0], "right": [-2.0]}, "idle": [0.0]},
    "LunarLander-v3": {"keys": {"left": 1, "up": 2, "right": 3}, "idle": 0},
    "CarRacing-v3": {
        "keys": {"left": [-1.0, 0, 0], "right": [1.0, 0, 0], "up": [0, 1.0, 0], "down": [0, 0, 0.8]},
        "idle": [0.0, 0, 0],
    },
}
"""Names are pygame's; several keys at once are joined by "+". Without `idle` the last action goes on."""

_LARGEST_FILE = 1 << 16


class Controls(Protocol):
    """What the person sees, and the keys that are down."""

    def show(self, picture: Array, caption: str) -> None: ...

    def down(self) -> set[str]:
        """Waits for the next frame."""
        ...


@dataclass(frozen=True)
class KeyMap:
    """Actions by the keys that are down; the combination of most keys counts."""

    actions: Mapping[frozenset[str], Array]
    idle: Array | None = None

    def pressed(self, down: set[str]) -> Array | None:
        """The action of the keys, if there is one."""
        fits = [keys for keys in self.actions if keys <= down]
        return self.actions[max(fits, key=len)] if fits else None

    def action(self, down: set[str], last: Array) -> Array:
        chosen = self.pressed(down)
        if chosen is not None:
            return chosen
        return last if self.idle is None else self.idle

    @property
    def first(self) -> Array:
        """Before any key is down."""
        return next(iter(self.actions.values())) if self.idle is None else self.idle


def key_map(env: Env, env_id: str, path: Path | None = None) -> KeyMap:
    """The keys of a TOML file with `[keys]` and `idle`; else ours, or those that the environment knows.

    Raises InputError where there are none, or one is not an action.
    """
    if path is not None:
        try:
            if path.stat().st_size > _LARGEST_FILE:
                raise InputError(f"{path} has more than {_LARGEST_FILE} bytes: no keys need so many")
            table = tomllib.loads(path.read_text("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is no TOML: {one_line(error)}") from error
    elif bare_id(env_id) in KEYS:
        table = KEYS[bare_id(env_id)]
    elif hasattr(env.unwrapped, "get_keys_to_action"):
        known = env.unwrapped.get_keys_to_action()
        table = {"keys": {_joined(keys): int(action) for keys, action in known.items() if keys}, "idle": 0}
    else:
        raise InputError(f"no keys are known for {env_id}: describe them in a file, --keys keys.toml")
    keys = table.get("keys")
    if not isinstance(keys, dict) or not keys:
        raise InputError(f"{path}: wanted a table [keys], such as left = 0")
    reserved = {PAUSE, UNDO, QUIT} & {key for name in keys for key in name.split("+")}
    if reserved:
        raise InputError(f"the keys {', '.join(sorted(reserved))} pause, take back and quit: choose others")
    actions = {
        frozenset(name.split("+")): _action(value, env.action_space, name) for name, value in keys.items()
    }
    idle = None if "idle" not in table else _action(table["idle"], env.action_space, "idle")
    return KeyMap(actions, idle)


def by_hand(
    env: Env,
    keys: KeyMap,
    controls: Controls,
    seeds: Iterator[int],
    episodes: int,
    policy: Policy | None = None,
) -> Iterator[Trajectory]:
    """Trajectories of so many episodes, or fewer where the person quits; an unfinished one is dropped.

    policy   acts while no key is down; `info["by_hand"]` (T,) says of each step whether the person acted

    The last finished episode can be taken back until the next one ends: its seed is then played again.
    """
    held: list[Trajectory] = []
    count = 0
    upcoming: list[int] = []
    while count < episodes:
        seed = upcoming.pop() if upcoming else next(seeds)
        played = _episode(env, keys, controls, seed, f"episode {count + 1} of {episodes}", policy)
        if played == "quit":
            break
        if played == "undo":
            upcoming.append(seed)
            if held:
                upcoming.append(int(held.pop().info["seed"]))
                count -= 1
            continue
        yield from held
        held, count = [played], count + 1
    yield from held


def _episode(
    env: Env, keys: KeyMap, controls: Controls, seed: int, title: str, policy: Policy | None
) -> Trajectory | Literal["undo", "quit"]:
    space: Any = env.observation_space
    obs = [np.asarray(env.reset(seed=seed)[0], space.dtype)]
    actions: list[Array] = []
    rewards: list[float] = []
    hands: list[bool] = []
    terminated = truncated = paused = False
    action, before = keys.first, set[str]()
    while not (terminated or truncated):
        state = "paused, p goes on" if paused else f"return {sum(rewards):.5g}"
        picture: Any = env.render()
        controls.show(picture, f"{title}: {state}")
        down = controls.down()
        pressed, before = down - before, down
        if QUIT in pressed:
            return "quit"
        if UNDO in pressed:
            return "undo"
        paused ^= PAUSE in pressed
        if paused:
            continue
        if policy is None or keys.pressed(down) is not None:
            action = keys.action(down, action)
        else:
            action = np.asarray(policy.act(obs[-1][None], deterministic=True)[0], env.action_space.dtype)
        hands.append(policy is None or keys.pressed(down) is not None)
        following, reward, terminated, truncated, _ = env.step(action)
        obs.append(np.asarray(following, space.dtype))
        actions.append(action)
        rewards.append(float(reward))
    return Trajectory(
        np.stack(obs),
        np.stack(actions),
        np.array(rewards, np.float32),
        bool(terminated),
        bool(truncated),
        info={"seed": seed, "by_hand": np.array(hands)},
    )


class Person:
    """A person who is asked what they would do in the state that is shown; who acts there is for others to say.

    `escape` ends the run as Ctrl-C does, after this roll-in.
    """

    live = True

    def __init__(self, env: Env, keys: KeyMap, controls: Controls) -> None:
        self._env, self._keys, self._controls = env, keys, controls
        self._action, self._before, self._ending = keys.first, set[str](), False
        self._count = 0

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        """The action (1, *action_shape) of the keys that are down in the next frame; waits while `p` pauses."""
        paused = False
        while True:
            state = "paused, p goes on" if paused else "ends soon" if self._ending else "what would you do?"
            picture: Any = self._env.render()
            self._controls.show(picture, f"state {self._count + 1}: {state}")
            down = self._controls.down()
            pressed, self._before = down - self._before, down
            if QUIT in pressed and not self._ending:
                self._ending = True
                signal.raise_signal(signal.SIGINT)
            paused ^= PAUSE in pressed
            if not paused:
                break
        self._count += 1
        self._action = self._keys.action(down, self._action)
        return self._action[None]


def interventions(trajectory: Trajectory) -> Iterator[Trajectory]:
    """The parts of a trajectory in which the person acted: what HG-DAgger (arXiv:1810.02890) learns from."""
    edges = np.diff(np.concatenate([[0], trajectory.info["by_hand"], [0]]).astype(int))
    for start, stop in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
        last = stop == len(trajectory)
        yield Trajectory(
            trajectory.obs[start : stop + 1],
            trajectory.actions[start:stop],
            trajectory.rewards[start:stop],
            trajectory.terminated and bool(last),
            trajectory.truncated or not last,
            info={"seed": trajectory.info["seed"]},
        )


def _action(value: Any, space: Space, name: str) -> Array:
    try:
        action = np.asarray(value, space.dtype)
    except (TypeError, ValueError):
        action = np.empty(0)
    whole = not isinstance(space, spaces.Discrete) or (type(value) is int and action.shape == ())
    if not whole or not space.contains(action[()]):
        raise InputError(f"the action {value!r} of {name!r} is not in {space}")
    return action


def _joined(keys: tuple[Any, ...]) -> str:
    """Gymnasium names keys by characters or their numbers."""
    named = [chr(key) if isinstance(key, int) else str(key) for key in keys]
    return "+".join("space" if name == " " else name for name in named)
