"""The points of learning curves and performance profiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from imitate.compare.report.charts import SCORE_AXIS, Line, Lines, axis_range, rounded
from imitate.compare.statistics.aggregate import THRESHOLDS, SuiteOutcome
from imitate.compare.statistics.entry import Entry
from imitate.compare.statistics.intervals import interval
from imitate.compare.statistics.job_results import COSTS, Cost
from imitate.compare.statistics.outcome import Outcome
from imitate.envs.spaces import Array

__all__ = ["band", "curves", "profiles", "reach"]

_NEAR = 0.2  # share of the way from random to expert, on either side of the expert, in the zoomed panel


def band(entry: Entry, cost: Cost) -> tuple[Array, Array, Array, Array]:
    """A learning curve: cost, mean return, and the ends of its 95 % interval (NaN for one seed), (P,) each."""
    costs, returns = entry.curve(cost)
    ends = [interval(point) if len(entry.results) > 1 else (np.nan, np.nan) for point in returns]
    low, high = np.array(ends, float).T
    return costs, returns.mean((1, 2)), low, high


def curves(outcome: Outcome, label: str = "") -> Lines:
    """Mean return of every learner against each cost, from the first point at which it has learned something."""
    references = outcome.references
    levels = [("random", float(np.mean(references.random.curve)))]
    if references.expert is not None:
        levels.append(("expert", float(np.mean(references.expert.measured.curve))))
    lines = []
    for entry in outcome.learners:
        begin, every = _begin(entry), [cost for cost in COSTS if cost != "queries" or entry.imitates]
        points = {str(cost): _points(*(column[begin:] for column in band(entry, cost))) for cost in every}
        lines.append(Line(entry.algorithm, not any(r.env_steps for r in entry.results), points))
    axes, budget = {str(cost): name for cost, name in COSTS.items()}, outcome.comparison.budget
    heights = _heights(levels, lines)
    return Lines(label, "mean return", lines, axes, budget, heights, levels, _near(levels, lines))


def _begin(entry: Entry) -> int:
    """The first point at which every seed has learned something. A learner that also has an environment (GAIL, SQIL)
    pays for its demonstrations before it learns from them."""
    runs = [run for run in entry.results if run.demo_steps and run.env_steps]
    return max((sum(point.steps <= run.demo_steps for point in run.curve[:-1]) for run in runs), default=0)


def _near(levels: Sequence[tuple[str, float]], lines: Sequence[Line]) -> tuple[float, float] | None:
    """A range around the expert's return; None if no learner gets there, or if it is most of the whole range."""
    if len(levels) < 2:
        return None
    (_, random), (_, expert) = levels
    if (half := _NEAR * (expert - random)) <= 0:
        return None
    low, high = expert - half, expert + half
    there = any(low <= (p[1] or 0.0) <= high for line in lines for p in line.points["steps"])
    return (low, high) if there else None


def _points(*columns: Array) -> list[tuple[float | None, ...]]:
    """The points as tuples, without repetitions."""
    rows = [tuple(map(rounded, point)) for point in zip(*columns, strict=True)]
    return [row for n, row in enumerate(rows) if n == 0 or row[:2] != rows[n - 1][:2]]


def _heights(levels: Sequence[tuple[str, float]], lines: Sequence[Line]) -> tuple[float, float]:
    """The y range of all lines and their bands."""
    points = [point for line in lines for point in line.points["steps"]]
    means = [value for _, value in levels] + [point[1] for point in points if point[1] is not None]
    ends = [value for point in points for value in point[2:] if value is not None]
    low, high = axis_range(means, ends)
    margin = 0.03 * (high - low) or 1.0
    return low - margin, high + margin


def reach(suite: SuiteOutcome) -> int:
    """The number of THRESHOLDS up to the largest score, or to the expert's if that is larger."""
    largest = max((float(each.scores.max()) for each in suite.aggregates), default=1.0)
    return min(int(np.searchsorted(THRESHOLDS, max(largest, 1.0))) + 1, len(THRESHOLDS))


def profiles(suite: SuiteOutcome) -> Lines:
    """Performance profiles: the share of all runs above each score, up to the largest."""
    scores = THRESHOLDS[: reach(suite)]
    lines = [
        Line(each.algorithm, False, {"score": _points(scores, *each.profile[: len(scores)].T)})
        for each in suite.aggregates
    ]
    axes, limit = {"score": SCORE_AXIS}, float(scores[-1])
    return Lines("", "share of runs above it", lines, axes, limit, (0.0, 1.02), ends=False)
