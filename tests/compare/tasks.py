"""Tasks that a reader can check by hand, importable by workers on any machine."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from imitate.errors import InputError
from imitate.training.process import interruptible


def double(root: Path, value: int, *, progress: Any) -> None:
    """Writes 2 * value to a file of its name; -1 and 99 fail."""
    if value == -1:
        raise InputError("a negative value")
    if value == 99:
        raise RuntimeError("two\nlines")
    progress(value)
    (root / str(value)).write_text(str(2 * value))


def total(root: Path, *names: str, progress: Any) -> None:  # noqa: ARG001
    """The sum of the numbers in some files."""
    (root / "total").write_text(str(sum(int((root / name).read_text("utf-8")) for name in names)))


def show(root: Path, variable: str, *, progress: Any) -> None:  # noqa: ARG001
    """Writes the value of an environment variable to a file of its name."""
    (root / variable).write_text(os.environ[variable])


def die(root: Path, *, progress: Any) -> None:  # noqa: ARG001
    signal.raise_signal(signal.SIGKILL)


def count(root: Path, end: int, seconds: float, *, progress: Any) -> None:
    """Counts from where the file out/count says, which is its checkpoint, and writes each number and the process that
    counted it to out/log."""
    folder = root / "out"
    folder.mkdir(exist_ok=True)
    checkpoint = folder / "count"
    value = int(checkpoint.read_text("utf-8")) if checkpoint.exists() else 0
    while value < end:
        time.sleep(seconds)
        value += 1
        with (folder / "log").open("a") as log:
            log.write(f"{value} {os.getpid()}\n")
        whole = folder / "count.tmp"
        whole.write_text(str(value))
        whole.replace(checkpoint)  # at once, since Ctrl-C may come at any time
        progress(value)


def save_at_the_end(root: Path, *, progress: Any) -> None:  # noqa: ARG001
    """Works until it is interrupted, as a run does, and then saves, which takes a while. The file `at-work` has the
    number of its process."""
    with interruptible() as caught:
        whole = root / "at-work.tmp"
        whole.write_text(str(os.getpid()))
        whole.replace(root / "at-work")
        while not caught():
            time.sleep(0.05)
        time.sleep(0.3)
        (root / "saved").write_text("all")
