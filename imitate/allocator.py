"""Memory that a minibatch frees is kept for the next one."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["keep_freed_memory"]

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
