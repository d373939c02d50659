"""The result of a search, as verdict.json holds it."""

from __future__ import annotations

from dataclasses import dataclass

from imitate.files import Count
from imitate.improvement.task import Task
from imitate.improvement.teacher import Teacher
from imitate.improvement.verdict import Verdict

__all__ = ["Result"]


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
