"""Finds the way to improve on an expert that pays, on a budget of environment steps, and proves it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imitate.improvement.task import Task
    from imitate.improvement.verdict import Verdict

__all__ = ["improve"]


def improve(task: Task, out: Path | str) -> Verdict:
    """Look for a better policy than the expert's, and write it, the verdict and a report to the folder `out`.

    Goes on with an interrupted search in `out`; a finished one is returned as it is.

    Raises InputError if `out` holds another search, if the expert can't be loaded or is for another environment, if the
    budget is too small, and if the environment or the expert fails. KeyboardInterrupt (Ctrl-C) leaves the best policy
    so far in `out`.
    """
    from imitate.improvement.search import search

    return search(task, Path(out))
