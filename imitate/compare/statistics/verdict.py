"""The verdict of a comparison: whether imitation was worth it against pure RL, with warnings.

It rests on differences that are paired by episode and corrected by Holm, never on whether two intervals overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_high
from typing import Literal

from imitate.compare.formatting import counted, interval_words, listed, number, p_words, percent
from imitate.compare.plan.learners import title
from imitate.compare.statistics.collapse import collapse
from imitate.compare.statistics.entry import Entry
from imitate.compare.statistics.intervals import ENOUGH_SEEDS, Difference
from imitate.compare.statistics.job_results import Cost
from imitate.compare.statistics.outcome import Outcome
from imitate.compare.statistics.pairs import SIGNIFICANT, Pair

__all__ = [
    "GOAL",
    "MARGIN",
    "Answer",
    "answer",
    "cautions",
    "cost_words",
    "survivors",
    "typical_cost",
    "warnings",
    "without_result",
]

Verdict = Literal["yes", "no", "unclear"]

MARGIN = 0.05
"""A learner that ends at most this share of the way from random to expert behind another counts as level."""
GOAL = 0.95
"""Share of the way from random actions to the expert at which costs are compared."""


@dataclass(frozen=True)
class Answer:
    """`verdict` on "is imitation worth it here, against pure RL?", and sentences that say why.

    test    the test that decided: "final return", "area under the curve", or "IQM" for a suite; None if none did
    result  its result: the difference between `a` and `b`, the interval, and p corrected for all tests of the family.
            If several tests had to be passed, this is the one with the largest p
    """

    verdict: Verdict
    sentence: str
    test: str | None = None
    a: str | None = None
    b: str | None = None
    result: Difference | None = None


def answer(outcome: Outcome) -> Answer:
    """Decides if some imitation learner did significantly better than every RL learner: by its final return, or by the
    area under its curve if it is level in the end (within MARGIN). There is no verdict if some of its runs failed, or
    while another learner has no result, as that one may be better."""
    if outcome.lacking:
        return Answer("unclear", f"Can't tell: {without_result(outcome.lacking)}. {_best(outcome)}")
    imitators = [entry for entry in outcome.ranked() if entry.imitates]
    rivals = [entry for entry in outcome.ranked() if not entry.imitates]
    if not imitators or not rivals:
        lacking = "imitation" if not imitators else "pure RL (add ppo)"
        return Answer("unclear", f"Can't tell: no learner by {lacking} took part. {_best(outcome)}")
    found = [pair for pair in outcome.pairs if pair.asked]
    table = {(pair.a, pair.b): pair for pair in [*found, *(pair.turned() for pair in found)]}
    asked: list[tuple[Verdict, list[Entry], list[Entry]]] = [
        ("yes", imitators, rivals),
        ("no", rivals, imitators),
    ]
    for verdict, candidates, others in asked:
        for entry in candidates:
            against = [table[entry.algorithm, other.algorithm] for other in others]
            passed = [(pair, *test) for pair in against if (test := _ahead(outcome, pair)) is not None]
            if len(passed) == len(others):
                if lost := outcome.failed(entry.algorithm):
                    return survivors(entry.title, lost)
                return _decided(outcome, verdict, *max(passed, key=lambda each: each[-1].p))
    return _open(outcome, [table[a.algorithm, b.algorithm] for a in imitators for b in rivals])


def survivors(name: str, lost: int) -> Answer:
    """The answer if so many runs of the learner that is ahead failed."""
    lucky = "the others, which are ahead, may be its lucky ones"
    return Answer("unclear", f"Can't tell: {counted(lost, 'run')} of {name} failed, and {lucky}.")


def without_result(names: Sequence[str]) -> str:
    """The learners as `PPO and A2C have no result`."""
    return f"{listed([title(name) for name in names])} {'has' if len(names) == 1 else 'have'} no result"


def _ahead(outcome: Outcome, pair: Pair) -> tuple[str, Difference] | None:
    """The name and result of the test by which the pair's first learner is better: its final return is significantly
    higher; or the final returns don't differ significantly, it is certainly not behind by more than the margin, and it
    is significantly faster. None if it is neither."""
    if pair.certain:
        final = Difference(pair.mean, pair.low, pair.high, pair.p)
        return ("final return", final) if pair.mean > 0 else None
    span = (outcome.expert_mean or 0.0) - outcome.random_mean
    if pair.area is None or not pair.low >= -MARGIN * span:  # NaN: one seed
        return None
    faster = pair.area.mean > 0 and pair.area.p < SIGNIFICANT
    return ("area under the curve", pair.area) if faster else None


def _decided(outcome: Outcome, verdict: Verdict, pair: Pair, test: str, result: Difference) -> Answer:
    ended = _ended(outcome, _named(outcome, pair))
    measured = percent if test == "area under the curve" else number
    ends = f"{interval_words(result.low, result.high, measured)}, {p_words(result.p)}"
    by = f"The {test} decides: a difference of {measured(result.mean)} ({ends})."
    said = f"Worth it: {verdict}. {ended}. {by}{_cheapest(outcome)}"
    return Answer(verdict, said, test, pair.a, pair.b, result)


def _open(outcome: Outcome, asked: Iterable[Pair]) -> Answer:
    """The answer if there is no verdict; it names the first pair that can't be told apart."""
    pair = next(pair for pair in asked if not pair.certain)
    both = _named(outcome, pair)
    seeds = min(len(entry.results) for entry in both)
    why = "one seed allows no test"
    if seeds > 1:
        ends = f"{interval_words(pair.low, pair.high)}, {p_words(pair.p)}"
        why = f"{seeds} seeds do not tell them apart: the difference is {number(pair.mean)} ({ends})"
    return Answer("unclear", f"Can't tell yet: {_ended(outcome, both)}; {why}.")


