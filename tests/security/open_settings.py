"""Give the command line mutants of FOLDER/bases; a JSON line each.

The tests run this in a child process, which a mutant may end, or hang until the watchdog does.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import itertools
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory import peak_memory
from planted import CALLED
from settings_mutants import HANDMADE, mutants

from imitate.cli import main
from imitate.compare.backends import Failure, Task
from imitate.compare.execute import carry_out  # noqa: F401

SECONDS = 20
LEARNING = 1.0
"""Processor seconds after which a run that was begun is interrupted: settings may ask for a long one."""
BYTES = 1 << 30


class NotRun:
    """A backend that runs nothing: what is tested is what comes before."""

    def __init__(self, workers: int) -> None:  # noqa: ARG002
        self._names: list[str] = []

    def submit(self, task: Task) -> None:
        self._names.append(task.name)

    def ended(self) -> Iterator[tuple[str, Failure | None]]:
        names, self._names = self._names, []
        yield from ((name, Failure("not run")) for name in names)

    def news(self) -> Iterator[tuple[str, int]]:
        return iter(())

    def __enter__(self) -> NotRun:
        return self

    def __exit__(self, *_: object) -> None: ...


def outcome_of(command: list[str]) -> str:
    """`refused` in one line, `opened`, or what is wrong."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            status = main(command)
    except BaseException:
        return f"traceback: {traceback.format_exc()[-1500:]}"
    lines = said.getvalue().splitlines()
    if CALLED or Path("ran").exists():
        return f"code ran: {CALLED}"
    if any("\x1b" in line for line in lines):
        return f"escape sequences: {lines!r}"
    if status == 2:
        said = lines[-1] if lines else "nothing"
        if "nothing to report" in said and "not run" in said:
            return "opened"
        return f"refused: {said}" if len(said) < 2_000 else f"refused in {len(said)} characters: {said[:200]}"
    if status == 130 and not any("interrupted and saved" in line for line in lines):
        return f"slow before it learned: {lines[-1:]}"
    return "opened" if status in (0, 1, 130) else f"status {status}: {lines[-3:]}"


def work(folder: Path, seed: int, start: int, stop: int) -> None:
    warnings.simplefilter("ignore")
    used = int(Path("/proc/self/statm").read_text("utf-8").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * BYTES, used + 2 * BYTES))
    setattr(sys.modules["imitate.compare.execute.carry_out"], "Processes", NotRun)  # noqa: B010
    signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    place = folder / "here"
    for number, (name, make) in enumerate(itertools.islice(itertools.chain(HANDMADE, mutants(seed)), stop)):
        shutil.rmtree(place, ignore_errors=True)
        if number < start:
            continue
        shutil.copytree(folder / "bases", place)
        os.chdir(place)
        command = make(place)
        facts: dict[str, Any] = {"number": number, "name": name, "command": command}
        print(json.dumps(facts | {"outcome": "ended the process", "peak": 0, "seconds": 0}), flush=True)
        faulthandler.dump_traceback_later(2 * SECONDS, exit=True)
        begin = time.process_time()
        # The first run in a process also imports: on a slow machine that alone takes a second.
        for limit in (LEARNING, SECONDS / 2) if command[0] == "train" else (SECONDS,):
            signal.setitimer(signal.ITIMER_PROF, limit)
            facts["outcome"] = outcome_of(command)
            signal.setitimer(signal.ITIMER_PROF, 0)
            if not facts["outcome"].startswith("slow"):
                break
            shutil.rmtree(place / "out", ignore_errors=True)
        faulthandler.cancel_dump_traceback_later()
        facts |= {"peak": peak_memory(), "seconds": round(time.process_time() - begin, 2)}
        print(json.dumps(facts), flush=True)
