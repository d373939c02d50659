"""What a run asks of its process: to be told of signals, what it has cost, and to keep the memory that it frees."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["cpu_seconds", "interruptible", "keep_freed_memory"]


@contextmanager
def interruptible() -> Iterator[Callable[[], int]]:
    """A function that gives the number of the signal, SIGINT (Ctrl-C) or SIGTERM, that came in the block; 0 for none.
    After one of them both do what they did before: a second Ctrl-C ends the program at once."""
    seen = 0
    before: dict[int, Any] = {}

    def handle(number: int, _frame: Any) -> None:
        nonlocal seen
        seen = number
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, handle)
    except ValueError:  # only the main thread may set handlers: elsewhere signals are the caller's
        yield lambda: 0
        return
    try:
        yield lambda: seen
    finally:
        restore()


def cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep_freed_memory() -> None:
    """Have glibc keep up to 256 MB of what this process frees, and map single blocks from 32 MB on only.

    By default it gives blocks of 128 KB, a minibatch of 256 in a layer of 128, back to the system and gets them anew,
    page by page: a quarter of the time of AggreVaTeD's updates. Other C libraries are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, 256 << 20)
        mallopt(_MMAP_THRESHOLD, 32 << 20)
