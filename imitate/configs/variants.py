"""Hyperparameters of AggreVaTeD's variants; each variant is a choice of values for these."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from imitate.configs.aggrevated import AggreVaTeDConfig
from imitate.configs.dagger import DAggerConfig
from imitate.errors import InputError, check_range

__all__ = ["VariantConfig"]


@dataclass(frozen=True)
class VariantConfig(AggreVaTeDConfig):
    """Hyperparameters of AggreVaTeD's variants: AggreVaTeD's, and the choice of an estimator."""

    MAIN: ClassVar = (*AggreVaTeDConfig.MAIN, "estimator", "normalisation", "update")

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
    td: bool = False
    """Value executed actions by differences of the expert's V, in place of a critic."""
    std: Literal["learned", "fixed"] = "learned"
    """Standard deviation of a Gaussian: `fixed` stays at log_std_init."""
    aggregate: bool = True
    """Learn from the states of all roll-ins; otherwise from those of the last one only, as the paper does."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus."""
    update: Literal["adam", "natural"] = "adam"
    """`adam`, or `natural` for the natural gradient with a limit on the KL divergence of each step."""
    kl_limit: float = 0.01
    """Wanted KL divergence of a natural-gradient step; it is at most 1.5 times this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 1, math.inf, "samples")
        check_range(self, 0, math.inf, "ent_coef", "kl_limit")
        if self.estimator == "target" and self.beta == 0:
            raise InputError(
                "estimator 'target' with beta 0 learns nothing, since beta weighs its only loss: "
                "use a beta above 0, or estimator reparameterised"
            )
        if self.td and self.estimator not in ("auto", "executed"):
            raise InputError(
                f"estimator {self.estimator!r} does not go with td, which values executed actions only: "
                "use estimator executed, or leave td out"
            )

    def completed(self, discrete: bool) -> Self:
        """This config with the defaults that depend on the kind of actions filled in.

        Raises InputError if the estimator or the deviation does not suit the actions.
        """
        if discrete and self.std == "fixed":
            raise InputError("std 'fixed' is for a Gaussian, and the actions are discrete; leave it out")
        beta = self.beta if self.beta is not None else 0.1 if discrete else 1.0
        continuous = "target" if beta else "reparameterised"
        best: Any = "executed" if self.td else "exact" if discrete else continuous
        estimator = best if self.estimator == "auto" else self.estimator
        if estimator in (("target", "reparameterised") if discrete else ("exact", "regression")):
            fitting = "exact, score or regression" if discrete else "target, reparameterised or score"
            kind = "discrete" if discrete else "continuous"
            raise InputError(f"estimator {estimator!r} does not fit {kind} actions: use {fitting}")
        if self.normalisation == "learner_value" and estimator != "executed":
            raise InputError(f"normalisation learner_value is for estimator executed, got {estimator!r}")
        return replace(DAggerConfig.completed(self, discrete), beta=beta, estimator=estimator)
