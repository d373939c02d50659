"""Hyperparameters of DQN."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from imitate.configs.shared import MOST_UPDATES, convert_fields
from imitate.errors import InputError, check_range

__all__ = ["DQNConfig"]


@dataclass(frozen=True)
class DQNConfig:
    """Hyperparameters of DQN."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "num_steps", "num_updates", "batch_size", "replay_size", "learning_starts", "learning_rate",
        "gamma", "n_step", "double", "epsilon_final", "exploration_fraction", "hidden",
    )  # fmt: skip

    total_steps: int = 100_000
    """Environment steps after which training and its schedules end; by default the run's budget."""
    num_steps: int = 4
    """Steps of each environment in a round."""
    num_updates: int = 16
    """Gradient steps in a round."""
    rounds_per_iteration: int = 32
    """Rounds between two lines of the log."""
    batch_size: int = 64
    """Samples in a gradient step."""
    replay_size: int = 100_000
    """Capacity of the replay in steps, over all environments. A replay of pixels is not saved in checkpoints."""
    learning_starts: int = 1_000
    """Steps in the replay before the first gradient step."""
    learning_rate: float = 5e-4
    """Adam's step size at the start."""
    lr_schedule: Literal["constant", "linear"] = "linear"
    """`linear` decays to 0 by the end of the run."""
    gamma: float = 0.99
    """Discount."""
    n_step: int = 3
    """Rewards that a target sums before it bootstraps."""
    double: bool = True
    """The online network chooses the next action and the target network values it."""
    dueling: bool = False
    """Separate streams for state value and advantages, each fed by half of the last hidden layer."""
    prioritized: bool = False
    """Sample in proportion to the last error instead of uniformly."""
    priority_alpha: float = 0.6
    """Exponent of the priorities; 0 is uniform."""
    priority_beta: float = 0.4
    """Exponent of the importance weights at the start; it rises linearly to 1 by the end of the run."""
    huber: float = 100.0
    """Threshold between squared and absolute error. Huber errors bias towards the median and miss rare terminations;
    set this near the typical |Q|."""
    target_every: int = 1
    """Gradient steps between updates of the target network."""
    tau: float = 0.005
    """Share of the online network in an update of the target network; 1 copies it."""
    epsilon_final: float = 0.05
    """Share of random actions at the end; it starts at 1."""
    exploration_fraction: float = 0.1
    """Share of the run over which epsilon decays linearly."""
    max_grad_norm: float = 10.0
    """Gradients are clipped to this norm."""
    average: float = 0.0
    """Decay of a moving average of weights, which is then handed over; 0: the weights themselves are."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    activation: Literal["tanh", "relu"] = "relu"
    """Activation of the hidden layers."""
    layer_norm: bool = False
    """Normalise before each activation, without a learned scale; networks of pixels never do."""
    bfloat16: bool = False
    """With pixels: multiply in bfloat16 below the output layer. On processors that support it, a gradient step takes
    two thirds of the time."""

    def __post_init__(self) -> None:
        convert_fields(self)
        names = ("total_steps", "num_steps", "rounds_per_iteration", "batch_size", "n_step")
        check_range(self, 1, math.inf, *names, "learning_starts", "target_every")
        check_range(self, 1, MOST_UPDATES, "num_updates")
        check_range(self, 0, math.inf, "learning_rate", "priority_alpha")
        check_range(self, 1e-6, math.inf, "huber", "max_grad_norm")
        check_range(
            self, 0, 1, "gamma", "tau", "epsilon_final", "exploration_fraction", "priority_beta", "average"
        )
        if self.learning_starts > self.replay_size // 2:
            raise InputError(
                f"learning_starts must be at most half of replay_size, got {self.learning_starts} of {self.replay_size}"
            )
