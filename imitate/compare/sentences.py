"""A comparison's outcome in plain words, computed from its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from imitate.compare.results import Entry, Outcome

__all__ = [
    "bars_in_words",
    "curves_in_words",
    "duration",
    "listed",
    "number",
    "percent",
    "points_in_words",
    "summary",
]


def summary(outcome: Outcome) -> str:
    """Three sentences: who did best, how the others did and whether that is certain, and what it took."""
    ranked = outcome.ranked()
    level = [learner for learner in ranked if number(learner.mean) == number(ranked[0].mean)]
    others = ranked[len(level) :]
    sentences = [_first(outcome, level), _second(outcome, level, others), _third(outcome)]
    return " ".join(sentence for sentence in sentences if sentence)


def _first(outcome: Outcome, level: Sequence[Entry]) -> str:
    names, budget = listed([learner.title for learner in level]), number(outcome.comparison.budget)
    ended = "ended" if len(outcome.learners) == 1 else "ended level" if len(level) > 1 else "ended best"
    way = _way(outcome, level[0])
    return f"With {budget} environment steps each, {names} {ended}, at a mean return of {way}."


def _way(outcome: Outcome, learner: Entry) -> str:
    share, expert, random = outcome.share(learner.mean), outcome.expert_mean, outcome.random_mean
    if expert is None:
        return f"{_with_half(learner)} (random actions get {number(random)})"
    if share is None:
        return f"{_with_half(learner)} (random actions get {number(random)}, the expert {number(expert)})"
    way = (
        f"{percent(share)} of the way from random actions ({number(random)}) to the expert ({number(expert)})"
    )
    return f"{_with_half(learner)}: {way}"


def _second(outcome: Outcome, level: Sequence[Entry], others: Sequence[Entry]) -> str:
    if not others:
        return ""
    reached = [learner for learner in others if (outcome.share(learner.mean) or 0) >= 0]
    parts: list[str] = []
    for learner in reached:
        share = outcome.share(learner.mean)
        parts.append(f"{learner.title} {'' if parts else 'reached '}{_value(learner.mean, share)}")
    if below := [learner.title for learner in others if learner not in reached]:
        parts.append(f"{listed(below)} ended below random actions")
    best = level[0]
    close = [learner.title for learner in others if learner.ci95[1] >= best.ci95[0]]
    if not close:
        return f"{listed(parts)}."
    seeds = "one seed does" if len(best.results) == 1 else f"{len(best.results)} seeds do"
    alike = [learner.title for learner in level] + close
    return f"{listed(parts)}; {seeds} not tell {listed(alike)} apart."


def _third(outcome: Outcome) -> str:
    parts: list[str] = []
    for learner in outcome.learners:
        queries = learner.average("expert_queries")
        asked = number(round(queries)) if queries else "none"
        asked = asked if parts else f"used {asked} of the expert's actions"
        parts.append(f"{learner.title} {asked} and {duration(learner.average('wall_seconds'))}")
    return f"Per seed, {', '.join(parts)}."


def _value(mean: float, share: float | None) -> str:
    return number(mean) if share is None else percent(share)


def curves_in_words(outcome: Outcome) -> str:
    """For who can't see the figure."""
    parts: list[str] = []
    for learner in outcome.learners:
        steps, mean, _, _ = learner.curve()
        if len(steps):
            parts.append(
                f"{learner.title} goes from {number(mean[0])} at {number(steps[0])} steps "
                f"to {number(mean[-1])} at {number(steps[-1])}"
            )
    return f"Learning curves, mean return against environment steps: {'; '.join(parts)}. {_levels(outcome)}"


def points_in_words(outcome: Outcome) -> dict[str, list[str]]:
    """What each point of a learning curve says when it is pointed at."""
    words = {}
    for learner in outcome.learners:
        points = zip(*learner.curve(), strict=True)
        words[learner.algorithm] = [
            f"{learner.title} after {number(round(step))} steps: {number(mean)}"
            + ("" if math.isnan(low) else f" ± {number((high - low) / 2)}")
            for step, mean, low, high in points
        ]
    return words


def bars_in_words(outcome: Outcome) -> str:
    parts = [f"{learner.title} {_with_half(learner)}" for learner in outcome.learners]
    return f"Final mean returns: {', '.join(parts)}. {_levels(outcome)}"


def _levels(outcome: Outcome) -> str:
    expert = "" if outcome.expert_mean is None else f"The expert gets {number(outcome.expert_mean)}, "
    return f"{expert}random actions {number(outcome.random_mean)}."


def _with_half(learner: Entry) -> str:
    low, high = learner.ci95
    return f"{number(learner.mean)} ± {number((high - low) / 2)}"


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def number(value: float) -> str:
    """About four digits, thousands apart, a real minus sign; never an exponent."""
    size = abs(value)
    digits = 0 if size >= 1_000 or value == int(value) else 1 if size >= 10 else 2
    return f"{value:,.{digits}f}".replace("-", "−")


def percent(share: float) -> str:
    return f"{100 * share:.0f} %".replace("-0 %", "0 %").replace("-", "−")


def duration(seconds: float) -> str:
    """In the unit that a person would use."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"
