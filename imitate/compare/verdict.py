"""The answer of a comparison: who beats whom, and whether imitation was worth it against pure RL.

Everything rests on differences that are paired by episode and corrected by Holm over all pairs, never on whether two
intervals overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from imitate.compare.outcome import Entry, Outcome
from imitate.compare.results import Cost
from imitate.compare.statistics import ENOUGH_SEEDS, difference, holm, improvement
from imitate.compare.words import listed, number, percent

__all__ = ["MARGIN", "Answer", "Pair", "answer", "cost_words", "pairs", "typical_cost", "warnings"]

Verdict = Literal["yes", "no", "unclear"]

_SIGNIFICANT = 0.05
MARGIN = 0.05
"""A learner that ends at most this share of the way from random to expert behind another counts as level."""
GOAL = 0.95


@dataclass(frozen=True)
class Pair:
    """Two learners, or a learner and the expert: mean return of a minus that of b, paired by episode.

    p            of no difference, Holm-corrected over all pairs of the comparison; NaN where one seed allows no test
    improvement  probability that a run of a ends better than one of b
    """

    a: str
    b: str
    mean: float
    low: float
    high: float
    p: float
    improvement: float

    @property
    def certain(self) -> bool:
        return self.p < _SIGNIFICANT


@dataclass(frozen=True)
class Answer:
    """`verdict` on "is imitation worth it here, against pure RL?", and a sentence or two that say why."""

    verdict: Verdict
    sentence: str


def pairs(outcome: Outcome) -> list[Pair]:
    """Every two learners, in the comparison's order, and every learner with the expert."""
    tested = {entry.algorithm: entry.x for entry in outcome.learners}
    sampled = {entry.algorithm: len(entry.results) > 1 for entry in outcome.learners}
    if outcome.references.expert is not None:
        tested["expert"] = np.array([outcome.references.expert.measured.returns])
        sampled["expert"] = True  # one policy is all there is of it
    found = []
    for a, b in combinations(tested, 2):
        diff = difference(tested[a], tested[b])
        known = sampled[a] and sampled[b]
        ends = (diff.low, diff.high, diff.p) if known else (math.nan,) * 3
        found.append(Pair(a, b, diff.mean, *ends, improvement(tested[a], tested[b])))
    corrected = holm([pair.p for pair in found])
    return [
        Pair(pair.a, pair.b, pair.mean, pair.low, pair.high, p, pair.improvement)
        for pair, p in zip(found, corrected, strict=True)
    ]


def answer(outcome: Outcome) -> Answer:
    """Whether some imitation learner did better than every RL learner, certainly so: by its final return, or by being
    level in the end (within MARGIN) and ahead on the way, by the area under its curve."""
    imitators = [entry for entry in outcome.ranked() if entry.imitates]
    rivals = [entry for entry in outcome.ranked() if not entry.imitates]
    if not imitators or not rivals:
        lacking = "imitation" if not imitators else "pure RL (add ppo)"
        best = _reached(outcome, outcome.ranked()[0])
        return Answer("unclear", f"Can't tell: no learner by {lacking} took part. {best}.")
    table = {(pair.a, pair.b): pair for pair in pairs(outcome)}
    for candidates, others, verdict in ((imitators, rivals, "yes"), (rivals, imitators, "no")):
        for entry in candidates:
            if all(_ahead(outcome, table, entry, other, len(table)) for other in others):
                return _said(outcome, "yes" if verdict == "yes" else "no", entry, others[0])
    return _said(outcome, "unclear", imitators[0], rivals[0])


def _ahead(
    outcome: Outcome, table: dict[tuple[str, str], Pair], entry: Entry, other: Entry, tests: int
) -> bool:
    """Certainly better in the end; or certainly not worse by more than the margin, and certainly faster."""
    pair, sign = table.get((entry.algorithm, other.algorithm)), 1.0
    if pair is None:
        pair, sign = table[other.algorithm, entry.algorithm], -1.0
    if math.isnan(pair.p):
        return False
    if pair.certain:
        return sign * pair.mean > 0
    span = (outcome.expert_mean or 0.0) - outcome.random_mean
    lowest = pair.low if sign > 0 else -pair.high
    if outcome.share(0.0) is None or lowest < -MARGIN * span:
        return False
    areas = [np.array(outcome.area(each))[:, None] for each in (entry, other)]
    faster = difference(*areas)
    return faster.mean > 0 and faster.p * tests < _SIGNIFICANT


