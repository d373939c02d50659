"""Strokes of a made-up ball, whose coordinate on each frame is given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from imitate.envs.paddle_hits import PADDLES, PaddleHits


class Ball(gym.Env[Any, Any]):
    """Pong whose ball is at these places after resets and steps."""

    observation_space = action_space = gym.spaces.Discrete(1)

    def __init__(self, *places: int) -> None:
        self.spec: Any = SimpleNamespace(kwargs={"game": "pong"})
        self.ale = SimpleNamespace(getRAM=self._memory)
        self._places = iter(places)

    def _memory(self) -> Any:
        memory = np.zeros(128, np.uint8)
        memory[PADDLES["pong"][0]] = next(self._places)
        return memory

    def reset(self, **_: Any) -> Any:
        return 0, {}

    def step(self, action: Any) -> Any:  # noqa: ARG002
        return 0, 0.0, False, False, {}


def hits(env: PaddleHits, steps: int) -> list[float]:
    env.reset()
    return [env.step(0)[1] for _ in range(steps)]


@pytest.mark.parametrize(("place", "reward"), [(179, 0.0), (180, 1.0), (184, 1.0), (185, 0.0)])
def test_a_stroke_turns_the_ball_from_180_on(place: int, reward: float) -> None:
    assert hits(PaddleHits(Ball(175, 185, place)), 2) == [0.0, reward]


def test_a_ball_that_rests_before_it_turns_is_one_hit() -> None:
    assert hits(PaddleHits(Ball(180, 185, 185, 184, 183)), 4) == [0.0, 0.0, 1.0, 0.0]


def test_a_game_does_not_begin_with_the_ball_of_the_last_one() -> None:
    """It approached there, and recedes here from the first frame on."""
    env = PaddleHits(Ball(180, 185, 190, 189))
    assert hits(env, 1) + hits(env, 1) == [0.0, 0.0]
