"""Environments with Dict or Tuple observations, or Tuple actions, as environments of arrays."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from imitate.envs.fields import Array, as_fields, in_rows
from imitate.envs.spaces import multi_discrete

__all__ = ["structured"]

Env = gym.Env[Any, Any]


def structured(env: Env) -> Env:
    """The environment itself, or one whose Dict or Tuple observations are rows of a structured array (see `Fields`) and
    whose Tuple actions are those of a MultiDiscrete space.

    Raises InputError for parts that are not supported.
    """
    if as_fields(env.observation_space) is not env.observation_space:
        env = _Rows(env)
    return _Choices(env) if isinstance(env.action_space, spaces.Tuple) else env


class _Rows(gym.ObservationWrapper[Any, Any, Any]):
    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.observation_space = as_fields(env.observation_space)

    def observation(self, observation: Any) -> Any:
        return in_rows(self.observation_space, observation)


class _Choices(gym.ActionWrapper[Any, Any, Any]):
    """Tuple actions as one array, part after part."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        assert isinstance(env.action_space, spaces.Tuple)
        self._parts = list(env.action_space)
        self.action_space = multi_discrete(self._parts)
        self._ends = np.cumsum([int(np.prod(part.shape or ())) for part in self._parts])[:-1]

    def action(self, action: Array) -> tuple[Any, ...]:
        pieces = zip(self._parts, np.split(np.asarray(action), self._ends), strict=True)
        return tuple(piece.astype(part.dtype).reshape(part.shape)[()] for part, piece in pieces)
