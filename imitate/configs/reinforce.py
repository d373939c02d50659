"""Hyperparameters of REINFORCE."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from imitate.configs.on_policy import OnPolicyConfig
from imitate.errors import check_range

__all__ = ["REINFORCEConfig"]


@dataclass(frozen=True)
class REINFORCEConfig(OnPolicyConfig):
    """Hyperparameters of REINFORCE."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "num_episodes", "learning_rate", "gamma", "baseline", "standardize_returns", "ent_coef",
        "normalize_obs", "hidden",
    )  # fmt: skip

    num_episodes: int = 16
    """Episodes in an iteration, over all environments."""
    batch_size: int | None = None
    """Samples in a gradient step; by default the whole iteration. With smaller batches, every gradient step after the
    first is slightly off-policy."""
    learning_rate: float = 5e-3
    """Adam's step size at the start."""
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
    max_grad_norm: float = math.inf
    """Gradients of the policy are clipped to this norm."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 1, math.inf, "num_episodes", "batch_size", "baseline_epochs", "baseline_batch_size")
        check_range(self, 0, math.inf, "baseline_learning_rate")
