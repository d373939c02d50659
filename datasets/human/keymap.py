"""Maps keys and the mouse to actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from imitate.envs.make import Env
from imitate.envs.spaces import Array, Space
from imitate.envs.trust import bare_id
from imitate.errors import InputError, did_you_mean
from imitate.terminal import quiet_pygame
from imitate.toml import read_toml

__all__ = ["PAUSE", "QUIT", "UNDO", "KeyMap", "key_map"]

PAUSE, UNDO, QUIT = "p", "backspace", "escape"

_LANDER = {
    "keys": {
        "left": [-1.0, -1.0],
        "right": [-1.0, 1.0],
        "up": [1.0, 0.0],
        "left+up": [1.0, -1.0],
        "right+up": [1.0, 1.0],
    },
    "idle": [-1.0, 0.0],
}
_CAR = {
    "keys": {
        "left": [-1.0, 0, 0],
        "right": [1.0, 0, 0],
        "up": [0, 1.0, 0],
        "down": [0, 0, 0.8],
        "left+up": [-1.0, 1.0, 0],
        "right+up": [1.0, 1.0, 0],
    },
    "idle": [0.0, 0, 0],
}
KEYS: dict[str, tuple[dict[str, Any], ...]] = {
    "CartPole-v1": ({"keys": {"left": 0, "right": 1}, "idle": "last"},),
    "Acrobot-v1": ({"keys": {"left": 0, "right": 2}, "idle": 1},),
    "MountainCar-v0": ({"keys": {"left": 0, "right": 2}, "idle": 1},),
    "MountainCarContinuous-v0": ({"keys": {"left": [-1.0], "right": [1.0]}, "idle": [0.0]},),
    "Pendulum-v1": ({"keys": {"left": [2.0], "right": [-2.0]}, "idle": [0.0]},),
    "LunarLander-v3": ({"keys": {"left": 1, "up": 2, "right": 3}, "idle": 0}, _LANDER),
    "LunarLanderContinuous-v3": (_LANDER,),
    "CarRacing-v3": (_CAR, {"keys": {"left": 2, "right": 1, "up": 3, "down": 4}, "idle": 0}),
}
"""Tables of keys for each environment, one for each kind of action space that it may have.

