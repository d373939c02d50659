"""Hyperparameters of AggreVaTeD; each of its variants is a choice of these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from imitate.aggrevated.fqe import FQEConfig
from imitate.aggrevated.gate import GATE
from imitate.aggrevated.mixture import Per, Schedule
from imitate.errors import InputError, check_range
from imitate.nn.policy import LOG_STD_RANGE
from imitate.nn.state import as_tuples

__all__ = ["AggreVaTeDConfig"]


@dataclass(frozen=True)
class AggreVaTeDConfig:
    """Hyperparameters of AggreVaTeD and AggreVaTe."""

    total_steps: int = 50_000
    """Environment steps of all roll-ins together; by default the run's budget."""
    iterations: int = 25
    """Number of roll-ins that total_steps are divided into."""
    updates_per_iteration: int = 300
    """Gradient steps after each roll-in."""
    final_updates: int = 5_000
    """Gradient steps after the last roll-in; only the final policy needs a long fit."""
    alpha_schedule: Schedule = "exponential"
    """Expert's share in iteration n = 0, 1, ...: `linear` 1 - rate n, `exponential` rate^n, `inverse` 1 / (n + 1),
    `constant` rate."""
    alpha_rate: float = 0.9
    """Rate of the schedule; ignored by `inverse`."""
    alpha_floor: float | None = None
    """Smallest share of the expert; by default 0.3 for continuous and 0 for discrete actions."""
    alpha_per: Per = "segment"
    """When to draw whether expert or learner acts: at every `step`, with `switch_probability` at a step (`segment`), or
    once per `episode`."""
    switch_probability: float = 0.05
    """Probability of drawing again at a step; for `segment`."""
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
    gate: float = GATE
    """Use the critic only if it rates the expert's action above random ones in this share of the states; otherwise
    train as DAgger does. 0: always use it."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus."""
    update: Literal["adam", "natural"] = "adam"
    """`adam`, or `natural` for the natural gradient with a limit on the KL divergence of each step."""
    kl_limit: float = 0.01
    """Largest KL divergence of a natural-gradient step."""
    ema: float = 0.995
    """Decay of the moving average of weights that becomes the final policy; 0: no averaging."""
    batch_size: int = 256
    """Samples in a minibatch."""
    learning_rate: float = 1e-3
    """Adam's step size; within each iteration it decays to 0, so that every iteration ends with a settled policy."""
    oracle: Literal["auto", "critic", "fqe", "td"] = "auto"
    """Source of the expert's values. `critic`: its own critic. `fqe`: a critic learned during training by fitted Q
    evaluation. `td`: differences of its V, with estimator `executed` only. `auto`: critic if it has one, else fqe."""
    fqe_updates: int = 500
    """Gradient steps of the `fqe` critic after each roll-in."""
    fqe: FQEConfig = field(default_factory=FQEConfig)
    hidden: tuple[int, ...] = (128, 128)
    """Widths of the hidden layers."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the hidden layers."""
    log_std_init: float = -1.0
    """Log standard deviation of a Gaussian policy at the start."""

    def __post_init__(self) -> None:
        if isinstance(self.fqe, Mapping):  # from a preset or a run's config.json
            object.__setattr__(self, "fqe", FQEConfig(**as_tuples(self.fqe)))
        check_range(
            self,
            1,
            math.inf,
            "total_steps",
            "iterations",
            "updates_per_iteration",
            "final_updates",
            "batch_size",
            "samples",
        )
        check_range(self, *LOG_STD_RANGE, "log_std_init")
        check_range(self, 0, math.inf, "learning_rate", "delta", "ent_coef", "kl_limit", "fqe_updates")
        check_range(self, 0, 1, "alpha_rate", "switch_probability", "gate")
        if self.beta is not None:
            check_range(self, 0, math.inf, "beta")
        if self.alpha_floor is not None:
            check_range(self, 0, 1, "alpha_floor")
        if not 0 <= self.ema < 1:
            raise InputError(
                f"ema must be in [0, 1), got {self.ema}: at 1 the policy that is kept never learns"
            )
        if self.estimator == "target" and self.beta == 0:
            raise InputError(
                "estimator 'target' with beta 0 learns nothing, since beta weighs its only loss: "
                "use a beta above 0, or estimator reparameterised"
            )

    def plan(self, iteration: int, env_steps: int, limit: int | None, least: int) -> tuple[int, int]:
        """Steps that remain after `env_steps`, at most `limit`, and the number of iterations to divide them into.

        These are the iterations from `iteration` on, or fewer if each would get less than `least` steps. 1 means that
        the next iteration is the last.
        """
        room = self.total_steps - env_steps
        room = room if limit is None else min(room, limit)
        return room, max(min(self.iterations - iteration, room // least), 1)

    def completed(self, discrete: bool) -> AggreVaTeDConfig:
        """This config with the defaults that depend on the kind of actions filled in.

        Raises InputError if the estimator does not suit the actions, or needs values that the oracle lacks.
        """
        beta = self.beta if self.beta is not None else 0.1 if discrete else 1.0
        floor = self.alpha_floor if self.alpha_floor is not None else 0.0 if discrete else 0.3
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
        return replace(self, beta=beta, alpha_floor=floor, estimator=estimator)
