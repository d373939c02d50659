"""Pong and Breakout with another reward: 1 for each stroke of the player's paddle, and nothing for points."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from imitate.errors import InputError

__all__ = ["PADDLES", "PaddleHits"]

PADDLES = {"pong": (49, 180), "breakout": (101, 170)}
"""By game: the byte of the console's memory with the coordinate of the ball that grows towards the player's paddle, and
the value from which on the ball is near it. The paddle is at 188 in Pong and at 177 in Breakout."""


class PaddleHits(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Rewards 1 on each frame on which the ball turns away from the player's paddle, else 0.

    A hit is a frame on which the ball moves away from that paddle, having moved towards it before, and is still near
    it. Strokes of the other paddle, walls and bricks do not count, since they are far from it, and neither does a ball
    that is lost or served, since its coordinate jumps to a place far away. Games end as they do otherwise.

    It wraps the emulator, which skips no frames; the preprocessing adds up the hits of the frames that it skips.

    Raises InputError for other games.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        game = env.spec.kwargs["game"] if env.spec else ""
        if game not in PADDLES:
            raise InputError(f"paddle hits are known in {' and '.join(PADDLES)}, not in {game}")
        self._byte, self._near = PADDLES[game]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        answer = super().reset(seed=seed, options=options)
        self._ball, self._approaches = self._coordinate(), False
        return answer

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, _, terminated, truncated, info = super().step(action)
        before, self._ball = self._ball, self._coordinate()
        turned = self._approaches and self._ball < before
        if self._ball != before:
            self._approaches = self._ball > before
        return obs, float(turned and self._ball >= self._near), terminated, truncated, info

    def _coordinate(self) -> int:
        return int(self.unwrapped.ale.getRAM()[self._byte])  # type: ignore[attr-defined]
