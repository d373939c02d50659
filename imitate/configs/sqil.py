"""Hyperparameters of SQIL."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from imitate.configs.dqn import DQNConfig
from imitate.configs.sac import SACConfig
from imitate.configs.shared import convert_fields
from imitate.errors import InputError, check_range

__all__ = ["SQILConfig"]


def _on_sac() -> SACConfig:
    return SACConfig(gamma=0.985, learning_rate=2e-4)


@dataclass(frozen=True)
class SQILConfig:
    """Hyperparameters of SQIL."""

    MAIN: ClassVar[tuple[str, ...]] = ("absorbing", "demo_every")

    total_steps: int = 100_000
    """Environment steps after which training and its schedules end; by default the run's budget."""
    dqn: DQNConfig = field(default_factory=DQNConfig)
    """Settings of DQN, which learns discrete actions; half of its batch_size are demonstrations."""
    sac: SACConfig = field(default_factory=_on_sac)
    """Settings of SAC, which learns continuous actions; half of its batch_size are demonstrations."""
    absorbing: bool = True
    """Continue the expert's terminated episodes in an absorbing state, with the expert's reward."""
    demo_every: int = 1
    """Learn from each n-th step of the demonstrations only, and from the last one if that terminates the episode."""

    def __post_init__(self) -> None:
        convert_fields(self)
        check_range(self, 1, math.inf, "total_steps", "demo_every")
        if min(self.dqn.batch_size, self.sac.batch_size) < 2 or self.dqn.prioritized:
            raise InputError("half of a batch are demonstrations: batch_size at least 2, not prioritized")
        if self.sac.least_reward is not None:
            raise InputError("the rewards are SQIL's own, 1 and 0: leave least_reward out")
        if self.absorbing and 1 in (self.dqn.gamma, self.sac.gamma):
            raise InputError(
                "an absorbing state is worth infinitely much at gamma 1: give less, or no absorbing"
            )
