"""What a suite says as a whole: statistics of runs' scores over environments, as in arXiv:2108.13264.

A score is a run's mean return where 0 is random actions' and 1 the expert's; scores have the shape (S, tasks). Seeds
are drawn anew for each environment (stratified bootstrap), environments are not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy import stats

from imitate.compare.learners import title
from imitate.compare.outcome import Outcome, read_outcome
from imitate.compare.statistics import holm, improvement, iqm, optimality_gap, profile, resampled
from imitate.compare.suite import Suite
from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = ["THRESHOLDS", "Aggregate", "Estimate", "Lead", "SuiteOutcome", "leads", "read_suite", "together"]

THRESHOLDS = np.concatenate([np.linspace(0.0, 2.0, 81), np.geomspace(2.05, 100.0, 40)])
"""Scores at which performance profiles are computed; a page draws them up to the largest score."""


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval, NaN of one seed."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Aggregate:
    """A learner over all scored environments. scores (S, tasks); profile (K, 3): share of runs above each of
    THRESHOLDS, and its interval's ends; draws (count,): the bootstrap's interquartile means."""

    algorithm: str
    imitates: bool
    scores: Array
    iqm: Estimate
    mean: Estimate
    gap: Estimate
    profile: Array
    draws: Array = field(repr=False)

    @property
    def title(self) -> str:
        return title(self.algorithm)


@dataclass(frozen=True)
class Lead:
    """Learner a compared with b.

    iqm          interquartile mean of a minus that of b
    improvement  probability that a run of a ends better than one of b, averaged over the environments
    p            of no difference in the IQM, Holm-corrected over all pairs
    """

    a: str
    b: str
    iqm: Estimate
    improvement: Estimate
    p: float

    @property
    def certain(self) -> bool:
        return self.p < 0.05


@dataclass(frozen=True)
class SuiteOutcome:
    """All comparisons of a suite that have results, by name.

    scored      those whose expert is better than random actions, in which scores mean something
    aggregates  learners that came to an end in all of these, by their interquartile mean
    partly      names of the others
    """

    name: str
    outcomes: Mapping[str, Outcome]
    scored: Sequence[str]
    aggregates: Sequence[Aggregate]
    partly: Sequence[str]
    absent: Sequence[str]

    @property
    def order(self) -> list[str]:
        """All learners, in the order in which the comparisons name them. Colours go by it."""
        names = [name for outcome in self.outcomes.values() for name in outcome.comparison.algorithms]
        return list(dict.fromkeys(names))

    @property
    def seeds(self) -> int:
        """How many seeds every learner in the aggregate has in every environment."""
        return min((len(each.scores) for each in self.aggregates), default=0)


def read_suite(*folders: Path) -> SuiteOutcome:
    """What lies in the folder of a suite, or in several, whose comparisons of one name are put together.

    Raises InputError where a folder holds no suite, where parts do not fit together, or nothing came to an end.
    """
    suites = [Suite.read(folder) for folder in folders]
    outcomes: dict[str, Outcome] = {}
    absent: list[str] = []
    for label in dict.fromkeys(label for suite in suites for label in suite.parts):
        having = [
            folder / label
            for folder, suite in zip(folders, suites, strict=True)
            if label in suite.parts and (folder / label / "runs.json").is_file()
        ]
        outcome = read_outcome(*having) if having else None
        if outcome is None or not outcome.learners:
            absent.append(label)
        else:
            outcomes[label] = outcome
    if not outcomes:
        raise InputError(f"no learner in {folders[0]} came to an end, there is nothing to report")
    return together(suites[0].name, outcomes, absent)


def together(suite: str, outcomes: Mapping[str, Outcome], absent: Sequence[str] = ()) -> SuiteOutcome:
    """What comparisons with at least one learner say as a whole; one is enough."""
    scored = [label for label, outcome in outcomes.items() if outcome.share(0.0) is not None]
    names = dict.fromkeys(name for outcome in outcomes.values() for name in outcome.comparison.algorithms)
    found = {name: _aggregate(name, [outcomes[label] for label in scored], n) for n, name in enumerate(names)}
    complete = sorted((each for each in found.values() if each is not None), key=lambda each: -each.iqm.value)
    partly = [name for name, each in found.items() if each is None]
    return SuiteOutcome(suite, outcomes, scored, complete, partly, absent)


def _aggregate(name: str, outcomes: Sequence[Outcome], number: int) -> Aggregate | None:
    """None where a learner has no result in one of them. `number` gives each learner draws of its own."""
    columns: list[list[float]] = []
    imitates = False
    for outcome in outcomes:
        entry = next((entry for entry in outcome.learners if entry.algorithm == name), None)
        if entry is None:
            return None
        imitates = imitates or entry.imitates
        columns.append([outcome.share(result.mean) or 0.0 for result in entry.results])
    if not columns:
        return None
    seeds = min(map(len, columns))
    scores = np.array([column[:seeds] for column in columns]).T
    drawn = resampled(scores, seed=number)
    flat = drawn.reshape(len(drawn), -1)
    draws = np.asarray(stats.trim_mean(flat, 0.25, axis=1))
    shares = np.array([(flat > threshold).mean(1) for threshold in THRESHOLDS])  # (K, count)
    return Aggregate(
        name,
        imitates,
        scores,
        _estimate(iqm(scores), draws, seeds),
        _estimate(float(scores.mean()), flat.mean(1), seeds),
        _estimate(optimality_gap(scores), 1 - np.minimum(flat, 1).mean(1), seeds),
        np.stack([profile(scores, THRESHOLDS), *_ends(shares, seeds)], 1),
        draws,
    )


def leads(aggregates: Sequence[Aggregate]) -> list[Lead]:
    """Every two learners, the better first."""
    found = []
    for a, b in combinations(aggregates, 2):
        seeds = min(len(a.scores), len(b.scores))
        gain = a.draws - b.draws
        p = 2 * max(min((gain <= 0).mean(), (gain >= 0).mean()), 1 / len(gain)) if seeds > 1 else math.nan
        found.append(
            Lead(
                a.algorithm,
                b.algorithm,
                _estimate(a.iqm.value - b.iqm.value, gain, seeds),
                _improvement(a.scores, b.scores),
                min(float(p), 1.0),
            )
        )
    corrected = holm([lead.p for lead in found])
    return [
        Lead(lead.a, lead.b, lead.iqm, lead.improvement, p) for lead, p in zip(found, corrected, strict=True)
    ]


def _improvement(a: Array, b: Array) -> Estimate:
    """Mean over the environments (columns) of the probability that a run of a ends better than one of b."""
    value = float(np.mean([improvement(a[:, n : n + 1], b[:, n : n + 1]) for n in range(a.shape[1])]))
    x, y = resampled(a, seed=0), resampled(b, seed=1)  # (count, S, tasks)
    ahead = np.sign(x[:, :, None] - y[:, None]).mean((1, 2, 3))
    return _estimate(value, (ahead + 1) / 2, min(len(a), len(b)))


def _estimate(value: float, draws: Array, seeds: int) -> Estimate:
    low, high = _ends(draws, seeds)
    return Estimate(value, float(low), float(high))


def _ends(draws: Array, seeds: int) -> tuple[Array, Array]:
    """2.5 and 97.5 % of the draws along the last axis."""
    if seeds < 2:
        nothing = np.full(np.shape(draws)[:-1], np.nan)
        return nothing, nothing
    low, high = np.percentile(draws, (2.5, 97.5), axis=-1)
    return np.asarray(low), np.asarray(high)
