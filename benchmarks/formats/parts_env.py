"""An environment with Dict observations, including a picture, and MultiDiscrete actions. Our Python and Minari's import
it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Parts(gym.Env[Any, Any]):
    """Twenty steps of random observations."""

    observation_space = spaces.Dict(
        camera=spaces.Box(0, 255, (16, 16, 3), np.uint8),
        goal=spaces.Box(-1.0, 1.0, (2, 3), np.float64),
        hand=spaces.Dict(bits=spaces.MultiBinary(4), digit=spaces.Discrete(3)),
    )
    action_space = spaces.MultiDiscrete([3, 5])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return self.observation_space.sample(), float(action.sum()), False, self._steps == 20, {}


gym.register("Parts-v0", entry_point="parts_env:Parts")
