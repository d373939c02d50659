"""The one exception for a caller's mistake."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["LARGEST", "InputError", "check_range", "did_you_mean", "one_line"]


LARGEST = 1 << 53
"""The largest whole number in settings; a seed of 10**30 would fail in libraries, much later."""


LONGEST_LINE = 1_600


class InputError(ValueError):
    """The caller's input can't be used. The message is one line: what was given, what was wanted and what to do.

    The command line prints only the message and exits with status 2.
    """


def check_range(owner: object, low: float, high: float, *names: str) -> None:
    """Raise InputError unless the attributes `names` of `owner` are numbers in [low, high]; NaN never is."""
    for name in names:
        value = getattr(owner, name)
        if not low <= value <= high:
            wanted = f"at least {low}" if high >= LARGEST and not value > high else f"in [{low}, {high}]"
            raise InputError(f"{name} must be {wanted}, got {value}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'PPO'?"` with the known name closest to `name`, or an empty string."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.6)
    return f"; did you mean {by_lower_case[near[0]]!r}?" if near else ""


def one_line(error: BaseException | str) -> str:
    """A message or an exception's, without line breaks; the middle of a very long one is left out."""
    line = " ".join(str(error).split())
    return line if len(line) <= LONGEST_LINE else f"{line[:1_000]} ... {line[-500:]}"
