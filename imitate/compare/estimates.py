"""Estimates with their intervals, and what they cost: the points of a report's first figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from imitate.compare.aggregate import Estimate, Lead, SuiteOutcome, leads, together
from imitate.compare.charts import SCORE_AXIS, Dots, Row
from imitate.compare.learners import title
from imitate.compare.outcome import Outcome
from imitate.compare.results import COSTS, Cost
from imitate.compare.verdict import cost_words, typical_cost
from imitate.compare.words import number, percent
from imitate.envs.spaces import Array

__all__ = ["GOALS", "finals", "frontier", "scores"]

GOALS = (0.5, 0.9, 0.95)
"""Shares of the way from random actions to the expert whose cost is shown."""


def scores(found: SuiteOutcome) -> list[Dots]:
    """Interquartile mean, mean and optimality gap of every learner, then how likely a run of the best ends better than
    one of each other."""

    def rows(values: Sequence[Estimate], runs: Sequence[Array]) -> list[Row]:
        return [
            _row(each.algorithm, value, dots.ravel().tolist())
            for each, value, dots in zip(found.aggregates, values, runs, strict=True)
        ]

    every, levels = [each.scores for each in found.aggregates], [("random", 0.0), ("expert", 1.0)]
    missing = [np.maximum(1 - scores, 0) for scores in every]
    panels = [
        Dots("Interquartile mean", SCORE_AXIS, rows([each.iqm for each in found.aggregates], every), levels),
        Dots("Mean", SCORE_AXIS, rows([each.mean for each in found.aggregates], every), levels),
        Dots(
            "Optimality gap",
            "what scores lack to 1, less is better",
            rows([each.gap for each in found.aggregates], missing),
            [("expert", 0.0)],
        ),
    ]
    pairs = [lead for lead in leads(found.aggregates) if lead.a == found.aggregates[0].algorithm]
    return panels + ([_improvement(pairs)] if pairs else [])


def _row(name: str, value: Estimate, dots: Sequence[float], words: str = "") -> Row:
    known = not math.isnan(value.low)
    text = words or number(value.value) + (f"  [{number(value.low)}, {number(value.high)}]" if known else "")
    return Row(
        name, title(name), text, [("mean", value.value)], (value.low, value.high) if known else None, dots
    )


def _improvement(pairs: Sequence[Lead]) -> Dots:
    rows = []
    for lead in pairs:
        row = _row(lead.b, lead.improvement, (), percent(lead.improvement.value))
        rows.append(Row(row.name, f"{title(lead.a)} over {title(lead.b)}", row.text, row.marks, row.bar))
    label = "probability that a run of the first ends better"
    return Dots("Probability of improvement", label, rows, [("chance", 0.5)], ends=(0.0, 1.0))


def finals(outcome: Outcome) -> list[Dots]:
    """Mean return of every learner with its interval and seeds; then what `scores` says, in this environment alone."""
    levels = [("random", outcome.random_mean)]
    if outcome.expert_mean is not None:
        levels.append(("expert", outcome.expert_mean))
    rows = [
        _row(
            entry.algorithm,
            Estimate(entry.mean, *(entry.ci95 or (math.nan, math.nan))),
            [result.mean for result in entry.results],
        )
        for entry in outcome.ranked()
    ]
    first = Dots("Mean return", f"return, mean of {outcome.comparison.episodes} test episodes", rows, levels)
    if outcome.share(0.0) is None:
        return [first]
    iqm, _, *others = scores(together("", {"": outcome}))
    return [first, iqm, *others]


def frontier(outcome: Outcome, cost: Cost, label: str = "") -> Dots:
    """What the median seed had spent when it first was at each of GOALS, and every seed at the last."""
    goal, rows = GOALS[-1], []
    for entry in outcome.learners:
        if cost == "queries" and not entry.imitates:
            continue
        reached = {share: typical_cost(outcome.to_reach(entry, share, cost)) for share in GOALS}
        marks = [(percent(share), value) for share, value in reached.items() if value]
        spent = max(float(getattr(result.curve[-1], cost)) for result in entry.results)
        ends = [value for _, value in marks] + ([spent] if reached[goal] is None else [])
        rows.append(
            Row(
                entry.algorithm,
                entry.title,
                cost_words(outcome, entry, goal, cost).replace(" seeds", ""),
                marks,
                (min(ends), max(ends)) if ends else None,
                [value for value in outcome.to_reach(entry, goal, cost) if value],
                spent if reached[goal] is None else None,
            )
        )
    rows.sort(key=lambda row: (row.beyond is not None, row.marks[-1][1] if row.marks else math.inf))
    return Dots(label or COSTS[cost][0].upper() + COSTS[cost][1:], COSTS[cost], rows, log=True)
