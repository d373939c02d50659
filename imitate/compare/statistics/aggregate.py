"""The statistics of a whole suite: runs' scores over environments, as in arXiv:2108.13264.

A score is a run's mean return, scaled so that random actions score 0 and the expert 1; scores have the shape (S,
tasks). Intervals come from a stratified, crossed bootstrap. Each environment draws seeds and episodes, with the same
episodes for all learners, the expert and random actions. Environments are not drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np

from imitate.compare.plan.learners import title
from imitate.compare.plan.suite import Suite
from imitate.compare.statistics.finished_runs import read_outcome
from imitate.compare.statistics.intervals import (
    drawn_scores,
    holm,
    improvement,
    iqm,
    iqms,
    optimality_gap,
    profile,
    share_interval,
    stretched,
    stretched_p,
)
from imitate.compare.statistics.outcome import Outcome
from imitate.compare.statistics.pairs import SIGNIFICANT
from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = ["THRESHOLDS", "Aggregate", "Estimate", "Lead", "SuiteOutcome", "read_suite", "together"]

THRESHOLDS = np.concatenate([np.linspace(0.0, 2.0, 81), np.geomspace(2.05, 100.0, 40)])
"""The scores at which performance profiles are computed; a page draws them up to the largest score."""


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval, which is NaN for one seed."""

    value: float
    low: float
    high: float

    def subtracted_from(self, whole: float) -> Estimate:
        """`whole` minus this value, with its interval."""
        return Estimate(whole - self.value, whole - self.high, whole - self.low)


@dataclass(frozen=True)
class Aggregate:
    """A learner over all scored environments.

    scores   (S, tasks)
    runs     number of independent runs. An environment with two experts counts once: its runs of pure RL are the same
    profile  (K, 3) share of runs above each of THRESHOLDS, and the ends of its interval
    draws    (count, S, tasks) scores of the bootstrap
    """

    algorithm: str
    imitates: bool
    scores: Array
    runs: int
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
    p            p-value of no difference in the IQM, Holm-corrected over the pairs of its family
    alone        the same uncorrected: below 0.05 if the interval excludes 0
    asked        whether one of the two imitates and the other is pure RL. The verdict rests on this family of pairs;
                 all other pairs are another family
    """

    a: str
    b: str
    iqm: Estimate
    improvement: Estimate
    p: float
    alone: float
    asked: bool

    @property
    def certain(self) -> bool:
        return self.p < SIGNIFICANT

    def turned(self) -> Lead:
        """The same pair as b compared with a."""
        iqm, improvement = self.iqm.subtracted_from(0.0), self.improvement.subtracted_from(1.0)
        return replace(self, a=self.b, b=self.a, iqm=iqm, improvement=improvement)


@dataclass(frozen=True)
class SuiteOutcome:
    """All comparisons of a suite that have results, by name.

    scored      those whose expert is better than random actions; only there are scores meaningful
    aggregates  learners that finished in all scored environments, best interquartile mean first
    partly      names of the other learners
    absent      comparisons in which no learner has finished, each with the failures of its jobs
    """

    name: str
    outcomes: Mapping[str, Outcome]
    scored: Sequence[str]
    aggregates: Sequence[Aggregate]
    partly: Sequence[str]
    absent: Mapping[str, Sequence[str]]

    @property
    def order(self) -> list[str]:
        """All learners, in the order in which the comparisons name them; it determines their colours."""
        names = [name for outcome in self.outcomes.values() for name in outcome.comparison.algorithms]
        return list(dict.fromkeys(names))

    @property
    def seeds(self) -> int:
        """The number of seeds that every learner in the aggregate has in every environment; without one, that every
        learner has."""
        fewest = min(outcome.seeds for outcome in self.outcomes.values())
        return min((len(each.scores) for each in self.aggregates), default=fewest)

    def failed(self, algorithm: str) -> int:
        """The number of the learner's runs that failed in the scored environments."""
        return sum(self.outcomes[label].failed(algorithm) for label in self.scored)

    @property
    def lacking(self) -> list[str]:
        """The learners that every scored environment asks for and that lack a result in one of them."""
        asked = [self.outcomes[label].comparison.algorithms for label in self.scored]
        return [name for name in self.partly if all(name in algorithms for algorithms in asked)]

    @property
    def failures(self) -> list[str]:
        """One line for each job that failed."""
        found = {label: outcome.failures for label, outcome in self.outcomes.items()} | dict(self.absent)
        return [f"{label}: {each}" for label, failures in found.items() for each in failures]

    @cached_property
    def leads(self) -> list[Lead]:
        """All pairs of learners in the aggregates, the better one first."""
        found = [_lead(a, b) for a, b in combinations(self.aggregates, 2)]
        corrected = {
            asked: iter(holm([p.alone for p in found if p.asked == asked])) for asked in (True, False)
        }
        return [replace(lead, p=next(corrected[lead.asked])) for lead in found]


