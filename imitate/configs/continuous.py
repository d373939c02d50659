"""Hyperparameters that SAC, TQC and TD3 share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from imitate.configs.shared import MOST_UPDATES, convert_fields
from imitate.errors import InputError, check_range

__all__ = ["ContinuousConfig"]


@dataclass(frozen=True)
class ContinuousConfig:
    """Hyperparameters of off-policy learners with continuous actions."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "num_steps", "updates_per_step", "batch_size", "replay_size", "learning_starts", "learning_rate",
        "gamma", "n_step", "layer_norm", "hidden",
    )  # fmt: skip

    total_steps: int = 100_000
    """Environment steps after which training and its schedules end; by default the run's budget."""
    num_steps: int = 8
    """Steps of each environment in a round."""
    updates_per_step: float = 1.0
    """Gradient steps of the critics for each environment step."""
    rounds_per_iteration: int = 64
    """Rounds between two lines of the log."""
    batch_size: int = 256
    """Samples in a gradient step; half of them are demonstrations if there are any (RLPD, arXiv:2302.02948)."""
    replay_size: int = 1_000_000
    """Steps that the replay remembers, over all environments."""
    learning_starts: int = 1_000
    """Steps of uniformly random actions before the first gradient step."""
    learning_rate: float = 3e-4
    """Adam's step size at the start."""
    lr_schedule: Literal["constant", "linear"] = "constant"
    """`linear` decays to 0 by the end of the run, for critics and policy; the temperature's stays."""
    gamma: float = 0.99
    """Discount."""
    tau: float = 0.005
    """Share of the critics in each update of their target."""
    n_step: int = 1
    """Rewards that a target sums before it bootstraps."""
    num_critics: int = 2
    """Critics. A target takes the least of their values; TQC's and guided's take all quantiles but the highest."""
    layer_norm: bool = False
    """Normalise the critics' hidden layers."""
    dropout: float = 0.0
    """Share of the critics' hidden units that a gradient step leaves out (DroQ, arXiv:2110.02034)."""
    least_reward: float | None = None
    """Lower rewards count as this in training, as published solvers of Hardcore do with the -100 of a fall."""
    actor_every: int = 1
    """Gradient steps of the critics for each one of the policy."""
    average: float = 0.0
    """Decay of the moving average of the policy's weights that is handed over. 0 hands over the last weights."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""

    def __post_init__(self) -> None:
        convert_fields(self)
        names = ("total_steps", "num_steps", "rounds_per_iteration", "batch_size", "n_step", "num_critics")
        check_range(self, 1, math.inf, *names, "learning_starts", "actor_every")
        check_range(self, 0, math.inf, "learning_rate")
        check_range(self, 0, MOST_UPDATES, "updates_per_step")
        check_range(self, 0, 1, "gamma", "tau", "average")
        check_range(self, 0, 0.9, "dropout")
        check_range(self, -math.inf, math.inf, "least_reward")
        if not self.hidden:
            raise InputError("hidden needs at least one layer")
        if self.learning_starts > self.replay_size // 2:
            raise InputError(
                f"learning_starts must be at most half of replay_size, got {self.learning_starts} of {self.replay_size}"
            )
