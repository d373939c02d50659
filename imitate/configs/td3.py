"""Hyperparameters of TD3."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from imitate.configs.continuous import ContinuousConfig
from imitate.errors import check_range

__all__ = ["TD3Config"]


@dataclass(frozen=True)
class TD3Config(ContinuousConfig):
    """Hyperparameters of TD3; noise is in units of half the range of an action."""

    MAIN: ClassVar[tuple[str, ...]] = (*ContinuousConfig.MAIN, "action_noise")

    learning_rate: float = 1e-3
    """Adam's step size at the start."""
    actor_every: int = 2
    """Gradient steps of the critics for each one of the policy and of all targets."""
    action_noise: float = 0.1
    """Standard deviation of the noise that explores."""
    target_noise: float = 0.2
    """Standard deviation of the noise of the target's actions."""
    noise_clip: float = 0.5
    """The target's noise is clipped to this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 0, math.inf, "action_noise", "target_noise", "noise_clip")
