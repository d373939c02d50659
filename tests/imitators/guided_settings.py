"""Small runs of guided learning, for its tests."""

from __future__ import annotations

from typing import Any

from imitate.configs.guided import GuidedConfig
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv


def envs_of(env_id: str = "ContinuousIdentity-v0", count: int = 2) -> SyncVecEnv:
    return SyncVecEnv([lambda: make_env(env_id)] * count)


def small(**settings: Any) -> GuidedConfig:
    base: dict[str, Any] = {
        "total_steps": 1_000, "learning_starts": 100, "offline_updates": 100, "hidden": (32, 32), "batch_size": 64,
        "replay_size": 10_000, "rounds_per_iteration": 8, "learning_rate": 3e-3, "average": 0.9, "quantiles": 5,
        "updates_per_step": 0.5,
    }  # fmt: skip
    return GuidedConfig(**base | settings)
