"""The verdict of a suite: whether imitation was worth it over its environments."""

from __future__ import annotations

import math
from collections.abc import Sequence

from imitate.compare.formatting import counted, interval_words, listed, number, p_words
from imitate.compare.plan.learners import title
from imitate.compare.statistics.aggregate import Aggregate, Lead, SuiteOutcome
from imitate.compare.statistics.intervals import ENOUGH_SEEDS, Difference
from imitate.compare.statistics.verdict import Answer, Verdict, answer, cautions, survivors, without_result

__all__ = ["suite_answer", "suite_warnings"]


def suite_answer(suite: SuiteOutcome) -> Answer:
    """The verdict is yes if the best imitation learner's interquartile mean is significantly above every RL learner's,
    and no in the opposite case; there is none if runs of the best learner failed, or while a learner that is asked for
    everywhere lacks a result."""
    imitators = [each for each in suite.aggregates if each.imitates]
    rivals = [each for each in suite.aggregates if not each.imitates]
    if not imitators or not rivals:
        lacking = "imitation" if not imitators else "pure RL"
        return Answer("unclear", f"Can't tell: no learner by {lacking} has a score in every environment.")
    if suite.lacking:
        return Answer("unclear", f"Can't tell: {without_result(suite.lacking)} in some environments.")
    table = {(lead.a, lead.b): lead for lead in suite.leads if lead.asked}
    asked: list[tuple[Verdict, Aggregate, list[Aggregate]]] = [
        ("yes", imitators[0], rivals),
        ("no", rivals[0], imitators),
    ]
    for verdict, best, others in asked:
        # Each pair has the better learner first.
        ahead = [table.get((best.algorithm, other.algorithm)) for other in others]
        certain = [lead for lead in ahead if lead is not None and lead.certain]
        if len(certain) == len(others):
            if lost := suite.failed(best.algorithm):
                return survivors(best.title, lost)
            return _said(suite, verdict, max(certain, key=lambda lead: lead.p))
    return _said(suite, "unclear", next(lead for lead in table.values() if not lead.certain))


def _said(suite: SuiteOutcome, verdict: Verdict, lead: Lead) -> Answer:
    """The answer in words; `lead` is the test that decided, or the first that did not."""
    known = {each.algorithm: each for each in suite.aggregates}
    a, b, count = known[lead.a], known[lead.b], len(suite.scored)
    gain = f"difference of {number(lead.iqm.value)}"
    if not math.isnan(lead.p):
        gain += f" ({interval_words(lead.iqm.low, lead.iqm.high)}, {p_words(lead.p)})"
    head = "Can't tell yet." if verdict == "unclear" else f"Worth it: {verdict}."
    why = f"the {gain} decides" if verdict != "unclear" else f"a {gain} decides nothing"
    scores = (
        f"Over {counted(count, 'environment')} {a.title} reaches {number(a.iqm.value)} "
        f"of the expert (interquartile mean), {b.title} {number(b.iqm.value)}"
    )
    verdicts = [answer(suite.outcomes[label]).verdict for label in suite.scored]
    parts = f"By environment it is {verdicts.count('yes')} times yes, {verdicts.count('no')} times no"
    said = f"{head} {scores}; {why}. {parts}."
    if verdict == "unclear":
        return Answer(verdict, said)
    result = Difference(lead.iqm.value, lead.iqm.low, lead.iqm.high, lead.p)
    return Answer(verdict, said, "IQM", a.algorithm, b.algorithm, result)


def suite_warnings(suite: SuiteOutcome) -> list[str]:
    """Warnings that a reader should know before drawing conclusions."""
    said = []
    if suite.seeds < ENOUGH_SEEDS:
        said.append(
            f"{suite.seeds} seed{'s are' if suite.seeds > 1 else ' is'} too few: run {ENOUGH_SEEDS} or more "
            f"(add them with --seeds {ENOUGH_SEEDS})."
        )
    for label, outcome in suite.outcomes.items():
        if label not in suite.scored:
            named = outcome.references.expert is not None
            why = "its expert is no better than random actions" if named else "it has no expert"
            said.append(f"{label} has no scores, as {why}.")
        if found := cautions(outcome):
            said.append(f"{label}: {' '.join(found)}")
        if outcome.missing:
            said.append(f"{label}: not run yet: {_few(outcome.missing)}.")
    said += [f"Failed: {failure}." for failure in suite.failures]
    if waiting := [label for label, failures in suite.absent.items() if not failures]:
        said.append(f"Nothing has ended yet in {listed(waiting)}.")
    if suite.scored and suite.partly:
        partly = listed([title(name) for name in suite.partly])
        said.append(f"Left out of the overall scores, without results in every environment: {partly}.")
    return said


def _few(names: Sequence[str]) -> str:
    return listed(list(names) if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"])
