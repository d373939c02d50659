"""Hyperparameters of fitted Q evaluation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from imitate.configs.shared import convert_fields
from imitate.errors import InputError, check_range

__all__ = ["FQEConfig"]


@dataclass(frozen=True)
class FQEConfig:
    """Hyperparameters of fitted Q evaluation."""

    hidden: tuple[int, ...] = (128, 128)
    """Widths of each critic's hidden layers (ReLU)."""
    learning_rate: float = 1e-3
    """Adam's step size."""
    tau: float = 0.01
    """Share of the critics in each update of the target critics."""
    gamma: float = 0.99
    """Discount."""
    n_step: int = 1
    """Maximum number of rewards that a target sums before it bootstraps. It stops early when another policy acts, so
    that no other policy's action biases it. Larger values approach the true values sooner, but did not raise
    returns."""
    batch_size: int = 256
    """Steps in a minibatch."""
    target: Literal["mean", "min"] = "mean"
    """Combination of the two target critics; `min` helps little here, since evaluation takes no maximum over
    actions."""

    def __post_init__(self) -> None:
        convert_fields(self)
        check_range(self, 1, math.inf, "n_step", "batch_size")
        check_range(self, 0, math.inf, "learning_rate")
        check_range(self, 0, 1, "tau", "gamma")
        if any(width < 1 for width in self.hidden):
            raise InputError(f"hidden layers need a width of at least 1, got {list(self.hidden)}")
