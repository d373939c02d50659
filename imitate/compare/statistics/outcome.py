"""The results of a whole comparison, and quantities derived from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from imitate.compare.plan.comparison import Comparison
from imitate.compare.statistics.entry import Entry
from imitate.compare.statistics.intervals import area, reached
from imitate.compare.statistics.job_results import Cost, References, Result
from imitate.compare.statistics.pairs import Pair, all_pairs

__all__ = ["Outcome"]


@dataclass(frozen=True)
class Outcome:
    """A whole comparison: its learners in order, without those that have no finished job.

    controls  entries of the audit, which appear nowhere else
    failures  one line for each job that failed
    missing   names of runs that have neither finished nor failed
    videos    of the expert and the learners, each with the return of the episode shown
    """

    comparison: Comparison
    learners: Sequence[Entry]
    controls: Sequence[Entry]
    references: References
    failures: Sequence[str]
    missing: Sequence[str]
    videos: Mapping[str, tuple[Path, float]]

    def failed(self, algorithm: str) -> int:
        """The number of the learner's runs that failed."""
        return sum(each.startswith(f"{algorithm}-seed") for each in self.failures)

    @property
    def lacking(self) -> list[str]:
        """The learners that the comparison asks for and that have no result: all their runs failed or are missing."""
        having = {entry.algorithm for entry in self.learners}
        return [name for name in self.comparison.algorithms if name not in having]

    @property
    def seeds(self) -> int:
        """The number of seeds that every learner has."""
        return min(len(entry.results) for entry in self.learners)

    @property
    def expert_mean(self) -> float | None:
        expert = self.references.expert
        return None if expert is None else expert.measured.mean

    @property
    def random_mean(self) -> float:
        return self.references.random.mean

    def share(self, value: float) -> float | None:
        """The value on the scale from random actions' mean (0) to the expert's (1); None if the expert is no better
        than random."""
        return self.references.share(value)

    @property
    def costed(self) -> bool:
        """True if goals have costs: the expert beats random actions in the test and on the curves' episodes."""
        return self.share(0.0) is not None and self._curve_ends() is not None

    def shares(self, result: Result, cost: Cost = "steps") -> list[tuple[float, float]]:
        """A run's curve as (cost, share of the way from random to expert), on the curves' episodes. Empty if the expert
        is no better than random."""
        ends = self._curve_ends()
        if ends is None:
            return []
        low, high = ends
        return [
            (float(getattr(point, cost)), (float(np.mean(point.returns)) - low) / (high - low))
            for point in result.curve
        ]

    def _curve_ends(self) -> tuple[float, float] | None:
        """Mean returns of random actions and the expert on the curves' episodes; None if the expert is no better."""
        expert = self.references.expert
        if expert is None:
            return None
        low, high = float(np.mean(self.references.random.curve)), float(np.mean(expert.measured.curve))
        return None if high <= low else (low, high)

    def to_reach(self, entry: Entry, share: float, cost: Cost = "steps") -> list[float | None]:
        """The cost at which each seed first reached this share of the way; None if it did not within the budget.

        A policy before the first step has learned nothing and does not count, however well it happens to do.
        """
        found = []
        for result in entry.results:
            shares = self.shares(result, cost)
            learned = [pair for point, pair in zip(result.curve, shares, strict=False) if point.steps]
            found.append(reached(learned, share))
        return found

    def area(self, entry: Entry) -> list[float]:
        """The area under the curve of each seed: its mean share over the budget. Empty if there are no shares."""
        return [float(np.mean(each)) for each in self.areas(entry)]

    def areas(self, entry: Entry) -> list[list[float]]:
        """The area under the curve of each seed and each of the curves' episodes, on the scale of the episodes'
        means."""
        ends = self._curve_ends()
        if ends is None:
            return []
        low, high = ends
        found = []
        for result in entry.results:
            shares = (np.array([point.returns for point in result.curve]) - low) / (high - low)  # (P, E)
            flat = not result.env_steps  # an offline learner is the same between its trainings
            # A learner with an environment is untrained until its demonstrations are recorded.
            begun = 0 if flat else result.demo_steps
            steps = [max(point.steps, begun) for point in result.curve]
            curves = (np.stack([steps, each], 1) for each in shares.T)
            found.append([area(curve, self.comparison.budget, steps=flat) for curve in curves])
        return found

    @cached_property
    def pairs(self) -> list[Pair]:
        """All pairs of learners, in the comparison's order, and every learner with the expert."""
        expert = self.references.expert
        areas = {entry.algorithm: self.areas(entry) for entry in self.learners}
        return all_pairs(self.learners, None if expert is None else expert.measured.returns, areas)

    def place(self, entry: Entry) -> int:
        """The learner's place in the comparison, counting unfinished ones too; it determines the colour."""
        return self.comparison.algorithms.index(entry.algorithm)

    def ranked(self) -> list[Entry]:
        return sorted(self.learners, key=lambda entry: -entry.mean)
