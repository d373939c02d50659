"""Demonstrations: trajectories, how they are played, and how they are stored. Knows nothing of who acts."""

from __future__ import annotations

from imitate.datasets.collect import collect
from imitate.datasets.environments import (
    Step,
    SyncVecEnv,
    VecEnv,
    check_supported,
    episode_seeds,
    make_env,
    resolve_env_id,
)
from imitate.datasets.errors import InputError
from imitate.datasets.hdf5 import DemoReader, DemoWriter
from imitate.datasets.rollout import ActionNoise, episodes
from imitate.datasets.schema import DemoInfo
from imitate.datasets.trajectory import Array, Policy, Trajectory, Transitions
from imitate.datasets.validate import describe, validate

__all__ = [
    "ActionNoise",
    "Array",
    "DemoInfo",
    "DemoReader",
    "DemoWriter",
    "InputError",
    "Policy",
    "Step",
    "SyncVecEnv",
    "Trajectory",
    "Transitions",
    "VecEnv",
    "check_supported",
    "collect",
    "describe",
    "episode_seeds",
    "episodes",
    "make_env",
    "resolve_env_id",
    "validate",
]
