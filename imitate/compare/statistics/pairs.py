"""Pairwise differences between learners, paired by episode and corrected for the number of tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from imitate.compare.statistics.entry import Entry
from imitate.compare.statistics.intervals import Difference, difference, holm, improvement

__all__ = ["SIGNIFICANT", "Pair", "all_pairs"]

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Pair:
    """Two learners, or a learner and the expert: mean return of a minus that of b, paired by episode.

    p            p-value of no difference, Holm-corrected over the tests of its family; NaN if one seed allows no test
    improvement  probability that a run of a ends better than one of b
    alone        p uncorrected: below 0.05 if the interval excludes 0
    asked        whether one imitates and the other is pure RL. The verdict rests on the family of these pairs' final
                 returns and areas; the final returns of all other pairs are a second family
    area         difference of the areas under the curves, as shares of the way from random actions to the expert, with
                 p corrected as above; None if the pair is not `asked`, or if there are no shares
    """

    a: str
    b: str
    mean: float
    low: float
    high: float
    p: float
    improvement: float
    alone: float
    asked: bool
    area: Difference | None = None

    @property
    def certain(self) -> bool:
        return self.p < SIGNIFICANT

    def turned(self) -> Pair:
        """The same pair as b minus a."""
        area = self.area and replace(
            self.area, mean=-self.area.mean, low=-self.area.high, high=-self.area.low
        )
        return replace(
            self,
            a=self.b,
            b=self.a,
            mean=-self.mean,
            low=-self.high,
            high=-self.low,
            improvement=1 - self.improvement,
            area=area,
        )


def all_pairs(
    learners: Sequence[Entry], expert: Sequence[float] | None, areas: Mapping[str, Sequence[Sequence[float]]]
) -> list[Pair]:
    """All pairs of learners, in their order, and every learner with the expert.

    expert  its returns; None if there is none
    areas   by learner, of each seed and each of the curves' episodes (`Outcome.areas`)
    """
    found: list[Pair] = []
    for n, a in enumerate(learners):
        found += [_pair(a, b, areas) for b in learners[n + 1 :]]
        found += [] if expert is None else [_against(a, expert)]
    return _corrected(found)


def _pair(a: Entry, b: Entry, areas: Mapping[str, Sequence[Sequence[float]]]) -> Pair:
    final, chance = _tested(difference(a.x, b.x), a, b), improvement(a.x, b.x)
    asked, area = a.imitates != b.imitates, None
    if asked and areas[a.algorithm]:
        area = _tested(difference(areas[a.algorithm], areas[b.algorithm]), a, b)
    ends = (final.low, final.high, final.p)
    return Pair(a.algorithm, b.algorithm, final.mean, *ends, chance, final.p, asked, area)


def _against(entry: Entry, expert: Sequence[float]) -> Pair:
    """A learner compared with the expert, which is one given policy and not a sample."""
    diff = _tested(difference(entry.x, expert), entry)
    ends = (diff.low, diff.high, diff.p)
    return Pair(
        entry.algorithm, "expert", diff.mean, *ends, improvement(entry.x, expert), diff.p, asked=False
    )


def _tested(diff: Difference, *learners: Entry) -> Difference:
    """The difference, without interval and p if a learner has one seed."""
    known = all(len(learner.results) > 1 for learner in learners)
    return diff if known else Difference(diff.mean, math.nan, math.nan, math.nan)


def _corrected(found: Sequence[Pair]) -> list[Pair]:
    """Holm's correction within each of the two families; the order is kept."""
    corrected = list(found)
    for asked in (True, False):
        family = [n for n, pair in enumerate(found) if pair.asked == asked]
        with_area = [(n, area) for n in family if (area := found[n].area) is not None]
        adjusted = holm([*(found[n].alone for n in family), *(area.p for _, area in with_area)])
        for n, p in zip(family, adjusted, strict=False):
            corrected[n] = replace(corrected[n], p=p)
        for (n, area), p in zip(with_area, adjusted[len(family) :], strict=True):
            corrected[n] = replace(corrected[n], area=replace(area, p=p))
    return corrected
