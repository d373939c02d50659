"""A learner's share in the budget of environment steps: the progress of its schedules, and its rounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from imitate.errors import InputError

__all__ = ["Budget", "Stepping", "progress_of", "rounds"]


class Budget(Protocol):
    @property
    def total_steps(self) -> int: ...


class Stepping(Protocol):
    """The part of a learner that `progress_of` and `rounds` read."""

    @property
    def config(self) -> Budget: ...
    @property
    def env_steps(self) -> int: ...
    @property
    def least_steps(self) -> int: ...


def progress_of(learner: Stepping, limit: int | None) -> float:
    """Progress of a learner's schedules, in [0, 1], if at most `limit` more steps can follow.

    Schedules reach 1 when the budget is spent, even if validations took part of it, or at `total_steps` if that is
    sooner. Raises InputError if the limit is less than the learner's `least_steps`.
    """
    if limit is not None and limit < learner.least_steps:
        raise InputError(
            f"an iteration takes at least {learner.least_steps} steps, but only {limit} are left"
        )
    total, taken = learner.config.total_steps, learner.env_steps
    end = total if limit is None else min(total, taken + limit)
    return min(taken / end, 1.0)


def rounds(learner: Stepping, count: int, limit: int | None) -> Iterator[tuple[int | None, float]]:
    """The remaining `limit` and the progress of the schedules at each of `count` rounds of an iteration.

    Ends early once less than `least_steps` is left.
    """
    end = None if limit is None else learner.env_steps + limit
    for number in range(count):
        left = None if end is None else end - learner.env_steps
        if number and left is not None and left < learner.least_steps:
            return
        yield left, progress_of(learner, left)
