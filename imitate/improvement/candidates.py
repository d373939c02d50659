"""The learners that a search tries, and their runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gymnasium import spaces

from imitate.algorithms import Algorithm, find
from imitate.compare.plan.learners import base
from imitate.compare.plan.scaling import shortened
from imitate.envs.spaces import Space, is_plain
from imitate.improvement.task import Task
from imitate.training.experiment import Experiment

__all__ = ["CANDIDATES", "Candidate", "experiment", "imitates", "suited"]


@dataclass(frozen=True)
class Candidate:
    """A learner to try.

    name         of its learner, with a label if that is there twice
    imitates     it does not learn from rewards, so it ends near the expert
    least, most  an expert suits it whose share of the best known return is between these
    settings     those that differ from its preset here
    """

    name: str
    imitates: bool = False
    least: float = 0.0
    most: float = math.inf
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def algorithm(self) -> Algorithm:
        return find(base(self.name))


CANDIDATES = (
    Candidate("guided", settings={"test": 0.0}),  # the search has a test of its own
    Candidate("qdagger@undistilled", most=0.8, settings={"distill_coef": 0.0}),
    Candidate("qdagger"),
    Candidate("loki"),
    Candidate("guided@residual", least=0.8, settings={"test": 0.0, "residual": 0.2}),
    Candidate("dagger", imitates=True),
)
"""In the order in which they ended in benchmarks/RESULTS.md, best first; it decides where validation can't. The
residual has no row there.

Distillation may hold QDagger's student at a weak expert's level, so if only one can compete it is the one without.

LOKI's first quarter is AggreVaTeD, which is therefore no candidate of its own: the policy at LOKI's first rung is
AggreVaTeD's.
"""


def imitates(name: str) -> bool:
    """True if this candidate does not learn from rewards."""
    return any(candidate.imitates for candidate in CANDIDATES if candidate.name == name)


def suited(observations: Space, actions: Space, share: float | None) -> list[Candidate]:
    """The candidates that support these spaces, and suit an expert with this share of the best known return."""
    kind = "continuous" if isinstance(actions, spaces.Box) else "discrete"
    plain = is_plain(observations, actions)
    return [
        candidate
        for candidate in CANDIDATES
        if candidate.algorithm.actions in ("any", kind)
        and (plain or candidate.algorithm.structured)
        and (share is None or candidate.least <= share <= candidate.most)
    ]


def experiment(name: str, task: Task, env_kwargs: Mapping[str, Any], steps: int) -> Experiment:
    """The run of a candidate that is trained for so many steps: its preset, shortened to them.

    It does not validate: the search does, on episodes that all candidates share.
    """
    (settings,) = (candidate.settings for candidate in CANDIDATES if candidate.name == name)
    preset = Experiment.preset(base(name), task.env_id).changed(
        settings,
        env_kwargs=dict(env_kwargs),
        expert=task.expert,
        vecnormalize=task.vecnormalize,
        seed=task.seed,
        eval_every=0,
    )
    new, num_envs = shortened(preset.hyperparameters, preset.num_envs, steps, settings)
    return preset.changed(new, num_envs=num_envs, budget=steps)
