"""A small recording of random numbers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from imitate.datasets import DemoInfo, InputError, Trajectory

BOX = gym.spaces.Box(-1, 1, (3,), np.float32)
INFO = DemoInfo("Made-v0", BOX, gym.spaces.Discrete(4))


def trajectory(steps: int = 5, seed: int = 0, **changes: Any) -> Trajectory:
    rng = np.random.default_rng(seed)
    parts: dict[str, Any] = {
        "obs": rng.uniform(-1, 1, (steps + 1, 3)).astype(np.float32),
        "actions": rng.integers(0, 4, steps),
        "rewards": rng.normal(size=steps).astype(np.float32),
        "terminated": seed % 2 == 0,
        "truncated": seed % 2 == 1,
        "info": {"seed": seed},
    }
    return Trajectory(**parts | changes)


def assert_same(one: Trajectory, other: Trajectory) -> None:
    for name in ("obs", "actions", "rewards", "labels"):
        assert getattr(one, name).dtype == getattr(other, name).dtype
        assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.terminated, one.truncated) == (other.terminated, other.truncated)
    assert one.info["seed"] == other.info["seed"]


def one_line(error: pytest.ExceptionInfo[InputError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message
