"""Hyperparameters of TQC."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from imitate.configs.continuous import ContinuousConfig
from imitate.configs.sac import SACConfig
from imitate.errors import InputError, check_range

__all__ = ["TQCConfig"]


@dataclass(frozen=True)
class TQCConfig(SACConfig):
    """Hyperparameters of TQC: those of SAC, and its quantiles."""

    MAIN: ClassVar[tuple[str, ...]] = (*ContinuousConfig.MAIN, "quantiles", "dropped")

    quantiles: int = 25
    """Quantiles of the return that each critic predicts."""
    dropped: int = 2
    """Quantiles of each critic, the highest of all together, that a target leaves out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 1, math.inf, "quantiles")
        if not 0 <= self.dropped < self.quantiles:
            raise InputError(f"dropped must be less than quantiles, got {self.dropped} of {self.quantiles}")
