"""Process-wide services of a run: signals, processor time, and reuse of freed memory."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger(__name__)

__all__ = ["cpu_seconds", "interruptible", "interruptions", "keep_freed_memory", "terminations"]


@contextmanager
def interruptible() -> Iterator[Callable[[], int]]:
    """Catch SIGINT (Ctrl-C), SIGTERM and SIGHUP; yields a function that returns the number of the caught signal, or 0.

    After a signal its previous handler is back, so a second Ctrl-C ends the program at once. Another signal may still
    come: a batch system sends SIGTERM to each process of a job, and a comparison then interrupts its workers too.
    """
    seen = 0
    before: dict[int, Any] = {}

    def handle(number: int, _frame: Any) -> None:
        nonlocal seen
        seen = number
        signal.signal(number, before[number])
        if number == signal.SIGINT:
            logger.info("stopping after this iteration; Ctrl-C again stops at once")

    try:
        for number in interruptions():
            before[number] = signal.signal(number, handle)
    except ValueError:  # only the main thread may set handlers; in others the caller deals with signals
        yield lambda: 0
        return
    try:
        yield lambda: seen
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def interruptions() -> list[signal.Signals]:
    """SIGINT (Ctrl-C) and `terminations()`, each unless its handler is not Python's and so could not be put back."""
    return [*_ours(signal.SIGINT), *terminations()]


def terminations() -> list[signal.Signals]:
    """Signals that ask a process to end: SIGTERM, and SIGHUP of a terminal or connection that closes, unless that is
    ignored, as under nohup; each unless its handler is not Python's."""
    if not hasattr(signal, "SIGHUP") or signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # Windows has none
        return _ours(signal.SIGTERM)
    return _ours(signal.SIGTERM, signal.SIGHUP)


def _ours(*numbers: signal.Signals) -> list[signal.Signals]:
    return [number for number in numbers if signal.getsignal(number) is not None]


def cpu_seconds() -> float:
    """Processor time of this process and of its finished children."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # from malloc.h


def keep_freed_memory() -> None:
    """Make glibc keep up to 256 MB of freed memory, and map only blocks of at least 32 MB.

    By default it returns blocks of 128 KB (a minibatch of 256 in a layer of 128) to the system and requests them again
    page by page, which takes a quarter of the time of AggreVaTeD's updates. Other C libraries are not affected.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, 256 << 20)
        mallopt(_MMAP_THRESHOLD, 32 << 20)
