"""Hyperparameters of A2C."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from imitate.configs.shared import LOG_STD_RANGE, Head
from imitate.errors import InputError, check_range

__all__ = ["A2CConfig"]


@dataclass(frozen=True)
class A2CConfig:
    """Hyperparameters of A2C."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "num_steps", "learning_rate", "gamma", "gae_lambda", "ent_coef", "vf_coef", "normalize_obs",
        "hidden",
    )  # fmt: skip

    total_steps: int = 100_000
    """Environment steps after which training and its schedules end; by default the run's budget."""
    num_steps: int = 8
    """Steps of each environment in a round; a return looks ahead no further before it bootstraps."""
    rounds_per_iteration: int = 16
    """Rounds (a rollout and an update each) per logged iteration."""
    learning_rate: float = 1e-3
    """Adam's step size at the start."""
    lr_schedule: Literal["constant", "linear"] = "linear"
    """`linear` decays to 0 by the end of the run."""
    gamma: float = 0.99
    """Discount."""
    gae_lambda: float = 1.0
    """Bias-variance trade-off of the advantages (arXiv:1506.02438); 1 is n-step returns."""
    standardize_advantages: bool = False
    """Standardise advantages in each rollout."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Gradients are clipped to this norm."""
    normalize_obs: bool = False
    """Standardise observations by running statistics."""
    normalize_rewards: bool = False
    """Divide rewards by the running standard deviation of the discounted return."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers; policy and value function each have their own."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the hidden layers."""
    head: Head | None = None
    """Policy head; by default categorical for discrete and clipped Gaussian for continuous actions."""
    log_std_init: float = 0.0
    """Log standard deviation of a Gaussian head at the start, in units of half the action range."""

    def __post_init__(self) -> None:
        check_range(self, 1, math.inf, "total_steps", "num_steps", "rounds_per_iteration")
        check_range(self, *LOG_STD_RANGE, "log_std_init")
        check_range(self, 0, math.inf, "learning_rate", "ent_coef", "vf_coef")
        check_range(self, 1e-6, math.inf, "max_grad_norm")
        if not 0 <= self.gamma <= 1 or not 0 <= self.gae_lambda <= 1:
            raise InputError(
                f"gamma and gae_lambda must be in [0, 1], got {self.gamma} and {self.gae_lambda}"
            )
