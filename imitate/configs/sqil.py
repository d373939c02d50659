"""Hyperparameters of SQIL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from imitate.configs.dqn import DQNConfig
from imitate.configs.shared import as_tuples
from imitate.errors import InputError

__all__ = ["SQILConfig"]


@dataclass(frozen=True)
class SQILConfig:
    """Hyperparameters of SQIL."""

    MAIN: ClassVar[tuple[str, ...]] = ("absorbing",)

    total_steps: int = 100_000
    """Environment steps after which training and its schedules end; by default the run's budget."""
    dqn: DQNConfig = field(default_factory=DQNConfig)
    """Settings of DQN; half of its batch_size are demonstrations."""
    absorbing: bool = True
    """Continue the expert's terminated episodes in an absorbing state, with the expert's reward."""

    def __post_init__(self) -> None:
        if isinstance(self.dqn, Mapping):  # from a preset or a run's config.json
            object.__setattr__(self, "dqn", DQNConfig(**as_tuples(self.dqn)))
        if self.dqn.batch_size < 2 or self.dqn.prioritized:
            raise InputError("half of a batch are demonstrations: batch_size at least 2, not prioritized")
        if self.absorbing and self.dqn.gamma == 1:
            raise InputError(
                "an absorbing state is worth infinitely much at gamma 1: give less, or no absorbing"
            )
