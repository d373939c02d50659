"""How peers.py's rows measure. Under the peers' Python too, so nothing is imported that they lack."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

CARTPOLE, NUM_ENVS = "CartPole-v1", 8


def rate(work: Callable[[], int]) -> float:
    """Samples or environment steps, whatever `work` counts, a CPU second."""
    begin = time.process_time()
    amount = work()
    return amount / (time.process_time() - begin)


def learner_rate(learner: Any, steps: int, *, before: int = 1) -> float:
    """Of one of our learners, after `before` steps: its first iteration pays for what is made but once."""

    def learn(steps: int) -> int:
        begun: int = learner.env_steps
        while learner.env_steps - begun < steps:
            learner.step()
        return int(learner.env_steps - begun)

    learn(before)
    return rate(lambda: learn(steps))


def sb3_rate(model: Any, learn: Callable[[int], object], steps: int, *, before: int = 1) -> float:
    """Of Stable-Baselines3's `model`, which `learn` takes so many steps further."""

    def counted(steps: int) -> int:
        begun = model.num_timesteps
        learn(steps)
        return int(model.num_timesteps) - begun

    counted(before)
    return rate(lambda: counted(steps))
