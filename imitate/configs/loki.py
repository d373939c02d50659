"""Hyperparameters of LOKI."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from imitate.configs.aggrevated import TrialConfig
from imitate.configs.ppo import PPOConfig
from imitate.configs.shared import convert_fields
from imitate.errors import check_range

__all__ = ["LOKIConfig"]


def _fine_tuning() -> PPOConfig:
    return PPOConfig(num_steps=256, learning_rate=3e-4, target_kl=0.03, log_std_init=-1.5, value_warmup=4)


@dataclass(frozen=True)
class LOKIConfig:
    """Hyperparameters of LOKI."""

    MAIN: ClassVar[tuple[str, ...]] = ("imitation_steps", "guidance", "guidance_fraction")

    total_steps: int = 200_000
    """Environment steps of imitation and reinforcement together; by default the run's budget."""
    imitation_steps: int | None = None
    """Environment steps of AggreVaTeD at the start; by default a quarter of total_steps."""
    aggrevated: TrialConfig = field(default_factory=TrialConfig)
    """Settings of AggreVaTeD; its total_steps are imitation_steps."""
    ppo: PPOConfig = field(default_factory=_fine_tuning)
    """Settings of PPO; its policy takes over AggreVaTeD's hidden layers and input statistics. With head `squashed`, or
    with discrete actions, it is AggreVaTeD's policy itself."""
    guidance: float = 0.0
    """Weight of the expert's value in the advantages when reinforcement begins, 1 - lambda; 0 is plain PPO."""
    guidance_fraction: float = 0.5
    """Share of the reinforcement over which the guidance falls linearly to 0."""

    def __post_init__(self) -> None:
        convert_fields(self)
        check_range(self, 1, math.inf, "total_steps", "imitation_steps")
        check_range(self, 0, 1, "guidance", "guidance_fraction")
