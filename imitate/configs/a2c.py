"""Hyperparameters of A2C."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from imitate.configs.on_policy import OnPolicyConfig
from imitate.errors import check_range

__all__ = ["A2CConfig"]


@dataclass(frozen=True)
class A2CConfig(OnPolicyConfig):
    """Hyperparameters of A2C."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "num_steps", "learning_rate", "gamma", "gae_lambda", "ent_coef", "vf_coef", "normalize_obs",
        "hidden",
    )  # fmt: skip

    num_steps: int = 8
    """Steps of each environment in a round; a return looks ahead no further before it bootstraps."""
    rounds_per_iteration: int = 16
    """Rounds (a rollout and an update each) per logged iteration."""
    gae_lambda: float = 1.0
    """Bias-variance trade-off of the advantages (arXiv:1506.02438); 1 is n-step returns."""
    standardize_advantages: bool = False
    """Standardise advantages in each rollout."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    normalize_rewards: bool = False
    """Divide rewards by the running standard deviation of the discounted return, and clip them to [-10, 10]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 1, math.inf, "num_steps", "rounds_per_iteration")
        check_range(self, 0, 1, "gae_lambda")
        check_range(self, 0, math.inf, "vf_coef")
