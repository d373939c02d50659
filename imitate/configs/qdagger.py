"""Hyperparameters of QDagger."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from imitate.configs.dqn import DQNConfig
from imitate.errors import check_range

__all__ = ["QDaggerConfig"]


@dataclass(frozen=True)
class QDaggerConfig(DQNConfig):
    """Hyperparameters of QDagger: DQN's and those of the teacher."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "teacher_steps", "offline_updates", "distill_coef", "temperature", "batch_size", "replay_size",
        "learning_rate", "hidden",
    )  # fmt: skip

    teacher_steps: int | None = None
    """Environment steps that the teacher plays at the start; by default a tenth of total_steps."""
    offline_updates: int = 5_000
    """Gradient steps on the teacher's steps before the student acts, in whole rounds of num_updates."""
    distill_coef: float = 1.0
    """Weight of the distillation loss at the start."""
    temperature: float = 0.3
    """Temperature of the softmax of action values, in units of their mean standard deviation over the actions."""
    exploration_fraction: float = 0.0
    """Share of the run over which epsilon decays linearly from 1; by default it is epsilon_final from the start."""
    layer_norm: bool = True
    """Normalise before each activation, without a learned scale; networks of pixels never do."""
    average: float = 0.9999
    """Decay of the moving average of weights that is handed over; 0: the weights themselves are."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 0, math.inf, "offline_updates", "distill_coef")
        check_range(self, 1e-6, math.inf, "temperature")
        check_range(self, 1, math.inf, "teacher_steps")
