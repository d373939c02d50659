"""Summaries of the records of rows. The records themselves stay in the repository."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy import stats

__all__ = ["SUMMARIES", "Summary", "fits_in", "prediction_interval", "read_summaries"]

SUMMARIES = Path(__file__).parent / "summaries.json"


@dataclass(frozen=True)
class Summary:
    """A row's record in short.

    means    mean return of each seed
    ci95     interval of their mean, for other seeds and episodes; None for fewer than three seeds
    expert   mean return of the expert; None if there is none
    random   mean return of random actions
    steps    environment steps of the seed that took most, with demonstrations and validation
    minutes  mean minutes of a seed on the machine of the record, or estimated if a GPU did all of them
    cpu, commit  that machine's processor, or "", and the commits of the code; `older` if the record does not say
    """

    means: tuple[float, ...]
    ci95: tuple[float, float] | None
    expert: float | None
    random: float
    steps: int
    minutes: float
    cpu: str = ""
    commit: str = "older"

    @property
    def mean(self) -> float:
        return statistics.fmean(self.means)

    @property
    def fits(self) -> str:
        """The time in which a seed ends."""
        return fits_in(self.minutes)


def fits_in(minutes: float) -> str:
    """The time, in words, in which something that takes these minutes ends."""
    for most, name in ((10, "10 minutes"), (60, "an hour"), (600, "a night")):
        if minutes <= most:
            return name
    return "days"


def read_summaries() -> dict[str, Summary]:
    """Summaries by row; a row that was never measured is absent."""
    found = json.loads(SUMMARIES.read_text("utf-8"))
    return {name: Summary(**summary | {"means": tuple(summary["means"])}) for name, summary in found.items()}


def prediction_interval(means: Sequence[float], count: int) -> tuple[float, float] | None:
    """The interval in which the mean of `count` further seeds lies with 95 %, if seeds are normal: t * s *
    sqrt(1/n + 1/k) around the mean. None for a single recorded seed."""
    if len(means) < 2:
        return None
    middle, spread = statistics.fmean(means), statistics.stdev(means)
    half = float(stats.t.ppf(0.975, len(means) - 1)) * spread * math.sqrt(1 / len(means) + 1 / count)
    return middle - half, middle + half
