"""Hyperparameters of TD3+BC."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from imitate.configs.shared import convert_fields
from imitate.errors import InputError, check_range

__all__ = ["TD3BCConfig"]


@dataclass(frozen=True)
class TD3BCConfig:
    """Hyperparameters of TD3+BC; the defaults are the paper's, but for fewer updates and for layer norm."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "max_updates", "alpha", "batch_size", "learning_rate", "gamma", "tau", "actor_every", "target_noise", "hidden",
    )  # fmt: skip

    max_updates: int = 100_000
    """Gradient steps of the critics; the paper takes a million."""
    alpha: float = 2.5
    """Weight of the critics against cloning; 0 is cloning alone."""
    batch_size: int = 256
    """Samples in a gradient step."""
    learning_rate: float = 3e-4
    """Adam's step size."""
    gamma: float = 0.99
    """Discount."""
    tau: float = 0.005
    """Share of the networks in each update of their targets."""
    actor_every: int = 2
    """Gradient steps of the critics for each one of the policy and of all targets."""
    target_noise: float = 0.2
    """Standard deviation of the noise of the target's actions, in units of half the range of an action."""
    noise_clip: float = 0.5
    """The target's noise is clipped to this."""
    updates_per_iteration: int = 1_000
    """Gradient steps between two lines of the log."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    layer_norm: bool = True
    """Normalise the critics' hidden layers, as ReBRAC does (arXiv:2305.09836): without it their values can grow without
    bounds where the record is narrow."""

    def __post_init__(self) -> None:
        convert_fields(self)
        check_range(self, 1, math.inf, "max_updates", "batch_size", "actor_every", "updates_per_iteration")
        check_range(self, 0, math.inf, "alpha", "learning_rate", "target_noise", "noise_clip")
        check_range(self, 0, 1, "gamma", "tau")
        if not self.hidden:
            raise InputError("hidden needs at least one layer")
