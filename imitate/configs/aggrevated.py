"""Hyperparameters of AggreVaTeD; each of its variants is a choice of these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Self

from imitate.configs.dagger import DAggerConfig
from imitate.configs.fqe import FQEConfig
from imitate.configs.shared import as_tuples
from imitate.errors import InputError, check_range

__all__ = ["GATE", "AggreVaTeDConfig"]

GATE = 2 / 3
"""In our measurements useful critics had an openness of 0.71 to 0.98, misleading ones 0.35 to 0.61."""


@dataclass(frozen=True)
class AggreVaTeDConfig(DAggerConfig):
    """Hyperparameters of AggreVaTeD and AggreVaTe: DAgger's and those of the critic."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "iterations", "updates_per_iteration", "final_updates", "learning_rate", "hidden", "estimator",
        "beta", "delta", "gate", "trial", "oracle",
    )  # fmt: skip

    estimator: Literal["auto", "exact", "target", "reparameterised", "score", "executed", "regression"] = (
        "auto"
    )
    """Estimator of the gradient. `exact`: sum over discrete actions. `target`: regression to an action near the
    expert's that A* rates higher. `reparameterised`: through the sampled action. `score`: score function with
    `samples` actions. `executed`: score function with the roll-in's own actions. `regression`: AggreVaTe's, fit A* and
    take its best action. `auto`: exact for discrete actions; for continuous ones target, or reparameterised if beta
    is 0."""
    normalisation: Literal["none", "minmax", "standardise", "baseline", "gap", "learner_value"] = "gap"
    """Normalisation of Q* in a minibatch. `none`: unchanged. `minmax`: to [0, 1]. `standardise`: to mean 0 and
    deviation 1. `baseline`: minus its mean under the policy in each state. `gap`: baseline, divided by the gap between
    the expert's actions and random ones. `learner_value` (for `executed`): minus the learner's value."""
    samples: int = 8
    """Actions drawn in each state by `score`."""
    importance: Literal["none", "ratio"] = "ratio"
    """Loss of `executed`. `none`: -log pi of the actions of expert and learner. `ratio`: PPO's clipped probability
    ratio, for the learner's actions only."""
    beta: float | None = None
    """Weight of the imitation term (DAgger's loss); by default 1 for continuous and 0.1 for discrete actions."""
    delta: float = 0.5
    """Largest root-mean-square distance of a `target` from the expert's action, in units of half the action range."""
    line_search: bool | None = None
    """Let the critic choose in each state how much of the step to a `target` to take: all, 1/2, 1/4 or none. By default
    only a fitted critic does: an expert's own often rates the expert's action highest, and Hopper lost returns."""
    gate: float = GATE
    """Use the critic only if it rates the expert's action above random ones in this share of the states; otherwise
    train as DAgger does. 0: always use it."""
    trial: float = 0.2
    """Share of the steps in which the policy and DAgger's, trained on the same states, play against each other. If
    DAgger's mean return is higher by 1.645 standard errors and by 3 %, it is kept. 0: no trial."""
    aggregate: bool = True
    """Learn from the states of all roll-ins; otherwise from those of the last one only, as the paper does."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus."""
    update: Literal["adam", "natural"] = "adam"
    """`adam`, or `natural` for the natural gradient with a limit on the KL divergence of each step."""
    kl_limit: float = 0.01
    """Largest KL divergence of a natural-gradient step."""
    oracle: Literal["auto", "critic", "fqe", "td"] = "auto"
    """Source of the expert's values. `critic`: its own critic. `fqe`: a critic learned during training by fitted Q
    evaluation. `td`: differences of its V, with estimator `executed` only. `auto`: critic if it has one, else fqe."""
    fqe_updates: int = 500
    """Gradient steps of the `fqe` critic after each roll-in."""
    fqe: FQEConfig = field(default_factory=FQEConfig)
    hidden: tuple[int, ...] = (128, 128)
    """Widths of the hidden layers. Wide ones follow a poor teacher more closely and learn less from its critic."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the hidden layers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.fqe, Mapping):  # from a preset or a run's config.json
            object.__setattr__(self, "fqe", FQEConfig(**as_tuples(self.fqe)))
        check_range(self, 1, math.inf, "samples")
        check_range(self, 0, math.inf, "delta", "ent_coef", "kl_limit", "fqe_updates")
        check_range(self, 0, 1, "gate", "trial")
        if self.beta is not None:
            check_range(self, 0, math.inf, "beta")
        if self.estimator == "target" and self.beta == 0:
            raise InputError(
                "estimator 'target' with beta 0 learns nothing, since beta weighs its only loss: "
                "use a beta above 0, or estimator reparameterised"
            )

    def completed(self, discrete: bool) -> Self:
        """This config with the defaults that depend on the kind of actions filled in.

        Raises InputError if the estimator does not suit the actions, or needs values that the oracle lacks.
        """
        beta = self.beta if self.beta is not None else 0.1 if discrete else 1.0
        continuous = "target" if beta else "reparameterised"
        best: Any = "executed" if self.oracle == "td" else "exact" if discrete else continuous
        estimator = best if self.estimator == "auto" else self.estimator
        if self.oracle == "td" and estimator != "executed":
            raise InputError(
                f"estimator {estimator!r} does not go with oracle 'td', which values executed actions only: "
                "use estimator executed, or oracle critic or fqe"
            )
        if estimator in (("target", "reparameterised") if discrete else ("exact", "regression")):
            fitting = "exact, score or regression" if discrete else "target, reparameterised or score"
            kind = "discrete" if discrete else "continuous"
            raise InputError(f"estimator {estimator!r} does not fit {kind} actions: use {fitting}")
        return replace(super().completed(discrete), beta=beta, estimator=estimator)

    def without_critic(self) -> DAggerConfig:
        """DAgger's settings: the same data and updates, with DAgger's own network."""
        own = {"hidden", "activation"}
        shared = {each.name: getattr(self, each.name) for each in fields(DAggerConfig)}
        return DAggerConfig(**{name: value for name, value in shared.items() if name not in own})
