"""Environments whose every number can be told by hand, for the tests of demonstrations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from imitate.datasets import DemoInfo, DemoReader, SyncVecEnv

Array = npt.NDArray[Any]


class CountingEnv(gym.Env[Any, Any]):
    """Seed s: an episode of 1 + s % period steps, terminated where s is even, truncated where odd.

    Observations are (s, steps so far); the reward of step t is t + action / 10.
    """

    def __init__(self, period: int = 7, continuous: bool = False) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        box = gym.spaces.Box(np.float32([-1, 0]), np.float32([1, 4]))
        self.action_space = box if continuous else gym.spaces.Discrete(5)
        self.period = period

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.seed = seed or 0
        self.steps = 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = self.steps + float(np.sum(action)) / 10
        self.steps += 1
        ended = self.steps == 1 + self.seed % self.period
        even = self.seed % 2 == 0
        return self._obs(), reward, ended and even, ended and not even, {}

    def _obs(self) -> Any:
        return np.array([self.seed, self.steps], np.float32)


class CountingPixels(CountingEnv):
    """The same, seen as a grey image: its first pixel is the number of steps, its second the seed."""

    def __init__(self, period: int = 7) -> None:
        super().__init__(period)
        self.observation_space = gym.spaces.Box(0, 255, (6, 5), np.uint8)

    def _obs(self) -> Any:
        image = np.zeros((6, 5), np.uint8)
        image[0, :2] = self.steps % 256, self.seed % 256
        return image


class Cycling:
    """Acts by the observation alone: (seed + steps) % 5, or for Box actions something in [-1, 1] x [0, 4]."""

    def __init__(self, continuous: bool = False) -> None:
        self.continuous = continuous

    def act(self, obs: Array, **_: Any) -> Array:
        number = obs.reshape(len(obs), -1)[:, :2].astype(np.int64).sum(axis=1) % 5
        return np.stack([number / 4 - 0.5, number], axis=1).astype(np.float32) if self.continuous else number


def counting_envs(num_envs: int, period: int = 7, continuous: bool = False) -> SyncVecEnv:
    return SyncVecEnv([lambda: CountingEnv(period, continuous)] * num_envs)


def stacked_envs(num_envs: int, period: int = 7, k: int = 4) -> SyncVecEnv:
    return SyncVecEnv([lambda: gym.wrappers.FrameStackObservation(CountingPixels(period), k)] * num_envs)


def info_of(envs: SyncVecEnv, **more: Any) -> DemoInfo:
    return DemoInfo("Counting-v0", envs.single_observation_space, envs.single_action_space, **more)


def seeds_in(path: Path) -> list[int]:
    """The seeds of the episodes in a file, in order."""
    with DemoReader(path) as reader:
        return sorted(reader.table["seed"].tolist())
