"""Backends carry out tasks: processes of this machine, or a Ray cluster.

A task is a function of plain data that reads and writes files below one folder. So it can run on another machine, and
its files can be brought back.
"""

from __future__ import annotations

import logging
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from imitate.compare.backends.luggage import Luggage
from imitate.compare.statistics.job_results import Failure
from imitate.envs.trust import trust, trusted
from imitate.errors import InputError, one_line

__all__ = ["Backend", "Failure", "Report", "Task", "now_and_then", "perform", "settle"]

Report = Callable[[int], None]


@dataclass(frozen=True)
class Task:
    """The call `function(root, *args, progress=report)`. Paths are relative to `root`; on another machine the function
    gets another folder in its place.

    name        unique among the tasks under way
    reads       files that it needs, made by earlier tasks
    writes      files and whole folders that it makes; after an interruption it continues from them
    luggage     extra files that it needs on another machine
    trusted     names whose code the worker may run: those that this process trusts
    checkpoint  one of the written files; when it changes, all files written so far are brought back
    learns      whether the task trains a learner, and so gets a run's share of a GPU
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


class Backend(Protocol):
    """Carries out several tasks at a time inside a `with` block; the block can be entered again after it has ended.

    Ctrl-C inside the block interrupts the running tasks, so that they save their state, waits for them, and brings
    their files back. A second Ctrl-C kills them.
    """

    def submit(self, task: Task) -> None:
        """Queue a task; it starts as soon as there is room."""
        ...

    def ended(self) -> Iterator[tuple[str, Failure | None]]:
        """Wait a moment, then yield the tasks that have ended, with their failure if any; their files are in place."""
        ...

    def news(self) -> Iterator[tuple[str, int]]:
        """The progress (name, position) reported since the last call."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def perform(task: Task, root: Path, progress: Report) -> Failure | None:
    """Run one task in a worker's main thread. SIGINT interrupts it, which does not count as a failure."""
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


def settle() -> None:
    """Prepare a worker: SIGINT reaches it only while a task is performed, and it has one thread and gives no notices,
    since the main process gives each once."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("imitate").setLevel(logging.ERROR)


def now_and_then(report: Report, seconds: float) -> Report:
    """`report`, called at most once every `seconds`."""
    due = 0.0

    def limited(position: int) -> None:
        nonlocal due
        if time.monotonic() >= due:
            report(position)
            due = time.monotonic() + seconds

    return limited
