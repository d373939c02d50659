"""All seeds of one learner in one comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from imitate.compare.plan.learners import title
from imitate.compare.statistics.intervals import interval, worst
from imitate.compare.statistics.job_results import Cost, Result
from imitate.envs.spaces import Array

__all__ = ["Entry"]


@dataclass(frozen=True)
class Entry:
    """All seeds of one algorithm."""

    algorithm: str
    results: Sequence[Result]

    @property
    def title(self) -> str:
        return title(self.algorithm)

    @property
    def imitates(self) -> bool:
        """True if it learns from an expert; False for pure RL."""
        return any(result.expert_queries for result in self.results)

    @property
    def x(self) -> Array:
        """Returns (seeds, episodes) of the test."""
        return np.array([result.returns for result in self.results], float)

    @property
    def mean(self) -> float:
        return float(self.x.mean())

    @property
    def ci95(self) -> tuple[float, float] | None:
        """95 % interval of the mean (`intervals.interval`); None for a single seed, which says nothing about others."""
        return interval(self.x) if len(self.results) > 1 else None

    @property
    def worst(self) -> float:
        return worst(self.x)

    @property
    def typical(self) -> Result:
        """The seed with the median return: neither the luckiest nor the worst."""
        return sorted(self.results, key=lambda result: result.mean)[(len(self.results) - 1) // 2]

    def average(self, name: str) -> float:
        """Mean over the seeds of a number in the results, e.g. `cpu_seconds`."""
        return float(np.mean([getattr(result, name) for result in self.results]))

    def curve(self, cost: Cost) -> tuple[Array, Array]:
        """(P,) mean cost at each fraction of the budget, and the returns there (P, seeds, episodes)."""
        costs = np.array([[getattr(point, cost) for point in result.curve] for result in self.results], float)
        returns = np.array([[point.returns for point in result.curve] for result in self.results], float)
        return costs.mean(0), returns.swapaxes(0, 1)
