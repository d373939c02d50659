"""Describes the machine of a run; part of its result, since processor seconds mean nothing without it."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path

from imitate.files import machine

__all__ = ["processors", "provenance"]


@cache
def provenance() -> dict[str, str]:
    """The processor, the number that this process may use, the operating system, and the commit of the code if it runs
    from a checkout."""
    facts = {"cpu": machine()["cpu"] or platform.machine(), "processors": str(processors()), "os": _os()}
    if commit := _commit():
        facts["commit"] = commit
    return facts


def processors() -> int:
    """The number of processors that this process may use; in a container or a cluster's job the machine may have
    more."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _os() -> str:
    """The system as `Linux 6.1, x86_64`, without the kernel's build, which does not affect results."""
    release = ".".join(platform.release().split(".")[:2])
    return f"{platform.system()} {release}, {platform.machine()}"


def _commit() -> str:
    """The commit of this file, or "" if it is installed: another repository may lie around it."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        for words in (["ls-files", "--error-unmatch", __file__], ["rev-parse", "--short=12", "HEAD"]):
            done = subprocess.run([*git, *words], capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
