"""What a demonstrations file holds, and whether it is sound: `imitate data info` and `imitate data
validate`."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from imitate.datasets.reader import DemoReader
from imitate.datasets.schema import outside
from imitate.datasets.trajectory import Trajectory
from imitate.envs.seeds import episode_seeds
from imitate.envs.spaces import Array, space_to_json
from imitate.errors import InputError

__all__ = ["describe", "validate"]


def describe(path: str | Path) -> dict[str, Any]:
    """What a person wants to know of a file, as plain data for JSON. Raises InputError where it can't be
    read."""
    with DemoReader(path) as reader:
        info = reader.info
        return {
            "path": str(path),
            "bytes": Path(path).stat().st_size,
            "episodes": len(reader),
            "steps": reader.num_steps,
            "returns": _spread(reader.returns),
            "lengths": _spread(reader.lengths),
            "terminated": int(reader.table["terminated"].sum()),
            "truncated": int(reader.table["truncated"].sum()),
            "env_id": info.env_id,
            "env_kwargs": dict(info.env_kwargs),
            "observation_space": space_to_json(info.observation_space),
            "action_space": space_to_json(info.action_space),
            "frame_stack": info.frame_stack,
            "expert": info.expert,
            "expert_sha256": info.expert_sha256,
            "expert_return": info.expert_return,
            "expert_actions": reader.has_expert_actions,
            "deterministic": info.deterministic,
            "noise": info.noise,
            "seed": info.seed,
            "versions": dict(info.versions),
        }


def validate(path: str | Path) -> list[str]:
    """Every invariant that the file breaks, a line each; none: it is sound. Reads all of it, an episode at a
    time.

    Raises InputError where it is no file of demonstrations at all, or its table of episodes is inconsistent.
    """
    with DemoReader(path) as reader:
        problems = _columns(reader)
        for number in range(0 if problems else len(reader)):
            problems += [f"episode {number}: {problem}" for problem in _episode(reader, number)]
        return problems + _seeds(reader)


def _columns(reader: DemoReader) -> list[str]:
    """Types and shapes against the spaces."""
    info = reader.info
    action = (info.action_space.dtype, info.action_space.shape)
    wanted = {
        "obs": (info.observation_space.dtype, info.frame_shape),
        "actions": action,
        "rewards": (np.dtype(np.float32), ()),
        "expert_actions": action,
    }
    return [
        f"{name} are {dtype} {shape}, wanted {wanted[name][0]} {wanted[name][1]}"
        for name, (dtype, shape) in reader.columns.items()
        if (dtype, shape) != wanted[name]
    ]


def _episode(reader: DemoReader, number: int) -> list[str]:
    try:
        trajectory = reader[number]
    except InputError as error:  # NaN, or rows that can't be read
        return [str(error)]
    problems = []
    total, stated = trajectory.episode_return, float(reader.table["return"][number])
    if not np.isclose(total, stated, rtol=1e-9, atol=1e-9):
        problems.append(f"its rewards add up to {total}, the table says {stated}")
    if not (trajectory.terminated or trajectory.truncated):
        problems.append("it is neither terminated nor truncated")
    return problems + _bounds(reader, trajectory)


def _bounds(reader: DemoReader, trajectory: Trajectory) -> list[str]:
    held: dict[str, tuple[Any, Array | None]] = {
        "actions": (reader.info.action_space, trajectory.actions),
        "expert_actions": (reader.info.action_space, trajectory.expert_actions),
    }
    if isinstance(reader.info.observation_space, spaces.Discrete):
        held["obs"] = (reader.info.observation_space, trajectory.obs)
    return [
        f"{int(outside(space, array).sum())} {name} are outside {space}"
        for name, (space, array) in held.items()
        if array is not None and outside(space, array).any()
    ]


def _seeds(reader: DemoReader) -> list[str]:
    """A collection plays every one of its seeds once."""
    seed = reader.info.seed
    if seed is None:
        return []
    # Some of the first are still missing where a collection was interrupted.
    planned = Counter(islice(episode_seeds(seed), len(reader) + 1024))
    surplus = Counter(reader.table["seed"].tolist()) - planned
    return [f"seed {value} is not one of collection {seed}, or recorded twice" for value in surplus]


def _spread(values: Array) -> dict[str, float] | None:
    if len(values) == 0:
        return None
    return {name: float(getattr(values, name)()) for name in ("mean", "std", "min", "max")}
