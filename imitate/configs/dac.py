"""Hyperparameters of DAC."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from imitate.configs.sac import SACConfig
from imitate.errors import InputError, check_range

__all__ = ["DACConfig"]


@dataclass(frozen=True)
class DACConfig(SACConfig):
    """Hyperparameters of DAC: those of SAC, and of its discriminator.

    The defaults of the discriminator are those that arXiv:2108.01867 found for ten demonstrations.
    """

    MAIN: ClassVar[tuple[str, ...]] = (
        "updates_per_step", "batch_size", "learning_starts", "learning_rate", "gamma", "reward", "absorbing",
        "discriminator_learning_rate", "discriminator_hidden", "mixup", "gradient_penalty",
    )  # fmt: skip

    gamma: float = 0.98
    """Discount."""
    tau: float = 0.02
    """Share of the critics in each update of their target."""
    layer_norm: bool = True
    """Normalise the critics' hidden layers. Without it, the values of the expert's pairs ran away on HalfCheetah."""
    average: float = 0.9997
    """Decay of the moving average of the policy's weights that is handed over. 0 hands over the last weights."""
    reward: Literal["positive", "negative", "logit", "plus_one", "minus_one"] = "logit"
    """`positive` -log(1 - D), `negative` log D, `logit` log D - log(1 - D); controls: `plus_one`, `minus_one`."""
    absorbing: bool = True
    """Continue terminated episodes in an absorbing state; without it, the length of episodes leaks into the reward."""
    demo_every: int = 1
    """Learn from each n-th step of the demonstrations only, and from the last one if that terminates the episode."""
    mix_demos: bool = True
    """SAC learns from the expert's half of a batch as well, otherwise only from its own."""
    discriminator_learning_rate: float = 1.3e-4
    """Adam's step size for the discriminator, which takes one step for each of the critics."""
    discriminator_hidden: int = 64
    """Width of its only hidden layer. A large one knows the demonstrations by heart."""
    discriminator_dropout: float = 0.5
    """Share of the hidden units that an update leaves out."""
    input_dropout: float = 0.05
    """Share of the inputs that an update leaves out."""
    weight_decay: float = 0.7
    """Decoupled decay of the discriminator's weights, times its step size."""
    spectral_norm: bool = False
    """Divide the discriminator's weights by their largest singular value (arXiv:1802.05957)."""
    mixup: float = 1.0
    """An update sees mixtures of the expert's pairs and the learner's, with shares from Beta(mixup, mixup)
    (arXiv:1710.09412). 0: the pairs themselves."""
    gradient_penalty: float = 0.4
    """Weight of the squared norm of the logit's gradient between the expert's pairs and the learner's."""
    entropy_bonus: float = 0.02
    """Weight of the entropy of D, which is maximised."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 1, math.inf, "discriminator_hidden", "demo_every")
        names = ("discriminator_learning_rate", "weight_decay", "mixup", "gradient_penalty", "entropy_bonus")
        check_range(self, 0, math.inf, *names)
        check_range(self, 0, 0.9, "discriminator_dropout", "input_dropout")
        if self.n_step != 1 or self.least_reward is not None:
            raise InputError(
                "the reward of a batch is the discriminator's: n_step must be 1, least_reward absent"
            )
        if self.batch_size < 2:
            raise InputError(
                f"half of a batch are demonstrations: batch_size at least 2, got {self.batch_size}"
            )
        if self.absorbing and self.gamma == 1:
            raise InputError(
                "an absorbing state is worth infinitely much at gamma 1: give less, or no absorbing"
            )
