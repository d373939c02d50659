"""The remaining time as part of the observation."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = ["TimeFeature"]


class TimeFeature(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Appends a column that falls from 1 at the start of an episode to 0 at its time limit (arXiv:1712.00378).

    It is the same as sb3-contrib's TimeFeatureWrapper, and policies that were trained with that need it.

    Raises InputError if observations are not a flat Box of floats or there is no time limit.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        space, limit = env.observation_space, None if env.spec is None else env.spec.max_episode_steps
        if not isinstance(space, spaces.Box) or len(space.shape) != 1 or space.dtype.kind != "f":
            raise InputError(f"time_feature needs flat observations of floats, got {space}: leave it out")
        if limit is None:
            raise InputError(
                f"time_feature needs a time limit, {env.unwrapped} has none: give max_episode_steps in --env-kwargs"
            )
        low, high = np.append(space.low, 0.0), np.append(space.high, 1.0)
        self.observation_space = spaces.Box(
            low.astype(space.dtype), high.astype(space.dtype), dtype=space.dtype.type
        )
        self._limit, self._steps = limit, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        obs, info = super().reset(seed=seed, options=options)
        self._steps = 0
        return self._with_time(obs), info

    def step(self, action: Any) -> tuple[Array, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        self._steps += 1
        return self._with_time(obs), reward, terminated, truncated, info

    def _with_time(self, obs: Array) -> Array:
        # The environment may return whole numbers, as which the share would be cut to 0.
        return np.append(obs, np.asarray(1 - self._steps / self._limit, self.observation_space.dtype))
