"""Who carries out tasks: processes of this machine, or a Ray cluster. A task is a function of plain data that reads and
writes files below one folder, so that it can be done on another machine and its files brought back.
"""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from imitate.compare.backends.luggage import Luggage
from imitate.envs.trust import trust, trusted
from imitate.errors import InputError, one_line

__all__ = ["Backend", "Failure", "Report", "Task", "now_and_then", "perform"]

Report = Callable[[int], None]


@dataclass(frozen=True)
class Task:
    """The call `function(root, *args, progress=report)`. Paths are relative to `root`; on another machine the function
    gets another folder in its place.

    name        unlike those of other tasks under way
    reads       files that it needs, made by earlier tasks
    writes      files, and folders with all that is in them, that it makes; after an interruption it goes on from them
    luggage     what else it needs on another machine
    trusted     names whose code the worker may run: those that this process trusts
    checkpoint  one of the written files: when it changes, what has been written by then is worth bringing back
    learns      gets the share of a GPU that a run has been given
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    root: Path = Path()
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    luggage: Luggage | None = None
    checkpoint: Path | None = None
    learns: bool = False
    trusted: frozenset[str] = field(default_factory=trusted)


@dataclass(frozen=True)
class Failure:
    """Why a task failed, in one line; its traceback where it raised something other than InputError."""

    error: str
    traceback: str = ""


class Backend(Protocol):
    """Carries out tasks, several at a time, inside a `with` block, which can be entered again after it ended.

    Leaving the block by Ctrl-C interrupts the tasks under way once, so that they save what they have, waits for them,
    and brings their files back; a second Ctrl-C kills them.
    """

    def submit(self, task: Task) -> None:
        """Do this as soon as there is room."""
        ...

    def ended(self) -> Iterator[tuple[str, Failure | None]]:
        """Wait a moment; the names of tasks that have ended, their files in place, with what went wrong if they
        failed."""
        ...

    def news(self) -> Iterator[tuple[str, int]]:
        """The progress (name, position) reported since the last call."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def perform(task: Task, root: Path, progress: Report) -> Failure | None:
    """In a worker's main thread: one task, which SIGINT interrupts. To be interrupted is no failure."""
    trust(*task.trusted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        task.function(root, *task.args, progress=progress)
    except KeyboardInterrupt:
        pass
    except InputError as error:
        return Failure(one_line(error))
    except Exception as error:
        return Failure(f"{type(error).__name__}: {one_line(error)}", traceback.format_exc())
    finally:
        signal.signal(signal.SIGINT, before)
    return None


def now_and_then(report: Report, seconds: float) -> Report:
    """`report`, called at most every so many seconds."""
    due = 0.0

    def limited(position: int) -> None:
        nonlocal due
        if time.monotonic() >= due:
            report(position)
            due = time.monotonic() + seconds

    return limited