Names are pygame's; several keys at once are joined by "+". `idle` is the action while no key is down, or "last", which
repeats the last one.
"""

EDGES = ("left", "right", "up", "down")


@dataclass(frozen=True)
class Stick:
    """Maps the mouse to an action: from `idle` in the middle of the window to an edge's action at that edge.

    edges   actions for `left`, `right`, `up` and `down`, or for some of them
    """

    space: spaces.Box
    idle: Array
    edges: Mapping[str, Array]

    def steer(self, action: Array, mouse: tuple[float, float]) -> Array:
        """`action` plus the effect of the mouse. `mouse` is 0 in the middle and 1 at the right and the upper edge."""
        x, y = mouse
        shares = dict(zip(EDGES, (-x, x, y, -y), strict=True))
        moved = action + sum(max(shares[name], 0.0) * (edge - self.idle) for name, edge in self.edges.items())
        steered: Array = np.clip(moved, self.space.low, self.space.high).astype(self.space.dtype)
        return steered


@dataclass(frozen=True)
class KeyMap:
    """Maps the keys that are down to an action; the largest matching combination counts.

    idle   the action while no key is down; None repeats the last one
    """

    actions: Mapping[frozenset[str], Array]
    idle: Array | None = None
    stick: Stick | None = None

    def chosen(self, down: set[str], mouse: tuple[float, float] | None) -> Array | None:
        """The action of the keys and of the mouse, if one of them is down."""
        fits = [keys for keys in self.actions if keys <= down]
        action = self.actions[max(fits, key=len)] if fits else None
        if mouse is None or self.stick is None:
            return action
        return self.stick.steer(self.stick.idle if action is None else action, mouse)

    def action(self, down: set[str], mouse: tuple[float, float] | None, last: Array) -> Array:
        chosen = self.chosen(down, mouse)
        if chosen is not None:
            return chosen
        return last if self.idle is None else self.idle

    @property
    def first(self) -> Array:
        """The action before any key is down."""
        return next(iter(self.actions.values())) if self.idle is None else self.idle


def key_map(env: Env, env_id: str, path: Path | None = None, *, remedy: str = "--keys keys.toml") -> KeyMap:
    """The keys of a TOML file with `[keys]`, `idle` and `[mouse]`; without a file, ours, or those that the environment
    defines.

    remedy   the option that takes a file, for the message

    Raises InputError if there are none, if one is no key or not an action, and if a file lacks `idle` where zeros are
    not a natural choice.
    """
    space: Space = env.action_space
    if path is not None:
        table = read_toml(path)
    elif bare_id(env_id) in KEYS:
        tables = KEYS[bare_id(env_id)]
        table = next((one for one in tables if _fits(one, space)), tables[0])
    elif hasattr(env.unwrapped, "get_keys_to_action"):
        known = env.unwrapped.get_keys_to_action()
        table = {"keys": {_joined(keys): int(action) for keys, action in known.items() if keys}, "idle": 0}
    else:
        raise InputError(f"no keys are known for {env_id}: describe them in a file, {remedy}")
    keys = table.get("keys", {})
    if not isinstance(keys, dict) or not (keys or table.get("mouse")):
        raise InputError(f"{path}: wanted a table [keys], such as left = 0")
    reserved = {PAUSE, UNDO, QUIT} & {key for name in keys for key in name.split("+")}
    if reserved:
        raise InputError(f"the keys {', '.join(sorted(reserved))} pause, take back and quit: choose others")
    if path is not None:
        _check_names(path, table)
        if "idle" not in table:
            table["idle"] = _still(path, space)
    actions = {frozenset(name.split("+")): _action(value, space, name) for name, value in keys.items()}
    idle = None if table["idle"] == "last" else _action(table["idle"], space, "idle")
    return KeyMap(actions, idle, _stick(table, space, idle, path))


def _check_names(path: Path, table: dict[str, Any]) -> None:
    """Raise InputError if the table of a file has a name that means nothing."""
    pygame = quiet_pygame()
    known = {pygame.key.name(value) for name, value in vars(pygame).items() if name.startswith("K_")} - {""}
    for name in (key for keys in table.get("keys", {}) for key in keys.split("+")):
        # Keyboards of other countries have more characters than pygame has constants.
        if name not in known and not (len(name) == 1 and name == name.lower()):
            hint = "; idle belongs above [keys]" if name == "idle" else did_you_mean(name, known)
            raise InputError(
                f"{path}: no key is named {name!r}, wanted pygame's names, such as left, space or a{hint}"
            )
    for name in table.keys() - {"keys", "idle", "mouse"}:
        raise InputError(f"{path}: got {name}, wanted [keys], idle and [mouse]")


def _still(path: Path, space: Space) -> list[Any]:
    """The action without a key of a file that names none: zeros, as far as the bounds allow. Raises InputError unless
    actions are continuous."""
    if not isinstance(space, spaces.Box):
        raise InputError(
            f"{path} has no idle, the action while no key is down: write idle = ACTION above [keys], or "
            'idle = "last" to repeat the last one'
        )
    zeros: list[Any] = np.clip(np.zeros(space.shape), space.low, space.high).tolist()
    return zeros


def _fits(table: dict[str, Any], space: Space) -> bool:
    """True if the actions of one of our tables suit the space: numbers for Discrete, lists for a Box."""
    lists = isinstance(next(iter(table["keys"].values())), list)
    return lists == isinstance(space, spaces.Box)


def _stick(table: dict[str, Any], space: Space, idle: Array | None, path: Path | None) -> Stick | None:
    """The mouse's mapping from `[mouse]`. Without that table, the edges have the arrow keys' actions if actions are
    continuous."""
    box = space if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) else None
    arrows = {name: value for name, value in table.get("keys", {}).items() if name in EDGES}
    asked = table.get("mouse", {} if box is None or idle is None else arrows)
    if asked == {}:
        return None
    if not isinstance(asked, dict) or not asked.keys() <= set(EDGES) or idle is None or box is None:
        raise InputError(
            f"{path}: [mouse] has actions for {', '.join(EDGES)}; it needs an idle action, and a Box of floats, got "
            f"{space}"
        )
    return Stick(box, idle, {name: _action(value, box, name) for name, value in asked.items()})


def _action(value: Any, space: Space, name: str) -> Array:
    try:
        action = np.asarray(value, space.dtype)
        whole = isinstance(space, spaces.Box) or np.array_equal(np.asarray(value), action)
    except (TypeError, ValueError, OverflowError):
        action, whole = np.empty(0), False
    if isinstance(space, spaces.Discrete):
        whole = type(value) is int and action.shape == ()
    if not whole or not space.contains(action[()]):
        raise InputError(f"the action {value!r} of {name!r} is not in {space}")
    return action


def _joined(keys: tuple[Any, ...]) -> str:
    """A combination of keys as our text; Gymnasium names keys by characters or their numbers."""
    named = [chr(key) if isinstance(key, int) else str(key) for key in keys]
    return "+".join("space" if name == " " else name for name in named)
