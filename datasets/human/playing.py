"""Lets a person play: keys and mouse go in, trajectories come out."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Literal, Protocol

import numpy as np

from imitate.datasets.asking import asking
from imitate.datasets.human.keymap import PAUSE, QUIT, UNDO, KeyMap
from imitate.datasets.trajectory import Policy, Trajectory
from imitate.envs.make import Env
from imitate.envs.spaces import Array

__all__ = ["Controls", "Person", "by_hand", "interventions"]


class Controls(Protocol):
    """The interface to a person: a picture to see, the keys that are down, and the mouse."""

    mouse: tuple[float, float] | None
    """The mouse's position while its left button is down, else None: 0 in the middle, 1 at the right and the upper
    edge."""

    def show(self, picture: Array, caption: str) -> None: ...

    def down(self) -> set[str]:
        """Wait for the next frame, set `mouse`, and return the keys that are down."""
        ...


def by_hand(
    env: Env,
    keys: KeyMap,
    controls: Controls,
    seeds: Iterator[int],
    episodes: int,
    policy: Policy | None = None,
    *,
    played: int = 0,
) -> Iterator[Trajectory]:
    """Trajectories of `episodes` episodes, or fewer if the person quits; an unfinished one is dropped.

    policy   acts while neither key nor mouse is down; `info["by_hand"]` (T,) marks the steps in which the person acted
    played   how many of the episodes are recorded already; their seeds are passed over

    The last finished episode can be taken back until the next one ends: its seed is then played again. If playing
    raises, it comes before the exception.
    """
    held: list[Trajectory] = []
    count, seeds = played, islice(seeds, played, None)
    upcoming: list[int] = []
    while count < episodes:
        seed = upcoming.pop() if upcoming else next(seeds)
        try:
            episode = _episode(env, keys, controls, seed, f"episode {count + 1} of {episodes}", policy)
        except BaseException:
            yield from held
            raise
        if episode == "quit":
            break
        if episode == "undo":
            upcoming.append(seed)
            if held:
                upcoming.append(int(held.pop().info["seed"]))
                count -= 1
            continue
        yield from held
        held, count = [episode], count + 1
    yield from held


def _episode(
    env: Env, keys: KeyMap, controls: Controls, seed: int, title: str, policy: Policy | None
) -> Trajectory | Literal["undo", "quit"]:
    space: Any = env.observation_space
    # Copies, as an environment may change its observations and actions in place.
    obs = [np.array(env.reset(seed=seed)[0], space.dtype)]
    actions: list[Array] = []
    rewards: list[float] = []
    hands: list[bool] = []
    terminated = truncated = paused = False
    action, before = keys.first, set[str]()
    ask = None if policy is None else asking(policy, env.action_space)
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
        hands.append(ask is None or keys.chosen(down, controls.mouse) is not None)
        if ask is None or hands[-1]:
            action = keys.action(down, controls.mouse, action)
        else:
            action = ask(obs[-1][None])[0]
        # Of Discrete a number: an environment may look it up in a dict, and an array of no axes has no hash.
        following, reward, terminated, truncated, _ = env.step(np.array(action)[()])
        obs.append(np.array(following, space.dtype))
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
    """A person as an expert, who says what they would do in the state that is shown; another policy may act there.

    `escape` ends the run after this roll-in, as Ctrl-C does.
    """

    live = True
    reproducible = False

    def __init__(self, env: Env, keys: KeyMap, controls: Controls) -> None:
        self._env, self._keys, self._controls = env, keys, controls
        self._action, self._before, self._ending = keys.first, set[str](), False
        self._count = 0

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        """The action (1, *action_shape) of keys and mouse in the next frame; waits while `p` pauses."""
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
        self._action = self._keys.action(down, self._controls.mouse, self._action)
        return self._action[None]


def interventions(trajectory: Trajectory) -> Iterator[Trajectory]:
    """The parts of a trajectory in which the person acted; HG-DAgger (arXiv:1810.02890) learns from these.

    A part that begins later than its episode, of seed s, has -1 - s. This is below 0, so the seed is unknown, but
    resuming finds the episode by it.
    """
    edges = np.diff(np.concatenate([[0], trajectory.info["by_hand"], [0]]).astype(int))
    starts, stops = (np.flatnonzero(edges == edge).tolist() for edge in (1, -1))
    for start, stop in zip(starts, stops, strict=True):
        seed = int(trajectory.info["seed"])
        yield replace(trajectory.part(start, stop), info={"seed": ~seed if start else seed})
