"""Hyperparameters of AggreVaTeD."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Literal, Self

from imitate.configs.dagger import DAggerConfig
from imitate.configs.fqe import FQEConfig
from imitate.errors import InputError, check_range

__all__ = ["GATE", "AggreVaTeDConfig", "TrialConfig"]

GATE = 2 / 3
"""Threshold between useful critics, which had an openness of 0.71 to 0.98 in our measurements, and misleading ones
(0.35 to 0.61)."""


@dataclass(frozen=True)
class AggreVaTeDConfig(DAggerConfig):
    """Hyperparameters of AggreVaTeD: DAgger's and those of the critic."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "iterations", "updates_per_iteration", "final_updates", "learning_rate", "hidden", "beta", "delta", "gate",
        "oracle",
    )  # fmt: skip

    beta: float | None = None
    """Weight of the imitation term (DAgger's loss); by default 1 for continuous and 0.1 for discrete actions."""
    delta: float = 0.5
    """Largest root-mean-square step from the expert's action along the critic's gradient, in units of half the action
    range; only for continuous actions."""
    line_search: bool | None = None
    """Let the critic choose in each state how much of that step to take: all, 1/2, 1/4 or none. By default only a
    fitted critic does so; an expert's own critic often rates the expert's action highest, which lowered returns on
    Hopper."""
    gate: float = GATE
    """Use the critic only if it rates the expert's action above random ones in this share of the states; otherwise
    train as DAgger does. 0: always use it."""
    oracle: Literal["auto", "critic", "fqe"] = "auto"
    """Source of the expert's values. `critic`: its own critic. `fqe`: a critic learned during training by fitted Q
    evaluation. `auto`: critic if it has one, else fqe."""
    fqe_updates: int = 500
    """Gradient steps of the `fqe` critic after each roll-in."""
    fqe: FQEConfig = field(default_factory=FQEConfig)
    hidden: tuple[int, ...] = (128, 128)
    """Widths of the hidden layers. Wide ones follow a poor teacher more closely and learn less from its critic."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the hidden layers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 0, math.inf, "beta", "delta", "fqe_updates")
        check_range(self, 0, 1, "gate")

    def completed(self, discrete: bool) -> Self:
        """This config with the defaults that depend on the kind of actions filled in.

        Raises InputError if nothing would be learned.
        """
        beta = self.beta if self.beta is not None else 0.1 if discrete else 1.0
        if not beta and not discrete:
            raise InputError(
                "beta 0 learns nothing here, since beta weighs the only loss of continuous actions: use a beta above "
                "0, or aggrevated:beta-0"
            )
        return replace(super().completed(discrete), beta=beta)

    def without_critic(self) -> DAggerConfig:
        """DAgger's settings: the same data and updates, with DAgger's own network."""
        own = {"hidden", "activation"}
        shared = {each.name: getattr(self, each.name) for each in fields(DAggerConfig)}
        return DAggerConfig(**{name: value for name, value in shared.items() if name not in own})


@dataclass(frozen=True)
class TrialConfig(AggreVaTeDConfig):
    """Hyperparameters of AggreVaTeD, and of its trial against DAgger."""

    MAIN: ClassVar = (*AggreVaTeDConfig.MAIN, "trial")

    trial: float = 0.2
    """Share of the steps in which the policy and DAgger's, trained on the same states, play the same episodes. DAgger's
    policy is kept if its mean return is higher by 1.645 standard errors of the difference and by 3 %, and if at least
    half of the episodes could be played to their end. Both policies are trained until then. 0: no trial."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 0, 1, "trial")
