"""The points of a report's first figures: estimates with their intervals, and costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from imitate.compare.formatting import number, percent
from imitate.compare.plan.learners import title
from imitate.compare.report.charts import SCORE_AXIS, Dots, Row, axis_range
from imitate.compare.statistics.aggregate import Estimate, Lead, SuiteOutcome, together
from imitate.compare.statistics.collapse import collapse, mean_words
from imitate.compare.statistics.entry import Entry
from imitate.compare.statistics.job_results import COSTS, Cost
from imitate.compare.statistics.outcome import Outcome
from imitate.compare.statistics.verdict import GOAL, cost_words, typical_cost
from imitate.envs.spaces import Array

__all__ = ["GOALS", "finals", "frontier", "scores"]

GOALS = (0.5, 0.9, GOAL)
"""Shares of the way from random actions to the expert whose cost is shown."""


def scores(found: SuiteOutcome, order: Sequence[str] = ()) -> list[Dots]:
    """Interquartile mean, mean and optimality gap of every learner; then the probability that a run of the first
    learner ends better than a run of each other. The first is the one with the best interquartile mean, unless `order`
    is given."""
    learners = sorted(found.aggregates, key=lambda each: order.index(each.algorithm) if order else 0)

    def rows(values: Sequence[Estimate], runs: Sequence[Array]) -> list[Row]:
        return [
            _row(each.algorithm, value, dots.ravel().tolist())
            for each, value, dots in zip(learners, values, runs, strict=True)
        ]

    every, levels = [each.scores for each in learners], [("random", 0.0), ("expert", 1.0)]
    missing = [np.maximum(1 - scores, 0) for scores in every]
    lack = "how far scores fall short of 1, less is better"
    panels = [
        _panel("Interquartile mean", SCORE_AXIS, rows([each.iqm for each in learners], every), levels),
        _panel("Mean", SCORE_AXIS, rows([each.mean for each in learners], every), levels),
        _panel("Optimality gap", lack, rows([each.gap for each in learners], missing), [("expert", 0.0)]),
    ]
    names = [each.algorithm for each in learners]
    return panels + ([_improvement(names, found.leads)] if len(names) > 1 else [])


def _row(name: str, value: Estimate, dots: Sequence[float], words: str = "") -> Row:
    known = not math.isnan(value.low)
    text = words or number(value.value) + (f"  [{number(value.low)}, {number(value.high)}]" if known else "")
    return Row(
        name, title(name), text, [("mean", value.value)], (value.low, value.high) if known else None, dots
    )


def _improvement(names: Sequence[str], found: Sequence[Lead]) -> Dots:
    """The probability of improvement of the first learner over each other one."""
    first, rows = names[0], []
    table = {(lead.a, lead.b): lead for each in found for lead in (each, each.turned())}
    for name in names[1:]:
        chance = table[first, name].improvement
        row = _row(name, chance, (), percent(chance.value))
        rows.append(replace(row, title=f"{title(first)} over {title(name)}"))
    label = "probability that a run of the first ends better"
    return Dots("Probability of improvement", label, rows, (0.0, 1.0), [("chance", 0.5)])


def _panel(name: str, label: str, rows: Sequence[Row], levels: Sequence[tuple[str, float]]) -> Dots:
    values = [value for _, value in levels]
    values += [value for row in rows for value in (*row.dots, *(mark for _, mark in row.marks))]
    bars = [end for row in rows for end in row.bar or ()]
    return Dots(name, label, rows, axis_range(values, bars), levels)


def finals(outcome: Outcome) -> list[Dots]:
    """Mean return of every learner with its interval and seeds; then the panels of `scores` for this environment
    alone."""
    levels = [("random", outcome.random_mean)]
    if outcome.expert_mean is not None:
        levels.append(("expert", outcome.expert_mean))
    rows = [
        _row(
            entry.algorithm,
            Estimate(entry.mean, *(entry.ci95 or (math.nan, math.nan))),
            [result.mean for result in entry.results],
            mean_words(outcome, entry) if collapse(outcome, entry) else "",
        )
        for entry in outcome.ranked()
    ]
    first = _panel(
        "Mean return", f"return, mean of {outcome.comparison.episodes} test episodes", rows, levels
    )
    if outcome.share(0.0) is None:
        return [first]
    order = [entry.algorithm for entry in outcome.ranked()]
    iqm, _, *others = scores(together("", {"": outcome}, {}), order)
    return [first, iqm, *others]


def frontier(outcome: Outcome, cost: Cost, label: str = "") -> Dots:
    """The cost at which the median seed first reached each of GOALS, and at which every seed reached the last one."""
    asked = [entry for entry in outcome.learners if entry.imitates or cost != "queries"]
    rows = [row for entry in asked if (row := _costs(outcome, entry, cost)) is not None]
    rows.sort(key=lambda row: (row.beyond is not None, row.marks[-1][1] if row.marks else math.inf))
    known = [value for row in rows for value in (*row.dots, *(row.bar or ()))] or [1.0]
    middle = math.sqrt(min(known) * max(known))
    low, high = min(min(known) / 1.15, middle / 2.5), max(max(known) * 1.15, middle * 2.5)  # a tick or two
    return Dots(label or COSTS[cost][0].upper() + COSTS[cost][1:], COSTS[cost], rows, (low, high), log=True)


def _costs(outcome: Outcome, entry: Entry, cost: Cost) -> Row | None:
    """The row of a learner in `frontier`; None if it spent nothing, as a logarithmic axis has no 0."""
    spent = max(float(getattr(result.curve[-1], cost)) for result in entry.results)
    if spent <= 0:
        return None
    goal = GOALS[-1]
    reached = {share: typical_cost(outcome.to_reach(entry, share, cost)) for share in GOALS}
    marks = [(percent(share), value) for share, value in reached.items() if value]
    beyond = spent if reached[goal] is None else None
    ends = [value for _, value in marks] + ([] if beyond is None else [beyond])
    return Row(
        entry.algorithm,
        entry.title,
        cost_words(outcome, entry, goal, cost).replace(" seeds", ""),
        marks,
        (min(ends), max(ends)) if ends else None,
        [value for value in outcome.to_reach(entry, goal, cost) if value],
        beyond,
    )
