"""The SAC and TQC rows of peers.py: HalfCheetah, SB3's networks of 256 x 256, batches of 256, one environment and one
gradient step for each of its steps."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from rate import learner_rate, sb3_rate

ENV = "HalfCheetah-v5"
LEARNING_STARTS = 500
# `steps` steps are measured after `before` steps, when learning has started.
SETTINGS = {"before": 1_000, "steps": 3_000}


def sac_imitate(data: Path, *, before: int, steps: int, name: str = "SAC", **more: int) -> float:  # noqa: ARG001
    import imitate
    from imitate.envs.make import make_env
    from imitate.envs.vec import SyncVecEnv

    learner, config = getattr(imitate, name), getattr(imitate, f"{name}Config")
    settings = config(total_steps=before + steps, learning_starts=LEARNING_STARTS, **more)
    envs = SyncVecEnv([lambda: make_env(ENV)])
    return learner_rate(learner(settings, envs=envs, seed=0), steps, before=before)


def tqc_imitate(data: Path, *, before: int, steps: int) -> float:
    return sac_imitate(data, before=before, steps=steps, name="TQC", quantiles=25, dropped=2)


def sac_sb3(data: Path, *, before: int, steps: int) -> float:  # noqa: ARG001
    from stable_baselines3 import SAC

    return _sb3(SAC, before, steps)


def tqc_sb3(data: Path, *, before: int, steps: int) -> float:  # noqa: ARG001
    from sb3_contrib import TQC

    return _sb3(TQC, before, steps)


def _sb3(algorithm: Any, before: int, steps: int) -> float:
    from imitate.envs.make import make_env

    settings: dict[str, Any] = {"learning_starts": LEARNING_STARTS, "buffer_size": 100_000}
    model = algorithm("MlpPolicy", make_env(ENV), seed=0, device="cpu", **settings)
    return sb3_rate(model, partial(model.learn, reset_num_timesteps=False), steps, before=before)
