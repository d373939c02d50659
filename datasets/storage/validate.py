"""Describes and validates demonstrations files: `imitate data info` and `imitate data validate`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import merged
from imitate.envs.spaces import Array, space_to_json
from imitate.errors import InputError

__all__ = ["describe", "validate"]


def describe(path: str | Path) -> dict[str, Any]:
    """A summary of a file, or of several that are read as one, as plain data for JSON.

    Raises InputError if it can't be read.
    """
    with DemoReader(path) as reader:
        info = reader.info
        return {
            "path": str(path),
            "bytes": sum(file.stat().st_size for file in reader.paths),
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
            "normalisation_sha256": info.normalisation_sha256,
            "expert_return": info.expert_return,
            "has_actions": info.has_actions,
            "expert_actions": reader.has_expert_actions,
            "deterministic": info.deterministic,
            "noise": info.noise,
            "seed": info.seed,
            "failed_seeds": reader.failed_seeds,
            "tasks": {text: len(numbers) for text, numbers in reader.tasks().items()},
            "masks": {name: len(numbers) for name, numbers in reader.masks().items()},
            "state_size": info.state_size or None,
            "fps": info.fps or None,
            "protocol": info.protocol,
            "command": info.command,
            "versions": dict(info.versions),
        }


def validate(path: str | Path) -> list[str]:
    """The invariants that the file breaks, one line each; empty if it is sound. Reads all of it, episode by episode.

    Raises InputError if it can't be opened, because it is not a file of demonstrations, or its columns and table are
    inconsistent.
    """
    with DemoReader(path) as reader:
        problems = [f"episode {n}: {problem}" for n in range(len(reader)) for problem in _episode(reader, n)]
        return problems + _seeds(reader)


def _episode(reader: DemoReader, number: int) -> list[str]:
    total = 0.0
    try:
        for piece in reader.pieces(number):
            total += piece.episode_return
    except InputError as error:  # NaN, values outside their space, or rows that can't be read
        return [str(error)]
    problems = []
    stated = float(reader.table["return"][number])
    if not np.isclose(total, stated, rtol=1e-9, atol=1e-9):
        problems.append(f"its rewards add up to {total}, the table says {stated}")
    if not (piece.terminated or piece.truncated):
        problems.append("it is neither terminated nor truncated")
    return problems


def _seeds(reader: DemoReader) -> list[str]:
    """Check that each seed is of the collection, and recorded at most as often as the merged collections have it."""
    seed = reader.info.seed
    if seed is None:
        return []
    recorded = Counter(reader.table["seed"].tolist())
    times = reader.times(len(reader) + len(reader.failed_seeds))
    surplus = [each for each, found in recorded.items() if found > times[each] * merged(reader.info)]
    return [f"seed {each} is not one of collection {seed}, or recorded twice" for each in surplus]


def _spread(values: Array) -> dict[str, float] | None:
    if len(values) == 0:
        return None
    return {name: float(getattr(values, name)()) for name in ("mean", "std", "min", "max")}
