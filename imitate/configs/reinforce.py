"""Hyperparameters of REINFORCE."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from imitate.configs.shared import LOG_STD_RANGE, Head
from imitate.errors import InputError, check_range

__all__ = ["REINFORCEConfig"]


@dataclass(frozen=True)
class REINFORCEConfig:
    """Hyperparameters of REINFORCE."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "num_episodes", "learning_rate", "gamma", "baseline", "standardize_returns", "ent_coef",
        "normalize_obs", "hidden",
    )  # fmt: skip

    total_steps: int = 100_000
    """Environment steps after which training and its schedules end; by default the run's budget."""
    num_episodes: int = 16
    """Episodes in an iteration, over all environments."""
    batch_size: int | None = None
    """Samples in a gradient step; by default the whole iteration. With smaller batches, every gradient step after the
    first is slightly off-policy."""
    learning_rate: float = 5e-3
    """Adam's step size at the start."""
    lr_schedule: Literal["constant", "linear"] = "linear"
    """`linear` decays to 0 by the end of the run."""
    gamma: float = 0.99
    """Discount."""
    baseline: bool = True
    """Subtract a learned value function from the returns."""
    baseline_epochs: int = 10
    """Passes over each iteration's returns to fit the baseline."""
    baseline_batch_size: int = 256
    """Samples in a minibatch of the baseline."""
    baseline_learning_rate: float = 1e-3
    """Adam's step size for the baseline."""
    standardize_returns: bool = True
    """Standardise the returns (after subtracting the baseline) over the iteration."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus."""
    max_grad_norm: float = math.inf
    """Gradients of the policy are clipped to this norm."""
    normalize_obs: bool = False
    """Standardise observations by running statistics."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers; policy and baseline each have their own."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the hidden layers."""
    head: Head | None = None
    """Policy head; by default categorical for discrete and clipped Gaussian for continuous actions."""
    log_std_init: float = 0.0
    """Log standard deviation of a Gaussian head at the start, in units of half the action range."""

    def __post_init__(self) -> None:
        check_range(
            self, 1, math.inf, "total_steps", "num_episodes", "baseline_epochs", "baseline_batch_size"
        )
        check_range(self, *LOG_STD_RANGE, "log_std_init")
        check_range(self, 0, math.inf, "learning_rate", "baseline_learning_rate", "ent_coef")
        check_range(self, 1e-6, math.inf, "max_grad_norm")
        if self.batch_size is not None and self.batch_size < 1:
            raise InputError(f"batch_size must be at least 1, or absent, got {self.batch_size}")
        if not 0 <= self.gamma <= 1:
            raise InputError(f"gamma must be in [0, 1], got {self.gamma}")
