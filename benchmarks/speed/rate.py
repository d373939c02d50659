"""Measures rates for the rows of peers.py. This file also runs under the peers' Python, which lacks our packages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

CARTPOLE, NUM_ENVS = "CartPole-v1", 8


def rate(work: Callable[[], int]) -> float:
    """Samples or environment steps per CPU second; `work` returns their number."""
    begin = time.process_time()
    amount = work()
    return amount / (time.process_time() - begin)


def learner_rate(learner: Any, steps: int, *, before: int = 1) -> float:
    """Rate of one of our learners after a warm-up of `before` steps, because the first iteration also allocates."""

    def learn(steps: int) -> int:
        begun: int = learner.env_steps
        while learner.env_steps - begun < steps:
            learner.step()
        return int(learner.env_steps - begun)

    learn(before)
    return rate(lambda: learn(steps))


def sb3_rate(model: Any, learn: Callable[[int], object], steps: int, *, before: int = 1) -> float:
    """Rate of a Stable-Baselines3 `model`; `learn(steps)` trains it for that many more steps."""

    def counted(steps: int) -> int:
        begun = model.num_timesteps
        learn(steps)
        return int(model.num_timesteps) - begun

    counted(before)
    return rate(lambda: counted(steps))
