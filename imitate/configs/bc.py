"""Hyperparameters of BC: behavioural cloning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from imitate.configs.shared import LOG_STD_RANGE, check_ema, convert_fields
from imitate.errors import InputError, check_range

__all__ = ["BCConfig"]


@dataclass(frozen=True)
class BCConfig:
    """Hyperparameters of behavioural cloning."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "max_updates", "max_epochs", "demo_pairs", "batch_size", "learning_rate", "weight_decay",
        "normalize_obs", "hidden", "activation",
    )  # fmt: skip

    max_updates: int = 20_000
    """Gradient steps, unless `max_epochs` passes over the demonstrations take fewer."""
    max_epochs: int = 500
    """Maximum number of passes over the demonstrations."""
    demo_pairs: int | None = None
    """Number of (s, a) pairs to draw from the demonstrations, by the seed; by default all."""
    demo_every: int = 1
    """Learn from each n-th step of the demonstrations only, and from the last one if that terminates the episode."""
    holdout: float = 0.05
    """Share of the episodes held out to report the loss on them. None are held out if there are fewer than 1 / holdout,
    or with demo_pairs or demo_every."""
    batch_size: int | None = None
    """Samples in a minibatch; by default 64 for continuous and 256 for discrete actions."""
    learning_rate: float | None = None
    """Adam's step size at the start, which decays linearly to 0; by default 0.003 for continuous and 0.001 for discrete
    actions."""
    ema: float = 0.995
    """Decay of the moving average of weights that is the policy; 0: no averaging."""
    weight_decay: float = 0.1
    """Decoupled weight decay (arXiv:1711.05101); with few demonstrated states it makes failures rarer."""
    normalize_obs: bool = True
    """Standardise observations by the statistics of the demonstrations."""
    whiten: bool | None = None
    """Decorrelate the standardised observations while training; by default only if there are at most 500 of them, of
    at most 1,000 numbers each."""
    hidden: tuple[int, ...] | None = None
    """Widths of the hidden layers; by default 256 256 for continuous and 64 64 for discrete actions."""
    activation: Literal["tanh", "relu"] | None = None
    """Activation of the hidden layers; by default relu for continuous and tanh for discrete actions."""
    members: int | None = None
    """Networks whose outputs are averaged; the policy is one network, that many times as wide. By default 5 for
    continuous actions of observations without pictures and parts, else 1."""
    log_std_init: float = -1.0
    """Log standard deviation of the Gaussian policy. Cloning leaves it unchanged; an RL run with `--init` uses it."""

    def __post_init__(self) -> None:
        convert_fields(self)
        if not 0 <= self.holdout < 1:
            raise InputError(f"holdout must be in [0, 1), got {self.holdout}")
        counts = ("max_epochs", "max_updates", "batch_size", "demo_pairs", "demo_every", "members")
        check_range(self, 1, math.inf, *counts)
        check_range(self, *LOG_STD_RANGE, "log_std_init")
        check_range(self, 0, math.inf, "learning_rate", "weight_decay")
        check_ema(self.ema)
        if self.whiten and not self.normalize_obs:
            raise InputError(
                "whiten decorrelates standardised observations: set normalize_obs, or leave whiten out"
            )

    def chosen(self, discrete: bool, mergeable: bool) -> tuple[int, float, int]:
        """Batch size, learning rate and members, or their defaults for the kind of actions.

        mergeable   several networks can become one
        """
        batch_size, learning_rate, members = (256, 1e-3, 1) if discrete else (64, 3e-3, 5 if mergeable else 1)
        return (
            self.batch_size or batch_size,
            learning_rate if self.learning_rate is None else self.learning_rate,
            self.members or members,
        )
