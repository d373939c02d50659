"""What the numbers of a suite allow to say: whether imitation was worth it over its environments."""

from __future__ import annotations

from collections.abc import Sequence

from imitate.compare.aggregate import Aggregate, Lead, SuiteOutcome, leads
from imitate.compare.learners import title
from imitate.compare.statistics import ENOUGH_SEEDS
from imitate.compare.verdict import Answer, Verdict, answer
from imitate.compare.words import listed, number

__all__ = ["suite_answer", "suite_warnings"]


def suite_answer(suite: SuiteOutcome) -> Answer:
    """Yes where the interquartile mean of some imitation learner is certainly above that of every RL learner, no where
    it is the other way round."""
    imitators = [each for each in suite.aggregates if each.imitates]
    rivals = [each for each in suite.aggregates if not each.imitates]
    if not imitators or not rivals:
        lacking = "imitation" if not imitators else "pure RL"
        return Answer("unclear", f"Can't tell: no learner by {lacking} has a score in every environment.")
    table = {(lead.a, lead.b): lead for lead in leads(suite.aggregates)}
    for candidates, others, verdict in ((imitators, rivals, "yes"), (rivals, imitators, "no")):
        best = candidates[0]
        if all(_above(table, best, other) for other in others):
            return _said(suite, "yes" if verdict == "yes" else "no", best, others[0])
    return _said(suite, "unclear", imitators[0], rivals[0])


def _above(table: dict[tuple[str, str], Lead], best: Aggregate, other: Aggregate) -> bool:
    """Whether a learner is certainly better than another; pairs are of the better first."""
    lead = table.get((best.algorithm, other.algorithm))
    return lead is not None and lead.certain and lead.iqm.value > 0


def _said(suite: SuiteOutcome, verdict: Verdict, best: Aggregate, other: Aggregate) -> Answer:
    lead = {"yes": "Worth it: yes.", "no": "Worth it: no.", "unclear": "Can't tell yet."}[verdict]
    count = len(suite.scored)
    scores = (
        f"Over {count} environment{'s' if count > 1 else ''} {best.title} reaches {number(best.iqm.value)} "
        f"of the expert (interquartile mean), {other.title} {number(other.iqm.value)}"
    )
    verdicts = [answer(suite.outcomes[label]).verdict for label in suite.scored]
    parts = f"by environment it is {verdicts.count('yes')} times yes, {verdicts.count('no')} times no"
    return Answer(verdict, f"{lead} {scores}; {parts}.")


def suite_warnings(suite: SuiteOutcome) -> list[str]:
    """What a reader should know before believing any of it."""
    said = []
    if 0 < suite.seeds < ENOUGH_SEEDS:
        said.append(
            f"{suite.seeds} seed{'s are' if suite.seeds > 1 else ' is'} too few: run {ENOUGH_SEEDS} or more "
            f"(add them with --seeds {ENOUGH_SEEDS})."
        )
    for label, outcome in suite.outcomes.items():
        if label not in suite.scored:
            said.append(f"{label} has no scores, as its expert is no better than random actions.")
        said += [f"{label}: failed: {failure}." for failure in outcome.failures]
        if outcome.missing:
            said.append(f"{label}: not run yet: {_few(outcome.missing)}.")
    if suite.absent:
        said.append(f"Nothing has ended yet in {listed(list(suite.absent))}.")
    if suite.partly:
        partly = listed([title(name) for name in suite.partly])
        said.append(f"Not in every environment, so left out of what is over all: {partly}.")
    return said


def _few(names: Sequence[str]) -> str:
    return listed(list(names) if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"])
