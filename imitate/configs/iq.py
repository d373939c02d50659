"""Hyperparameters of IQ-Learn."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from imitate.configs.dqn import DQNConfig
from imitate.configs.sac import SACConfig
from imitate.configs.shared import convert_fields
from imitate.errors import InputError, check_range

__all__ = ["IQConfig"]


def _on_dqn() -> DQNConfig:
    return DQNConfig(n_step=1, double=False, epsilon_final=0.0, exploration_fraction=0.02)


def _on_sac() -> SACConfig:
    return SACConfig(num_critics=1)


@dataclass(frozen=True)
class IQConfig:
    """Hyperparameters of IQ-Learn."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "ent_coef", "chi2", "least_squares", "expert_value", "clip_targets", "absorbing", "demo_every",
        "actor_learning_rate",
    )  # fmt: skip

    total_steps: int = 100_000
    """Environment steps after which training and its schedules end; by default the run's budget."""
    dqn: DQNConfig = field(default_factory=_on_dqn)
    """Settings of DQN, whose networks and replay learn discrete actions."""
    sac: SACConfig = field(default_factory=_on_sac)
    """Settings of SAC, whose networks and replay learn continuous actions, with one critic."""
    ent_coef: float = 0.01
    """Temperature: weight of the policy's entropy."""
    chi2: float = 0.5
    """Weight of the square of the implied reward, on both halves of a batch; rewards are then at most 1 / chi2."""
    least_squares: bool = True
    """LS-IQ: lower the implied rewards of the learner's steps; without it, IQ-Learn lowers the values of all states."""
    expert_value: bool = False
    """LS-IQ: fit the values of the expert's actions to the value of that highest reward forever, without a target."""
    clip_targets: bool = True
    """Clip the values of next states to those that rewards between -1 / chi2 and 1 / chi2 can give."""
    absorbing: bool = True
    """Continue terminated episodes in an absorbing state; without it, their ends are worth 0."""
    demo_every: int = 1
    """Learn from each n-th step of the demonstrations only, and from the last one if that terminates the episode."""
    actor_learning_rate: float = 3e-5
    """Adam's step size for the policy, if actions are continuous; the critic's is `sac.learning_rate`."""

    def __post_init__(self) -> None:
        convert_fields(self)
        check_range(self, 1, math.inf, "total_steps", "demo_every")
        check_range(self, 0, math.inf, "actor_learning_rate")
        check_range(self, 1e-6, math.inf, "ent_coef", "chi2")
        if min(self.dqn.batch_size, self.sac.batch_size) < 2 or self.dqn.prioritized:
            raise InputError("half of a batch are demonstrations: batch_size at least 2, not prioritized")
        if {self.dqn.n_step, self.sac.n_step} != {1} or self.sac.least_reward is not None or self.dqn.double:
            raise InputError(
                "IQ-Learn uses no rewards and soft values: n_step must be 1, least_reward absent, double False"
            )
        if self.sac.ent_coef is not None:
            raise InputError(
                f"IQ-Learn has one temperature, got {self.sac.ent_coef}: leave sac.ent_coef out and set ent_coef"
            )
        if self.dqn.huber != DQNConfig.huber:
            raise InputError("IQ-Learn has a loss of its own: leave dqn.huber out")
        if self.expert_value and not self.least_squares:
            raise InputError("expert_value is a part of LS-IQ: add least_squares")
        if 1 in (self.dqn.gamma, self.sac.gamma):
            raise InputError("an absorbing state is worth infinitely much at gamma 1: give less")
