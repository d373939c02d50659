"""A goal environment that a reader can solve in the head, and Hindsight Experience Replay of two ages on it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

__all__ = ["Joined", "Reaching"]


class Reaching(gym.Env[Any, Any]):
    """A point in the plane moves by a fifth of the action; the reward is 0 within 0.2 of the goal, else -1."""

    def __init__(self) -> None:
        def box(size: int) -> spaces.Box:
            return spaces.Box(-10, 10, (size,), np.float64)

        self.observation_space = spaces.Dict(observation=box(4), achieved_goal=box(2), desired_goal=box(2))
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed, options=options)
        self._at, self._speed = np.zeros(2), np.zeros(2)
        self._goal = self.np_random.uniform(-1, 1, 2)
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self._speed = np.asarray(action, float) / 5
        self._at = self._at + self._speed
        return self._obs(), float(self.compute_reward(self._at, self._goal, {})), False, False, {}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:  # noqa: ARG002
        return -(np.linalg.norm(achieved - desired, axis=-1) > 0.2).astype(np.float32)

    def _obs(self) -> dict[str, Any]:
        return {
            "observation": np.concatenate([self._at, self._speed]),
            "achieved_goal": self._at.copy(),
            "desired_goal": self._goal.copy(),
        }


class Joined(gym.ObservationWrapper[Any, Any, Any]):
    """Observation and desired goal in one array, as HER showed them to a policy in SB3 before 1.1."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        space: Any = env.observation_space
        size = space["observation"].shape[0] + space["desired_goal"].shape[0]
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float64)

    def observation(self, observation: Any) -> Any:
        return np.concatenate([observation["observation"], observation["desired_goal"]])


gym.register("Reaching-v0", entry_point=Reaching, max_episode_steps=20)
