"""Statistics of the records, from raw returns: differences with intervals, scores over tasks, and costs.

Returns x (S, E) belong to S seeds on E test episodes, which are the same for every learner, the teacher and random
actions. A score is 0 for random actions and 1 for the teacher. Several tasks are summarised by the interquartile mean
of all runs (arXiv:2108.13264).
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from imitate.compare.statistics.intervals import (
    Difference,
    difference,
    drawn_scores,
    holm,
    iqm,
    iqms,
    stretched,
)

BENCHMARKS = Path(__file__).parent
KNOWN: dict[str, dict[str, Any]] = tomllib.loads((BENCHMARKS / "known.toml").read_text("utf-8"))
LEVELS = (0.5, 0.9, 0.95)
LEARNERS = {"bc": "BC", "dagger": "DAgger", "aggrevated": "AggreVaTeD", "gail": "GAIL", "ppo": "PPO"}
LEAST_SEEDS = 3
"""Of an interval: that of two says nothing."""

Array = NDArray[np.float64]
Curve = list[tuple[float, float, float | None, float]]
"""Points of (environment steps, expert's answers, CPU seconds or None, score)."""


@dataclass(frozen=True)
class Task:
    """Returns on the same test episodes: teacher (E,), random (E,) and each learner (S, E).

    Tasks with one `env` and several teachers have the same episodes, and the same runs of learners without a teacher.
    """

    env: str
    teacher: Array
    random: Array
    learners: Mapping[str, Array]

    def scores(self, learner: str) -> Array:
        """Scores (S,) of a learner's seeds."""
        low, high = self.random.mean(), self.teacher.mean()
        return np.asarray((self.learners[learner].mean(1) - low) / (high - low))


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


def returns(record: Mapping[str, Any]) -> Array:
    """Returns (S, E) of a row."""
    return np.array([seed["returns"] for seed in record["seeds"]], float)


def teacher_returns(record: Mapping[str, Any], teachers: Mapping[str, Any]) -> Array | None:
    """Returns (E,) of a row's teacher, or (S, E) if each seed has one of its own, or (E,) of those measured again later
    for an older record; None if there are none."""
    if "expert_returns" in record:
        return np.array(record["expert_returns"], float)
    found = teachers.get(str(record["expert"]))
    return None if found is None else np.array(found["returns"], float)


def minus_teacher(record: Mapping[str, Any], teachers: Mapping[str, Any]) -> Difference | None:
    """Mean return of a row minus its teacher's, paired by episode, and by seed if each has a teacher of its own; None
    if no teacher's episodes are stored."""
    teacher, own = teacher_returns(record, teachers), returns(record)
    if teacher is None:
        return None
    return (
        difference(own, teacher) if teacher.ndim == 1 else difference(own - teacher, np.zeros(own.shape[1]))
    )


def winners(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[int | None]:
    """The index (0 or 1) of the better row in each pair, paired by episode, or None if they don't differ significantly.
    Holm's correction is over all pairs."""
    found = [difference(returns(a), returns(b)) for a, b in pairs]
    adjusted = holm([each.p for each in found])
    return [None if p >= 0.05 else int(each.mean < 0) for each, p in zip(found, adjusted, strict=True)]


def share(value: float, low: float, high: float) -> float:
    """Position of `value` between `low` (0) and `high` (1)."""
    return (value - low) / (high - low)


def share_of_best(record: Mapping[str, Any]) -> float | None:
    """A row's mean from random actions (0) to the best return known for its task (1)."""
    best = KNOWN["best"].get(record["env"])
    return None if best is None else share(record["mean"], record["random"], best["return"])


def iqm_of(tasks: Sequence[Task], learner: str) -> float:
    """Interquartile mean of the scores of all runs."""
    return iqm(np.concatenate([task.scores(learner) for task in tasks]))


def aggregate(
    tasks: Sequence[Task],
    learner: str,
    *,
    minus: str | None = None,
    episodes: bool = True,
    stretch: bool = True,
) -> Interval:
    """`iqm_of` a learner, or of it minus another, with a bootstrap interval.

    episodes  also draw the test episodes, the same ones for the learners, the teacher and random actions
    stretch   stretch for few seeds, of which the task with the fewest counts
    """
    value, draws = iqm_of(tasks, learner), _draws(tasks, learner, episodes)
    if minus is not None:
        value, draws = value - iqm_of(tasks, minus), draws - _draws(tasks, minus, episodes)
    seeds = min(len(task.learners[name]) for task in tasks for name in (learner, minus) if name is not None)
    low, high = stretched(value, draws, seeds) if stretch else np.percentile(draws, (2.5, 97.5))
    return Interval(value, float(low), float(high))


def _draws(tasks: Sequence[Task], learner: str, episodes: bool) -> Array:
    """Bootstrap draws (count,) of the interquartile mean. Tasks of one environment draw the same seeds and episodes."""
    drawn, envs = [], [task.env for task in tasks]
    for task in tasks:
        played = (task.learners[learner], task.random, task.teacher)
        if not episodes:  # one, which is the mean of all
            played = (
                played[0].mean(1, keepdims=True),
                played[1].mean(keepdims=True),
                played[2].mean(keepdims=True),
            )
        drawn.append(drawn_scores(*played, seed=envs.index(task.env)))
    return iqms(np.concatenate(drawn, 1))


def pair(imitator: Mapping[str, Any], other: Mapping[str, Any], teachers: Mapping[str, Any]) -> Task:
    """AggreVaTeD's row and DAgger's from one teacher as a task. Older records only have the mean of random actions."""
    teacher = teacher_returns(imitator, teachers)
    assert teacher is not None
    random = np.array(imitator.get("random_returns") or np.full(len(teacher), imitator["random"]))
    learners = {"aggrevated": returns(imitator), "dagger": returns(other)}
    return Task(imitator["env"], teacher, random, learners)


@dataclass(frozen=True)
class Cost:
    """Median cost of all runs until a level; infinite unless more than half of the `runs` reached it."""

    steps: float
    queries: float
    cpu_seconds: float | None
    reached: int
    runs: int


def costs(curves: Sequence[Curve], level: float) -> Cost:
    """Median cost until a curve first reaches `level`; a run that never does counts as infinite."""
    found = [next((point for point in curve if point[3] >= level), None) for curve in curves]

    def middle(column: int) -> float:
        return float(np.median([math.inf if point is None else point[column] for point in found]))

    reached = [point for point in found if point is not None]
    stored = all(point[2] is not None for point in reached)
    return Cost(middle(0), middle(1), middle(2) if stored else None, len(reached), len(curves))


def row_curves(record: Mapping[str, Any], low: float, high: float) -> list[Curve]:
    """Curves of a row of pure RL, from its validations. Their CPU seconds are not stored."""
    return [
        [(steps, 0.0, None, share(mean, low, high)) for steps, mean, *_ in seed["curve"]]
        for seed in record["seeds"]
    ]
