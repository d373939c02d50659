"""Small GAIL learners, for its tests."""

from __future__ import annotations

from functools import partial
from typing import Any

from imitate.datasets.storage.reader import DemoReader
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.imitators.gail import GAIL, GAILConfig

ENVS = {"discrete": "Identity-v0", "continuous": "ContinuousIdentity-v0"}


# Settings to begin from nothing; the defaults begin from a clone.
PPO_ALONE = {
    "num_steps": 128,
    "num_epochs": 10,
    "learning_rate": 3e-4,
    "log_std_init": 0.0,
    "value_warmup": 0,
}
ALONE: dict[str, Any] = {
    **{"bc_updates": 0, "reward": "positive", "updates_per_round": 8, "learning_rate": 1e-3},
    **{"input_noise": 0.0, "activation": "tanh"},
}


def alone(settings: dict[str, Any]) -> GAILConfig:
    return GAILConfig(**ALONE | settings | {"ppo": PPO_ALONE | settings.get("ppo", {})})


def learner(demos: DemoReader, **settings: Any) -> GAIL:
    envs = SyncVecEnv([partial(make_env, demos.info.env_id)] * 8)
    return GAIL(alone(settings), envs=envs, demos=demos, seed=0)


IDENTITY = {"gamma": 0.5, "num_steps": 32, "num_epochs": 5, "batch_size": 64, "learning_rate": 3e-3}
