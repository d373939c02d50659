"""Experts of the toy tasks, and an environment that counts every step that anybody takes in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

__all__ = ["Tallied", "always_first", "perfect"]

Act = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


class Tallied(gym.Wrapper[Any, Any, Any, Any]):
    """Identity, whose steps are counted in `taken`, over all environments of the process."""

    taken = 0

    def __init__(self) -> None:
        super().__init__(gym.make("Identity-v0").unwrapped)

    def step(self, action: Any) -> Any:
        Tallied.taken += 1
        return super().step(action)


gym.register("Tallied-v0", entry_point=Tallied, max_episode_steps=10)


def always_first() -> Act:
    """Names the first of three observations in each: a third of the rewards, 3.33 of 10."""
    return lambda obs: np.zeros(len(obs), np.int64)


def perfect() -> Act:
    """Names the observation: 10 of 10."""
    return lambda obs: np.asarray(obs, np.int64)
