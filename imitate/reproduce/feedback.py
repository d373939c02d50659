"""Hand-written experts for the plates: the signs of a linear feedback, one sum for each axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from imitate.envs.spaces import Array

__all__ = ["Feedback", "light", "tilt", "tilt_and_rates"]


@dataclass(frozen=True)
class Feedback:
    """Weights of the ball's position and velocity, the plate's tilt and its rates; these must be observed unless their
    weight is 0."""

    position: float
    velocity: float
    angle: float
    rate: float = 0.0

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        """Observations (N, 8) or (N, 10) of a plate to its actions (N,)."""
        x, y, _, vx, vy, _, about_x, about_y = obs[:, :8].T
        sum_x = self.position * y + self.velocity * vy - self.angle * about_x
        sum_y = self.position * x + self.velocity * vx + self.angle * about_y
        if self.rate:
            sum_x, sum_y = sum_x - self.rate * obs[:, 8], sum_y + self.rate * obs[:, 9]
        actions: Array = 2 * (sum_x > 0).astype(np.int64) + (sum_y < 0)
        return actions


def light() -> Feedback:
    """For the damped plate."""
    return Feedback(4, 2, 1)


def tilt() -> Feedback:
    """For the heavy plates, whose rates are not observed."""
    return Feedback(2, 1, 16)


def tilt_and_rates() -> Feedback:
    """For the heavy plates with `observe_rates`."""
    return Feedback(2, 2, 12, 12)
