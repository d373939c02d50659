"""Hyperparameters that PPO, A2C and REINFORCE share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from imitate.configs.shared import LOG_STD_RANGE, Head, convert_fields
from imitate.errors import check_range

__all__ = ["OnPolicyConfig"]


@dataclass(frozen=True)
class OnPolicyConfig:
    """Hyperparameters of every on-policy learner."""

    total_steps: int = 100_000
    """Environment steps after which training and its schedules end; by default the run's budget."""
    learning_rate: float = 1e-3
    """Adam's step size at the start."""
    lr_schedule: Literal["constant", "linear"] = "linear"
    """`linear` decays to 0 by the end of the run."""
    gamma: float = 0.99
    """Discount."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus."""
    max_grad_norm: float = 0.5
    """Gradients are clipped to this norm."""
    normalize_obs: bool = False
    """Standardise observations by running statistics."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers; policy and value function each have their own."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the hidden layers."""
    head: Head | None = None
    """Policy head; by default categorical for discrete and clipped Gaussian for continuous actions."""
    log_std_init: float = 0.0
    """Log standard deviation of a Gaussian head at the start, in units of half the action range. A given policy
    keeps its own."""
    std: Literal["learned", "fixed", "state"] = "learned"
    """Standard deviation of a Gaussian head: `learned` is a parameter, `fixed` stays at log_std_init, and `state` is an
    output of the network, which begins at log_std_init."""

    def __post_init__(self) -> None:
        convert_fields(self)
        check_range(self, 1, math.inf, "total_steps")
        check_range(self, 0, math.inf, "learning_rate", "ent_coef")
        check_range(self, 0, 1, "gamma")
        check_range(self, 1e-6, math.inf, "max_grad_norm")
        check_range(self, *LOG_STD_RANGE, "log_std_init")

    def learning_rate_at(self, progress: float) -> float:
        """The step size at this progress of the run, in [0, 1]."""
        return self.learning_rate * (1.0 - progress if self.lr_schedule == "linear" else 1.0)
