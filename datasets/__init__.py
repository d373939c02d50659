"""Demonstrations: playing, storing and converting trajectories. This layer knows nothing about the policy that acts."""

from __future__ import annotations

from imitate.datasets.collect import collect
from imitate.datasets.noise import ActionNoise
from imitate.datasets.play import episodes
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.validate import describe, validate
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Policy, Trajectory, Transitions
from imitate.envs.make import make_env, resolve_env_id
from imitate.envs.seeds import episode_seeds
from imitate.envs.spaces import Array, check_supported
from imitate.envs.vec import Step, SyncVecEnv, VecEnv
from imitate.errors import InputError

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