def _named(outcome: Outcome, pair: Pair) -> list[Entry]:
    return [next(e for e in outcome.learners if e.algorithm == name) for name in (pair.a, pair.b)]


def _ended(outcome: Outcome, entries: Sequence[Entry]) -> str:
    first, *others = (f"{entry.title}{{}} at {_value(outcome, entry)}" for entry in entries)
    steps = f"after {number(outcome.comparison.budget)} steps"
    return ", ".join([first.format(" ended"), *(other.format("") for other in others)]) + f" {steps}"


def _best(outcome: Outcome) -> str:
    """Sentences on the best learner that has results and on the cheapest."""
    return f"{_ended(outcome, outcome.ranked()[:1])}.{_cheapest(outcome)}"


def _value(outcome: Outcome, entry: Entry) -> str:
    share, note = outcome.share(entry.mean), collapse(outcome, entry)
    text = f"a return of {number(entry.mean)}" if share is None else percent(share)
    return f"{text} ({note})" if note else text


def _cheapest(outcome: Outcome) -> str:
    """A sentence on the learner that reached 95 % of the expert in the fewest steps and stayed there; "" if none
    did."""
    there = []
    for entry in outcome.learners:
        steps, ended = typical_cost(outcome.to_reach(entry, GOAL)), outcome.share(entry.mean)
        if steps is not None and ended is not None and ended >= GOAL - MARGIN:  # it may have fallen back
            answers = typical_cost(outcome.to_reach(entry, GOAL, "queries")) if entry.imitates else None
            there.append((steps, answers or 0.0, entry.title))
    if not there:
        return ""
    steps, answers, name = min(there)
    asked = f"{number(round(answers))} expert answers and " if answers else ""
    return f" {name} reached {percent(GOAL)} of the expert at the least cost: {asked}{number(round(steps))} steps."


def typical_cost(costs: Sequence[float | None]) -> float | None:
    """The median seed's cost; None if it did not get there within the budget."""
    middle = median_high([math.inf if cost is None else cost for cost in costs])
    return None if math.isinf(middle) else middle


def warnings(outcome: Outcome) -> list[str]:
    """Warnings that a reader should know before drawing conclusions."""
    said = []
    if outcome.seeds < ENOUGH_SEEDS:
        count = "One seed says" if outcome.seeds == 1 else f"{outcome.seeds} seeds say"
        said.append(
            f"{count} little about others: run {ENOUGH_SEEDS} or more (add them with --seeds {ENOUGH_SEEDS})."
        )
    said += cautions(outcome)
    expert = outcome.references.expert
    if expert is not None and outcome.share(0.0) is None:
        said.append(
            f"The expert ({number(expert.measured.mean)}) is no better than random actions: shares mean nothing."
        )
    if outcome.missing:
        said.append(f"Not run yet: {listed(list(outcome.missing))}.")
    return said


def cautions(outcome: Outcome) -> list[str]:
    """The warnings that a suite's page repeats: those about learners and about a weak expert."""
    said = []
    for entry in outcome.learners:
        notes = [note for note in entry.results[0].notes if note.startswith("preset")]
        said += [f"{entry.title}: {note}." for note in notes]
        spent = entry.average("spent")
        if spent < 0.9 * outcome.comparison.budget:
            said.append(
                f"{entry.title} spent {number(round(spent))} of {number(outcome.comparison.budget)} steps."
            )
        if any(result.last_returns for result in entry.results):
            said.append(
                f"{entry.title}: its policy that was closest to the demonstrations counts; the last one returns "
                f"{number(entry.average('last_mean'))}."
            )
        if note := collapse(outcome, entry):
            each = listed([number(value) for value in sorted(result.mean for result in entry.results)])
            said.append(f"{entry.title}: {note} ({each}). Its mean describes neither group of seeds.")
    expert = outcome.references.expert
    if expert is not None and expert.published_return is not None and outcome.share(0.0) is not None:
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
