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
    """Hyperparameters of TD3."""

    MAIN: ClassVar[tuple[str, ...]] = (*ContinuousConfig.MAIN, "exploration_noise")

    actor_every: int = 2
    """Gradient steps of the critics for each one of the policy."""
    exploration_noise: float = 0.1
    """Standard deviation of the noise on executed actions, in units of half the action range."""
    target_noise: float = 0.2
    """Standard deviation of the noise on the actions of targets."""
    target_noise_clip: float = 0.5
    """That noise is clipped to this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 0, math.inf, "exploration_noise", "target_noise", "target_noise_clip")
