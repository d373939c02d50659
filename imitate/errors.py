"""The exception for a caller's mistake, and its subclass for failures of the caller's own code."""

from __future__ import annotations

import difflib
import errno
import traceback
from collections.abc import Iterable
from numbers import Integral
from pathlib import Path

__all__ = [
    "DISK_FULL",
    "LARGEST",
    "Fault",
    "InputError",
    "Unwritable",
    "check_range",
    "check_switches",
    "check_whole",
    "did_you_mean",
    "one_line",
    "pip_install",
    "raised",
]


DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk without room, which many libraries raise without the name of the file."""

LARGEST = 1 << 53
"""The largest whole number in settings; a seed of 10**30 would fail only much later, in a library."""


LONGEST_LINE = 1_600


class InputError(ValueError):
    """The caller's input can't be used. The message is one line: what was given, what was wanted and what to do.

    The command line prints only the message and exits with status 2.
    """


class Fault(InputError):
    """The caller's own code has failed: an environment or an expert. The message names it.

    seed   seed of the episode in which an environment failed; None for an expert
    """

    seed: int | None = None


class Unwritable(OSError, InputError):
    """A file can't be created. It is an OSError too, for callers that go on without the file."""

    def __str__(self) -> str:
        return f"{self.filename} can't be written: {self.strerror}"


def raised(who: str, error: BaseException) -> Fault:
    """The fault of `who`, whose code raised `error`, with the line that raised it."""
    called = traceback.extract_tb(error.__traceback__)[1:]  # the first frame is our own call
    own = [frame for frame in called if "site-packages" not in frame.filename] or called
    place = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    said = one_line(error)
    return Fault(f"{who} raised {type(error).__name__}{': ' if said else ''}{said}{place}")


def check_range(owner: object, low: float, high: float, *names: str) -> None:
    """Raise InputError unless the attributes `names` of `owner` are in [low, high], or None; NaN is rejected."""
    for name in names:
        value = getattr(owner, name)
        if value is not None and not low <= value <= high:
            wanted = f"at least {low}" if high >= LARGEST and not value > high else f"in [{low}, {high}]"
            raise InputError(f"{name} must be {wanted}, got {value}")


def check_switches(**switches: object) -> None:
    """Raise InputError unless each is true or false: the text "false", from JSON, would count as true."""
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise InputError(f"{name} must be true or false, got {value!r}")


def check_whole(**counts: object) -> None:
    """Raise InputError unless each is a whole number."""
    for name, value in counts.items():
        if not isinstance(value, Integral):
            raise InputError(f"{name} must be a whole number, got {value!r}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'PPO'?"` with the known name closest to `name`, or an empty string."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.6)
    return f"; did you mean {by_lower_case[near[0]]!r}?" if near else ""


def pip_install(extra: str) -> str:
    """The command that installs an extra; it is for the folder of the clone."""
    return f'pip install -c constraints.txt -e ".[{extra}]"'


def one_line(error: BaseException | str) -> str:
    """The message, or the exception's, without line breaks; the middle of a very long one is left out."""
    line = " ".join(str(error).split())
    return line if len(line) <= LONGEST_LINE else f"{line[:1_000]} ... {line[-500:]}"
