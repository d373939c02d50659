"""Hyperparameters of AggreVaTeD: every form of it is a choice of these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from imitate.aggrevated.fqe import FQEConfig
from imitate.aggrevated.gate import GATE
from imitate.aggrevated.mixture import Per, Schedule
from imitate.errors import InputError, check_range
from imitate.nn.state import as_tuples

__all__ = ["AggreVaTeDConfig"]


@dataclass(frozen=True)
class AggreVaTeDConfig:
    """Hyperparameters of AggreVaTeD and AggreVaTe."""

    total_steps: int = 50_000
    """Environment steps to roll in; the run's budget unless given."""
    iterations: int = 25
    """Roll-ins that these are divided into."""
    updates_per_iteration: int = 300
    """Gradient steps after each roll-in."""
    final_updates: int = 5_000
    """Gradient steps after the last roll-in: the policy that is kept is fitted well, those that only roll in need not
    be."""
    alpha_schedule: Schedule = "exponential"
    """Expert's share in iteration n: linear 1 - rate n, exponential rate^n, inverse 1 / (n + 1), constant rate."""
    alpha_rate: float = 0.9
    """Rate of the schedule; ignored by `inverse`."""
    alpha_floor: float | None = None
    """The expert's share goes no lower; by default 0.3, and 0 where actions are discrete."""
    alpha_per: Per = "segment"
    """Who acts is drawn anew at every step, with `switch_probability` at a step, or for whole episodes."""
    switch_probability: float = 0.05
    """Of drawing anew who acts, at a step; for segments."""
    estimator: Literal["auto", "exact", "target", "reparameterised", "score", "executed", "regression"] = (
        "auto"
    )
    """Of the gradient: exact sum over discrete actions; regression to a target action, near the expert's, that A* says
    is better; reparameterised; score function with `samples` actions; score function with the roll-in's own actions.
    `regression` is AggreVaTe: fit A* and take its best action. auto: exact; where actions are continuous target, or
    reparameterised without an imitation term."""
    normalisation: Literal["none", "minmax", "standardise", "baseline", "gap", "learner_value"] = "gap"
    """Of Q*, in a minibatch: as it is; to [0, 1]; mean 0 and deviation 1; less its mean under the policy in each
    state; that, divided by the gap between the expert's actions and random ones. For `executed` also: less the value
    of the learner, which is fitted to its returns."""
    samples: int = 8
    """Actions drawn in each state by `score`."""
    importance: Literal["none", "ratio"] = "ratio"
    """Of `executed`: -log pi of whoever acted, or the clipped ratio to the policy that acted, as PPO's."""
    beta: float | None = None
    """Weight of the imitation term (DAgger's loss); by default 1, and 0.1 where actions are discrete."""
    delta: float = 0.5
    """Largest distance of a `target` from the expert's action, root mean square, in units of half the action range."""
    gate: float = GATE
    """Listen to the critic where it puts the expert's action above random ones in this share of the states; where not
    this is DAgger. 0: always."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus."""
    update: Literal["adam", "natural"] = "adam"
    """Adam, or the natural gradient with a limit on the KL divergence of each step."""
    kl_limit: float = 0.01
    """Of a natural-gradient step."""
    ema: float = 0.995
    """The policy that is kept is a moving average of the one that learns; share of the old in an update. 0: none."""
    batch_size: int = 256
    """Samples in a minibatch."""
    learning_rate: float = 1e-3
    """Adam's step size; in each iteration it shrinks to 0 over the updates, so that every policy has settled."""
    oracle: Literal["auto", "critic", "fqe", "td"] = "auto"
    """Where the expert's values come from: its own critic; one that is learned along the way, by fitted Q evaluation;
    differences of its V, with `executed` only. auto: its critic, or fqe where it has none."""
    fqe_updates: int = 500
    """Gradient steps of a critic that is learned along the way, after each roll-in."""
    fqe: FQEConfig = field(default_factory=FQEConfig)
    hidden: tuple[int, ...] = (128, 128)
    """Widths of the hidden layers."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the hidden layers."""
    log_std_init: float = -1.0
    """Log standard deviation of a Gaussian policy at the start."""

    def __post_init__(self) -> None:
        if isinstance(self.fqe, Mapping):  # of a preset, or of a run's config.json
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
        """Steps that remain after `env_steps`, at most `limit`, and the iterations that they are divided over: those
        from `iteration` on, fewer where `least` steps don't come to each. With 1 it is the last."""
        room = self.total_steps - env_steps
        room = room if limit is None else min(room, limit)
        return room, max(min(self.iterations - iteration, room // least), 1)

    def completed(self, discrete: bool) -> AggreVaTeDConfig:
        """What depends on the kind of actions filled in. Raises InputError where the estimator does not suit them, or
        needs values that the oracle has not."""
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
