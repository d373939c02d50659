"""Experts of the toy tasks, and an environment that counts every step that anybody takes in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from imitate.improvement.candidates import Candidate

__all__ = ["IDLE", "QUICK", "Tallied", "always_first", "perfect"]

_FEW = {"updates_per_iteration": 5, "final_updates": 50, "hidden": (16,), "iterations": 5}
QUICK = (
    Candidate(
        "qdagger",
        settings={
            "offline_updates": 10, "num_updates": 4, "hidden": (32,), "learning_rate": 5e-3, "epsilon_final": 0.5,
            "n_step": 1, "gamma": 0.0, "distill_coef": 0.0, "learning_starts": 32, "rounds_per_iteration": 2,
        },
    ),
    Candidate("loki", settings={"aggrevated": {**_FEW, "fqe_updates": 5}, "ppo": {"num_steps": 16}}),
    Candidate("dagger", imitates=True, settings=_FEW),
)  # fmt: skip
"""The candidates of a search with settings that learn Identity in a second."""
IDLE = (
    Candidate("qdagger", settings={**QUICK[0].settings, "learning_rate": 0.0}),
    Candidate("dagger", imitates=True, settings=_FEW | {"final_updates": 300}),
)
"""The same, where QDagger learns nothing."""

Act = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


class Tallied(gym.Wrapper[Any, Any, Any, Any]):
    """Identity, whose steps are counted in `taken`, over all environments of the process."""

    taken = 0

    def __init__(self) -> None:
        super().__init__(gym.make("Identity-v0").unwrapped)

    def step(self, action: Any) -> Any:
        Tallied.taken += 1
        return super().step(action)


class Uneven(Tallied):
    """Tallied, whose episodes end after five steps if the seed is odd."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.last = 5 if seed is not None and seed % 2 else 10
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        self.last -= 1
        return obs, reward, terminated or not self.last, truncated, info


gym.register("Tallied-v0", entry_point=Tallied, max_episode_steps=10)
gym.register("Uneven-v0", entry_point=Uneven, max_episode_steps=10)


def always_first() -> Act:
    """Names the first of three observations in each: a third of the rewards, 3.33 of 10."""
    return lambda obs: np.zeros(len(obs), np.int64)


def perfect() -> Act:
    """Names the observation: 10 of 10."""
    return lambda obs: np.asarray(obs, np.int64)
