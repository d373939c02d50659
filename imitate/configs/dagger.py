"""Hyperparameters of DAgger."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from imitate.configs.shared import LOG_STD_RANGE, check_ema, convert_fields
from imitate.errors import check_range

__all__ = ["DAggerConfig", "Per", "Schedule"]

Per = Literal["step", "segment", "episode"]
Schedule = Literal["linear", "exponential", "inverse", "constant"]


@dataclass(frozen=True)
class DAggerConfig:
    """Hyperparameters of DAgger."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "iterations", "updates_per_iteration", "final_updates", "alpha_schedule", "alpha_rate",
        "alpha_floor", "batch_size", "learning_rate", "hidden", "activation",
    )  # fmt: skip

    total_steps: int = 50_000
    """Environment steps of all roll-ins together; by default the run's budget."""
    iterations: int = 25
    """Number of roll-ins that total_steps are divided into."""
    updates_per_iteration: int = 300
    """Gradient steps after each roll-in."""
    final_updates: int = 5_000
    """Gradient steps after the last roll-in; only the final policy needs a long fit."""
    alpha_schedule: Schedule = "exponential"
    """Expert's share in iteration n = 0, 1, ...: `linear` 1 - rate n, `exponential` rate^n, `inverse` 1 / (n + 1),
    `constant` rate."""
    alpha_rate: float = 0.9
    """Rate of the schedule; ignored by `inverse`."""
    alpha_floor: float | None = None
    """Smallest share of the expert; by default 0.3 for continuous and 0 for discrete actions."""
    alpha_per: Per = "segment"
    """Times at which it is drawn whether expert or learner acts: at every `step`, at a step with `switch_probability`
    (`segment`), or once per `episode`."""
    switch_probability: float = 0.05
    """Probability of drawing again at a step; only for `segment`."""
    ema: float = 0.995
    """Decay of the moving average of weights that is the policy; 0: no averaging."""
    batch_size: int = 256
    """Samples in a minibatch."""
    learning_rate: float = 1e-3
    """Adam's step size; within each iteration it decays to 0, so that every iteration ends with a settled policy."""
    hidden: tuple[int, ...] | None = None
    """Widths of the hidden layers; by default 256 256 for continuous and 64 64 for discrete actions."""
    activation: Literal["tanh", "relu"] | None = None
    """Activation of the hidden layers; by default relu for continuous and tanh for discrete actions."""
    log_std_init: float = -1.0
    """Log standard deviation of a Gaussian policy at the start; DAgger rolls in with it and leaves it unchanged."""

    def __post_init__(self) -> None:
        convert_fields(self)
        counts = ("total_steps", "iterations", "updates_per_iteration", "final_updates", "batch_size")
        check_range(self, 1, math.inf, *counts)
        check_range(self, *LOG_STD_RANGE, "log_std_init")
        check_range(self, 0, math.inf, "learning_rate")
        check_range(self, 0, 1, "alpha_rate", "alpha_floor", "switch_probability")
        check_ema(self.ema)

    def completed(self, discrete: bool) -> Self:
        """This config with the defaults that depend on the kind of actions filled in."""
        floor = self.alpha_floor if self.alpha_floor is not None else 0.0 if discrete else 0.3
        return replace(self, alpha_floor=floor)
