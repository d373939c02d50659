"""Hyperparameters of SAC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from imitate.configs.continuous import ContinuousConfig

__all__ = ["SACConfig"]


@dataclass(frozen=True)
class SACConfig(ContinuousConfig):
    """Hyperparameters of SAC."""

    MAIN: ClassVar[tuple[str, ...]] = (*ContinuousConfig.MAIN, "ent_coef")

    ent_coef: float | None = None
    """Weight of the entropy in the reward; by default it adapts until the policy's entropy is `target_entropy`."""
    ent_coef_init: float = 1.0
    """Weight at the start, if it adapts."""
    target_entropy: float | None = None
    """By default minus the number of action dimensions (arXiv:1812.05905)."""
