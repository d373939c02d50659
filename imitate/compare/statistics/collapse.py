"""Finds learners whose seeds fall into two groups: some learned and others collapsed, so the mean describes neither."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from imitate.compare.formatting import number
from imitate.compare.statistics.entry import Entry
from imitate.compare.statistics.outcome import Outcome

__all__ = ["collapse", "lower_group", "mean_words"]

_APART = 1 / 3  # of the span
_WIDER = 2.0  # than the wider group
_LEAST = 3  # runs


def lower_group(means: ArrayLike, span: float) -> int:
    """The number of runs in the lower of two groups, from the runs' means (S,); 0 if they are one group.

    There are two groups if the widest gap between neighbours is at least a third of `span`, and at least twice as wide
    as the wider group. Fewer than three runs are never two groups. `benchmarks/coverage.py` measures how often seeds
    from one normal distribution are mistaken for two groups.

    >>> lower_group([0.02, 0.95, 0.97, 1.0, 1.01], span=1.0)
    1
    """
    ordered = np.sort(np.asarray(means, float))
    if len(ordered) < _LEAST or span <= 0:
        return 0
    gaps = np.diff(ordered)
    below = int(gaps.argmax()) + 1
    widest = max(np.ptp(ordered[:below]), np.ptp(ordered[below:]))
    return below if gaps.max() >= max(_APART * span, _WIDER * widest) else 0


def collapse(outcome: Outcome, entry: Entry) -> str:
    """ "1 of 5 seeds collapsed", or "" if the learner's seeds are one group.

    The span is the way from random actions to the expert, or to the best run if that is better.
    """
    best = [result.mean for learner in outcome.learners for result in learner.results]
    if outcome.expert_mean is not None:
        best.append(outcome.expert_mean)
    count = lower_group([result.mean for result in entry.results], max(best) - outcome.random_mean)
    return f"{count} of {len(entry.results)} seeds collapsed" if count else ""


def mean_words(outcome: Outcome, entry: Entry) -> str:
    """The mean return as text, with a remark if there are two groups: "404 (1 of 5 seeds collapsed)"."""
    note = collapse(outcome, entry)
    return f"{number(entry.mean)} ({note})" if note else number(entry.mean)
