"""Hyperparameters of PPO and RPO."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from imitate.configs.on_policy import OnPolicyConfig
from imitate.errors import InputError, check_range

__all__ = ["PPOConfig"]


@dataclass(frozen=True)
class PPOConfig(OnPolicyConfig):
    """Hyperparameters of PPO."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "num_steps", "num_epochs", "batch_size", "learning_rate", "gamma", "gae_lambda", "clip_coef",
        "ent_coef", "target_kl", "rpo_alpha", "normalize_obs", "hidden",
    )  # fmt: skip

    num_steps: int = 128
    """Steps of each environment in an iteration."""
    num_epochs: int = 10
    """Passes over each rollout."""
    batch_size: int = 256
    """Samples in a minibatch."""
    learning_rate: float = 3e-4
    """Adam's step size at the start."""
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
    vf_coef: float = 0.5
    """Weight of the value loss."""
    target_kl: float | None = None
    """End an iteration's updates once the approximate KL of a minibatch exceeds 1.5 times this, as SB3 does."""
    rpo_alpha: float = 0.0
    """Half width of RPO's perturbation of the Gaussian mean, in units of half the action range; 0 is PPO."""
    rpo_alpha_final: float | None = None
    """Value that rpo_alpha reaches linearly by the end of the run; by default rpo_alpha is constant."""
    rpo_in_rollout: bool = False
    """Also perturb the mean while acting, unlike the paper; the old log-probabilities are then of the moved mean."""
    reset_each_rollout: bool = False
    """Begin new episodes with every iteration, which cuts those that run; by default they go on."""
    normalize_obs: bool = True
    """Standardise observations by running statistics."""
    normalize_rewards: bool = True
    """Divide rewards by the running standard deviation of the discounted return, and clip them to [-10, 10]."""
    value_warmup: int = 0
    """Iterations at the start that train only the value function; for a policy that is already trained. A new policy of
    pixels shares its convolutions with the value function, so they learn too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 1, math.inf, "num_steps", "num_epochs", "batch_size")
        names = ("clip_coef", "vf_coef", "value_warmup", "rpo_alpha", "rpo_alpha_final", "target_kl")
        check_range(self, 0, math.inf, *names)
        check_range(self, 0, 1, "gae_lambda")
        if self.rpo_in_rollout and not self.perturbs:
            raise InputError(
                "rpo_in_rollout perturbs by rpo_alpha, which is 0: set it, or leave rpo_in_rollout out"
            )
        if self.batch_size < 2 and self.standardize_advantages:
            raise InputError(
                f"batch_size must be at least 2 to standardise advantages, got {self.batch_size}"
            )

    def clip_coef_at(self, progress: float) -> float:
        """clip_coef at this progress of the run, in [0, 1]."""
        return self.clip_coef * (1.0 - progress if self.clip_schedule == "linear" else 1.0)

    @property
    def perturbs(self) -> bool:
        """True for RPO, False for PPO."""
        return bool(self.rpo_alpha or self.rpo_alpha_final)

    def rpo_alpha_at(self, progress: float) -> float:
        """rpo_alpha at this progress of the run, in [0, 1]."""
        final = self.rpo_alpha if self.rpo_alpha_final is None else self.rpo_alpha_final
        return final + (self.rpo_alpha - final) * (1.0 - progress)
