"""Checks that an episode fits a file (its spaces, labels, states, rewards and end), and makes its row of the table."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from gymnasium import spaces

from imitate.datasets.storage.schema import EPISODES, DemoInfo
from imitate.datasets.trajectory import Trajectory
from imitate.envs.fields import Fields
from imitate.envs.numbers import strays
from imitate.envs.spaces import Array, Space
from imitate.errors import InputError

__all__ = ["check_fit", "episode_row", "outside", "placed", "stored_rewards", "total_of"]


def check_fit(trajectory: Trajectory, info: DemoInfo, path: Path, *, labels: bool) -> None:
    """Raise InputError if an episode does not fit the file at `path`, which has expert_actions if it has `labels`."""
    wanted: dict[str, Space] = {"obs": info.observation_space}
    if info.has_actions:
        wanted["actions"] = info.action_space
    if info.has_actions and trajectory.expert_actions is not None:
        if not labels:
            raise InputError(f"{path} has no expert_actions: create it with expert_actions=True")
        wanted["expert_actions"] = info.action_space
    states, size = trajectory.states, info.state_size
    if size and (states is None or states.dtype != np.float64 or states.shape[1:] != (size,)):
        got = "none" if states is None else f"{states.dtype} {states.shape[1:]}"
        raise InputError(f"states are {got}, wanted float64 ({size},) as in the file's state_size")
    for name, space in wanted.items():
        array: Array = getattr(trajectory, name)
        if wrong := _difference(name, space, array):
            raise InputError(f"{wrong}: convert them")
        # The reader lets observations leave a Box, too: then the environment declared wrong bounds.
        if (name == "obs" and isinstance(space, spaces.Box)) or not (beyond := outside(space, array)).any():
            continue
        step = int(beyond.argmax())
        if name == "obs":
            raise InputError(
                f"obs leave the space {space} in step {step} of their episode: correct the space, or what gave them"
            )
        remedy = "correct them, or what gave them"
        if isinstance(space, spaces.Box):
            remedy = "clip them to what the environment takes, as `imitate data convert --clip` does"
        raise InputError(
            f"{name} leave the space {space}, as {array[step].tolist()} in step {step} of its episode: {remedy}"
        )


def _difference(name: str, space: Space, array: Array) -> str:
    """The difference in type or shape between rows (T, *shape) and a space, for a message; empty if there is none."""
    if array.dtype == space.dtype and array.shape[1:] == (space.shape or ()):
        return ""
    names = array.dtype.names
    if not isinstance(space, Fields) or names is None:
        return f"{name} are {array.dtype} {array.shape[1:]}, the space is {space}"
    if set(names) != set(space.spaces):
        return f"{name} have the parts {', '.join(names)}, the space has {', '.join(space.spaces)}"
    parts = ((f"{part!r} of {name}", inner, array[part]) for part, inner in space.spaces.items())
    return next(
        filter(None, (_difference(*each) for each in parts)), f"{name} have their parts in another order"
    )


def outside(space: Space, values: Array) -> Array:
    """Mask (T,) of the values (T, *shape) that are not in their space. For Dict observations, only discrete parts are
    checked; if a Box's numbers leave its bounds, the environment declared wrong bounds."""
    if isinstance(space, Fields):
        parts = [
            outside(part, values[name]) for name, part in space.items() if not isinstance(part, spaces.Box)
        ]
        return np.any(parts, axis=0) if parts else np.zeros(len(values), bool)
    return np.asarray(strays(space, values).any(axis=tuple(range(1, values.ndim))))


def stored_rewards(rewards: Array) -> Array:
    """The rewards (T,) as float32. Raises InputError if they are too large for it."""
    with np.errstate(over="ignore"):
        rounded = rewards.astype(np.float32)
    if not np.isfinite(rounded).all():
        raise InputError(
            f"rewards are stored as float32, which does not reach {abs(rewards).max()}: scale them"
        )
    return rounded


def total_of(stored: Array) -> float:
    """The return of rewards (T,) as the file has them, which are rounded."""
    return float(stored.sum(dtype=np.float64))


def episode_row(trajectory: Trajectory, length: int, total: float) -> Array:
    """The row (1,) of the table of episodes for an episode that ends as `trajectory` does; `placed` sets its place.

    Raises InputError if its seed is no whole number below 2**63, or it does not say how it ended.
    """
    given = trajectory.info.get("seed", -1)
    try:
        seed = operator.index(given)
    except TypeError:
        raise InputError(f"the seed of an episode must be a whole number, got {given!r}") from None
    if not -(2**63) <= seed < 2**63:
        raise InputError(f"the seed of an episode must be below 2**63, got {seed}")
    if not (trajectory.terminated or trajectory.truncated):
        raise InputError(
            "an episode is neither terminated nor truncated: one that was only stopped is truncated "
            "(`imitate data convert` mends a file of such episodes)"
        )
    return np.array([(0, 0, length, total, trajectory.terminated, trajectory.truncated, seed)], EPISODES)


def placed(table: Array, written: Mapping[str, int], frame_stack: int) -> Array:
    """Set the places of episodes in rows of the table (N,); `written` counts the rows that each column has already."""
    table["start"] = written["actions"] + np.cumsum(table["length"]) - table["length"]
    number = written["episodes"] + np.arange(len(table))
    table["obs_start"] = table["start"] + frame_stack * number
    return table