def read_suite(*folders: Path) -> SuiteOutcome:
    """Read the results of a suite from its folder. From several folders, comparisons of the same name are merged.

    Raises InputError if a folder holds no suite, if parts do not fit together, or if no learner finished.
    """
    suites = [Suite.read(folder) for folder in folders]
    outcomes: dict[str, Outcome] = {}
    absent: dict[str, Sequence[str]] = {}
    for label in dict.fromkeys(label for suite in suites for label in suite.parts):
        having = [
            folder / label
            for folder, suite in zip(folders, suites, strict=True)
            if label in suite.parts and (folder / label / "runs.json").is_file()
        ]
        outcome = read_outcome(*having) if having else None
        if outcome is None or not outcome.learners:
            absent[label] = outcome.failures if outcome else []
        else:
            outcomes[label] = outcome
    if not outcomes:
        raise InputError(f"no learner in {folders[0]} finished, so there is nothing to report")
    return together(suites[0].name, outcomes, absent)


def together(
    suite: str, outcomes: Mapping[str, Outcome], absent: Mapping[str, Sequence[str]]
) -> SuiteOutcome:
    """The outcome of all comparisons that have at least one learner."""
    scored = [label for label, outcome in outcomes.items() if outcome.share(0.0) is not None]
    names = dict.fromkeys(name for outcome in outcomes.values() for name in outcome.comparison.algorithms)
    found = {name: _aggregate(name, [outcomes[label] for label in scored]) for name in names}
    complete = sorted((each for each in found.values() if each is not None), key=lambda each: -each.iqm.value)
    partly = [name for name, each in found.items() if each is None]
    return SuiteOutcome(suite, outcomes, scored, complete, partly, absent)


def _aggregate(name: str, outcomes: Sequence[Outcome]) -> Aggregate | None:
    """The aggregate of one learner; None if it lacks a result in one of the environments."""
    entries = [next((e for e in outcome.learners if e.algorithm == name), None) for outcome in outcomes]
    learned = [entry for entry in entries if entry is not None]
    if not learned or len(learned) < len(entries):
        return None
    seeds = min(len(entry.results) for entry in learned)
    # One environment with two experts has the same episodes twice.
    places = [f"{outcome.comparison.env_id} {outcome.comparison.env_kwargs}" for outcome in outcomes]
    columns, draws = [], []
    for entry, outcome, place in zip(learned, outcomes, places, strict=True):
        references = outcome.references
        assert references.expert is not None  # otherwise there are no scores
        returns = (entry.x[:seeds], references.random.returns, references.expert.measured.returns)
        columns.append([outcome.share(mean) or 0.0 for mean in returns[0].mean(1)])
        draws.append(drawn_scores(*returns, seed=places.index(place)))
    scores, drawn = np.array(columns).T, np.stack(draws, 2)  # (S, tasks), (count, S, tasks)
    shares = np.array([(drawn > threshold).mean((1, 2)) for threshold in THRESHOLDS])  # (K, count)
    share, runs = profile(scores, THRESHOLDS), seeds * len(set(places))
    return Aggregate(
        name,
        any(entry.imitates for entry in learned),
        scores,
        runs,
        _estimate(iqm(scores), iqms(drawn), seeds),
        _estimate(float(scores.mean()), drawn.mean((1, 2)), seeds),
        _estimate(optimality_gap(scores), 1 - np.minimum(drawn, 1).mean((1, 2)), seeds, 0.0),
        np.stack([share, *share_interval(share, shares, seeds, runs)], 1),
        drawn,
    )


def _lead(a: Aggregate, b: Aggregate) -> Lead:
    seeds = min(len(a.scores), len(b.scores))
    gain = _estimate(a.iqm.value - b.iqm.value, iqms(a.draws) - iqms(b.draws), seeds)
    p = stretched_p(gain.value, gain.low, gain.high, seeds)
    return Lead(a.algorithm, b.algorithm, gain, _improvement(a, b, seeds), p, p, a.imitates != b.imitates)


def _improvement(a: Aggregate, b: Aggregate, seeds: int) -> Estimate:
    """Mean over the environments (columns) of the probability that a run of a ends better than one of b."""
    columns = range(a.scores.shape[1])
    value = float(np.mean([improvement(a.scores[:, n : n + 1], b.scores[:, n : n + 1]) for n in columns]))
    # One environment at a time: all at once would be gigabytes.
    ahead = np.mean(
        [np.sign(a.draws[:, :, None, n] - b.draws[:, None, :, n]).mean((1, 2)) for n in columns], 0
    )
    low, high = share_interval(value, (ahead + 1) / 2, seeds, min(a.runs, b.runs))
    return Estimate(value, float(low), float(high))


def _estimate(value: float, draws: Array, seeds: int, least: float = -np.inf) -> Estimate:
    """A value with its interval, which ends at the least possible value."""
    low, high = np.maximum(stretched(value, draws, seeds), least)
    return Estimate(value, float(low), float(high))
