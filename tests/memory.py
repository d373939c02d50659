"""Memory of a test's child process."""

from __future__ import annotations

from pathlib import Path


def peak_memory() -> int:
    """Bytes that this process had at most. `ru_maxrss` would begin with what its parent had, here pytest."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) << 10


def forget_peak() -> int:
    """Let `peak_memory` begin again with what is in use now, which is returned."""
    Path("/proc/self/clear_refs").write_text("5", "utf-8")
    return peak_memory()
