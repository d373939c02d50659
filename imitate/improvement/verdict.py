"""The verdict of a search: whether the student is better than the expert, by the test's paired episodes, and the result
as verdict.json holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from imitate.compare.formatting import interval_words, number
from imitate.compare.plan.learners import title
from imitate.compare.statistics.intervals import difference
from imitate.files import Count, Number
from imitate.improvement.candidates import imitates
from imitate.improvement.episodes import Played
from imitate.improvement.task import Task
from imitate.improvement.teacher import Teacher
from imitate.rl.paired import LEAST_PAIRS

__all__ = ["Gain", "Kind", "Result", "Verdict", "gain", "verdict_of"]

Kind = Literal["better", "as good", "kept", "worse", "untested"]
_NEGLIGIBLE = 0.01  # of the expert's mean return


@dataclass(frozen=True)
class Gain:
    """The student's mean return minus the expert's in the test, paired by episode, with its 95 % interval.

    student, expert   mean returns over the `pairs` of episodes
    """

    mean: Number
    low: Number
    high: Number
    student: Number
    expert: Number
    pairs: Count

    @property
    def better(self) -> bool:
        return self.low > 0

    @property
    def worse(self) -> bool:
        """The interval is below 0, and the mean by more than 1 % of the expert's."""
        return self.high < 0 and -self.mean > _NEGLIGIBLE * abs(self.expert)


def gain(student: Played, expert: Played) -> Gain | None:
    """The student's gain on the episodes that both played to their end; None if there are fewer than three."""
    own, others = student.by_seed, expert.by_seed
    both = [seed for seed in own if seed in others]
    if len(both) < LEAST_PAIRS:
        return None
    x, y = (np.array([returns[seed] for seed in both]) for returns in (own, others))
    found = difference(x, y)
    return Gain(found.mean, found.low, found.high, float(x.mean()), float(y.mean()), len(both))


@dataclass(frozen=True)
class Verdict:
    """The end of a search.

    kind       `better`; `as good`; `kept`: an imitator of the expert, as good as it; `worse`: nothing that is as good
               was found, by the test or, if there was none, by validation; `untested`: the budget did not last for the
               test
    policy     name of the snapshot that is handed over, unless it is `worse`
    gain       of that policy; None if it was not tested
    """

    kind: Kind
    learner: str
    policy: str
    gain: Gain | None
    sentence: str


@dataclass(frozen=True)
class Result:
    """A finished search.

    seeds   of the streams of episodes: validation and test
    costs   environment steps by purpose; together at most the budget
    """

    verdict: Verdict
    teacher: Teacher
    task: Task
    seeds: dict[str, int]
    costs: dict[str, Count]
    versions: dict[str, str]


def verdict_of(policy: str, found: Gain | None, budget: int, validated: Gain | None = None) -> Verdict:
    """The verdict on a snapshot, `learner-steps`, from its gain in the test, or without one from that in validation."""
    learner = policy.rpartition("-")[0]
    if found is None and validated is not None and validated.worse:
        untested = "These are of the validation: no steps were left for a test."
        sentence = f"{_sentence('worse', learner, validated, budget)} {untested}"
        return Verdict("worse", learner, policy, None, sentence)
    kind: Kind
    if found is None:
        kind = "untested"
    elif found.better:
        kind = "better"
    elif found.worse:
        kind = "worse"
    else:
        kind = "kept" if imitates(learner) else "as good"
    return Verdict(kind, learner, policy, found, _sentence(kind, learner, found, budget))


def _sentence(kind: Kind, learner: str, found: Gain | None, budget: int) -> str:
    """The verdict in words."""
    who = title(learner)
    if found is None:
        return f"Untested: {budget:,} steps did not last for a test; the policy is {who}'s, the best in validation."
    by, ends = number(abs(found.mean)), interval_words(found.low, found.high)
    means = f"{who} makes {number(found.student)}, the expert {number(found.expert)} in {found.pairs} paired episodes"
    if kind == "better":
        return f"Better by {by} ({ends}): {means}."
    if kind == "as good":
        return f"As good as your expert (difference {number(found.mean)}, {ends}): {means}."
    if kind == "kept":
        return (
            f"Kept your expert's imitation: nothing better was found in {budget:,} steps ({ends}): {means}."
        )
    nothing = f"Keep your expert: nothing as good was found in {budget:,} steps"
    return f"{nothing}. The best is worse by {by} ({ends}): {means}."
