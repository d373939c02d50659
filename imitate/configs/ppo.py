"""Hyperparameters of PPO and RPO."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from imitate.configs.shared import LOG_STD_RANGE, Head
from imitate.errors import InputError, check_range

__all__ = ["PPOConfig"]


@dataclass(frozen=True)
class PPOConfig:
    """Hyperparameters of PPO."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "num_steps", "num_epochs", "batch_size", "learning_rate", "gamma", "gae_lambda", "clip_coef",
        "ent_coef", "target_kl", "rpo_alpha", "normalize_obs", "hidden",
    )  # fmt: skip

    total_steps: int = 100_000
    """Environment steps after which training and its schedules end; by default the run's budget."""
    num_steps: int = 128
    """Steps of each environment in an iteration."""
    num_epochs: int = 10
    """Passes over each rollout."""
    batch_size: int = 256
    """Samples in a minibatch."""
    learning_rate: float = 3e-4
    """Adam's step size at the start."""
    lr_schedule: Literal["constant", "linear"] = "linear"
    """`linear` decays to 0 by the end of the run."""
    gamma: float = 0.99
    """Discount."""
    gae_lambda: float = 0.95
    """Bias-variance trade-off of the advantages (arXiv:1506.02438)."""
    clip_coef: float = 0.2
    """Half width of the range around 1 in which the probability ratio is not clipped."""
    clip_schedule: Literal["constant", "linear"] = "constant"
    """`linear` decays to 0 by the end of the run."""
    clip_value: bool = False
    """Also clip changes of the value function to clip_coef."""
    standardize_advantages: bool = True
    """Standardise advantages in each minibatch."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Gradients are clipped to this norm."""
    target_kl: float | None = None
    """End an iteration's updates once the approximate KL of a minibatch exceeds 1.5 times this, as SB3 does."""
    rpo_alpha: float = 0.0
    """Half width of RPO's perturbation of the Gaussian mean, in units of half the action range; 0 is PPO."""
    rpo_alpha_final: float | None = None
    """Value that rpo_alpha reaches linearly by the end of the run; by default rpo_alpha is constant."""
    normalize_obs: bool = True
    """Standardise observations by running statistics."""
    normalize_rewards: bool = True
    """Divide rewards by the running standard deviation of the discounted return."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers; policy and value function each have their own."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the hidden layers."""
    head: Head | None = None
    """Policy head; by default categorical for discrete and clipped Gaussian for continuous actions."""
    log_std_init: float = 0.0
    """Log standard deviation of a Gaussian head at the start, in units of half the action range."""
    value_warmup: int = 0
    """Iterations at the start that train only the value function; for a policy that is already trained."""

    def __post_init__(self) -> None:
        check_range(self, 1, math.inf, "total_steps", "num_steps", "num_epochs", "batch_size")
        check_range(self, *LOG_STD_RANGE, "log_std_init")
        check_range(self, 0, math.inf, "learning_rate", "clip_coef", "ent_coef", "vf_coef", "value_warmup")
        check_range(self, 1e-6, math.inf, "max_grad_norm")
        optional = [name for name in ("target_kl", "rpo_alpha_final") if getattr(self, name) is not None]
        check_range(self, 0, math.inf, "rpo_alpha", *optional)
        if self.batch_size < 2 and self.standardize_advantages:
            raise InputError(
                f"batch_size must be at least 2 to standardise advantages, got {self.batch_size}"
            )
        check_range(self, 0, 1, "gamma", "gae_lambda")

    def rpo_alpha_at(self, remaining: float) -> float:
        """rpo_alpha when this share of the run remains."""
        final = self.rpo_alpha if self.rpo_alpha_final is None else self.rpo_alpha_final
        return final + (self.rpo_alpha - final) * remaining
