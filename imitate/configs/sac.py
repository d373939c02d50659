"""Hyperparameters of SAC."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from imitate.configs.continuous import ContinuousConfig
from imitate.errors import InputError, check_range

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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 0, math.inf, "ent_coef")
        check_range(self, -math.inf, math.inf, "target_entropy")
        if self.ent_coef is not None and self.target_entropy is not None:
            raise InputError("target_entropy is for an ent_coef that adapts: leave one of them out")
        if not 0 < self.ent_coef_init < math.inf:
            raise InputError(
                f"ent_coef_init must be above 0, got {self.ent_coef_init}; give ent_coef 0 to leave the entropy out"
            )