def _said(outcome: Outcome, verdict: Verdict, best: Entry, other: Entry) -> Answer:
    budget = number(outcome.comparison.budget)
    if verdict == "unclear":
        seeds = min(len(best.results), len(other.results))
        why = "one seed allows no test" if seeds == 1 else f"{seeds} seeds do not tell them apart"
        ends = f"{_ended(outcome, best)}, {_ended(outcome, other)} after {budget} steps"
        return Answer("unclear", f"Can't tell yet: {ends}; {why}.")
    lead = "Worth it: yes." if verdict == "yes" else "Worth it: no."
    rest = f"{other.title} was at {_value(outcome, other)} after {budget}"
    return Answer(verdict, f"{lead} {_reached(outcome, best)}; {rest}.")


def _reached(outcome: Outcome, entry: Entry) -> str:
    """What it took to 95 % of the expert, or how far it came."""
    steps, ended = typical_cost(outcome.to_reach(entry, GOAL)), outcome.share(entry.mean)
    if steps is None or ended is None or ended < GOAL - MARGIN:  # it may have been there, and lost it again
        return f"{_ended(outcome, entry)} after {number(outcome.comparison.budget)} steps"
    took = f"{number(round(steps))} steps"
    answers = typical_cost(outcome.to_reach(entry, GOAL, "queries"))
    if entry.imitates and answers is not None:
        took = f"{number(round(answers))} expert answers and {took}"
    return f"{entry.title} reaches {percent(GOAL)} of the expert with {took}"


def _ended(outcome: Outcome, entry: Entry) -> str:
    return f"{entry.title} ended at {_value(outcome, entry)}"


def _value(outcome: Outcome, entry: Entry) -> str:
    share = outcome.share(entry.mean)
    return f"a return of {number(entry.mean)}" if share is None else percent(share)


def typical_cost(costs: Sequence[float | None]) -> float | None:
    """The median seed's; None where it was not there within the budget."""
    ordered = sorted(math.inf if cost is None else cost for cost in costs)
    middle = ordered[len(ordered) // 2] if ordered else math.inf
    return None if math.isinf(middle) else middle


def warnings(outcome: Outcome) -> list[str]:
    """What a reader should know before believing any of it."""
    said = []
    seeds = min(len(entry.results) for entry in outcome.learners)
    if seeds < ENOUGH_SEEDS:
        count = "One seed says" if seeds == 1 else f"{seeds} seeds say"
        said.append(
            f"{count} little of another: run {ENOUGH_SEEDS} or more (add them with --seeds {ENOUGH_SEEDS})."
        )
    for entry in outcome.learners:
        notes = [note for note in entry.results[0].notes if note.startswith("preset")]
        said += [f"{entry.title}: {note}." for note in notes]
        spent = entry.average("env_steps") + entry.average("demo_steps")
        if spent < 0.9 * outcome.comparison.budget:
            said.append(
                f"{entry.title} spent {number(round(spent))} of {number(outcome.comparison.budget)} steps."
            )
    if outcome.missing:
        said.append(f"Not run yet: {listed(list(outcome.missing))}.")
    expert = outcome.references.expert
    if expert is not None and outcome.share(0.0) is None:
        said.append(
            f"The expert ({number(expert.measured.mean)}) is no better than random actions: shares mean nothing."
        )
    elif expert is not None and expert.published_return is not None:
        short = expert.published_return - expert.measured.mean
        if short > 0.2 * abs(expert.published_return):
            said.append(
                f"The expert is weak here: {number(expert.measured.mean)}, "
                f"where {number(expert.published_return)} was published."
            )
    return said


def cost_words(outcome: Outcome, entry: Entry, share: float, cost: Cost = "steps") -> str:
    """ "2,500", "2,500 (4 of 5 seeds)" or "> 20,000 (2 of 5 seeds)": the median seed, censored at the budget."""
    costs = outcome.to_reach(entry, share, cost)
    there = [value for value in costs if value is not None]
    typical = typical_cost(costs)
    if typical is None:
        most = max(getattr(result.curve[-1], cost) for result in entry.results)
        text = f"> {number(round(most))}"
    else:
        text = number(typical if cost == "cpu_seconds" and typical < 100 else round(typical))
    return text if len(there) == len(costs) else f"{text} ({len(there)} of {len(costs)} seeds)"
