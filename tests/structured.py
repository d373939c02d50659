"""Environments with Dict observations and actions of several parts, and experts for them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from imitate.envs.fields import Array

DIGITS = 3


class Told(gym.Env[Any, Any]):
    """Ten steps; the reward is the number of digits that the action names. Two digits are shown: the first in `goal`,
    the second in a Dict of a Dict, or as the row of a picture that is white.

    actions   "multi" MultiDiscrete, which begin at 5 and 0; "tuple" the same as a Tuple; "binary" a digit, one-hot
    """

    def __init__(self, actions: str = "multi", picture: bool = False) -> None:
        self.actions = actions
        shown: dict[str, spaces.Space[Any]] = {
            "goal": spaces.Box(0.0, DIGITS - 1.0, (1,), np.float64),
            "noise": spaces.Box(-1.0, 1.0, (2, 3), np.float32),
        }
        if picture:
            shown["camera"] = spaces.Box(0, 255, (36, 36, 1), np.uint8)
        else:
            bits = spaces.MultiBinary(2)
            shown["hand"] = spaces.Dict(digit=spaces.Discrete(DIGITS, start=1), bits=bits)
        self.observation_space = spaces.Dict(shown)
        self.action_space = {
            "multi": spaces.MultiDiscrete([DIGITS, DIGITS], start=[5, 0]),
            "tuple": spaces.Tuple([spaces.Discrete(DIGITS, start=5), spaces.Discrete(DIGITS)]),
            "binary": spaces.MultiBinary(DIGITS),
        }[actions]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        self.steps = 0
        return self._shown(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        first, second = self.digits
        if self.actions == "binary":
            wanted: Any = np.arange(DIGITS) == second
            reward = float((action == wanted).all())
        else:
            reward = float(action[0] == first + 5) + float(action[1] == second)
        self.steps += 1
        return self._shown(), reward, False, self.steps == 10, {}

    def _shown(self) -> dict[str, Any]:
        self.digits = self.np_random.integers(DIGITS, size=2)
        first, second = self.digits
        obs: dict[str, Any] = {
            "noise": self.np_random.uniform(-1, 1, (2, 3)).astype(np.float32),
            "goal": np.array([first], np.float64),
        }
        if "camera" in self.observation_space.spaces:
            obs["camera"] = np.zeros((36, 36, 1), np.uint8)
            obs["camera"][12 * second : 12 * second + 12] = 255
        else:
            obs["hand"] = {"bits": np.array([second % 2, 1], np.int8), "digit": 1 + second}
        return obs


class Knower:
    """Names both digits, from rows of observations."""

    def __init__(self, actions: str = "multi") -> None:
        self.actions = actions

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        first = obs["goal"][:, 0].astype(int)
        if "hand" in (obs.dtype.names or ()):
            second = obs["hand"]["digit"] - 1
        else:
            second = (obs["camera"][:, ::12, 0, 0] > 0).argmax(1)
        if self.actions == "binary":
            return np.eye(DIGITS, dtype=np.int8)[second]
        return np.stack([first + 5, second], 1)


for name in ("multi", "tuple", "binary"):
    gym.register(f"Told-{name}-v0", entry_point=Told, kwargs={"actions": name})
gym.register("ToldByPicture-v0", entry_point=Told, kwargs={"picture": True})


def make_knower() -> Knower:
    """For `structured:make_knower`."""
    return Knower()
