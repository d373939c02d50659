"""The progress of a comparison or a suite, one line for each run, read from the files that the runs write."""

from __future__ import annotations

import logging
import math
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, TextIO

from imitate.compare.formatting import duration, number, percent
from imitate.compare.plan.comparison import Comparison, file_name
from imitate.compare.plan.suite import Suite, is_suite
from imitate.compare.statistics.job_results import MetricsRow, References, Result, Runs
from imitate.errors import InputError
from imitate.files import read_json
from imitate.terminal import raw

__all__ = ["REFRESH_SECONDS", "Screen", "State", "states", "summary", "table", "watch"]

REFRESH_SECONDS = 1.0


@dataclass(frozen=True)
class State:
    """The progress of a run.

    state    `waiting`, `running`, `done` or `failed`
    steps    steps of the budget spent so far
    mean     the latest training return while it runs; the mean test return when it is done
    share    share of the way from random actions to the expert
    seconds  time that it has taken so far
    """

    name: str
    algorithm: str
    state: str
    steps: int
    budget: int
    mean: float | None = None
    share: float | None = None
    seconds: float = 0.0


def states(out: Path, position: Mapping[str, int] | None = None) -> list[State]:
    """The state of every run in the folder, in the comparison's order. `position` has steps that are more recent than
    the files'.

    Raises InputError if the folder holds no comparison.
    """
    position = position or {}
    if is_suite(out):
        return [
            state
            for label in Suite.read(out).parts
            if (out / label / "runs.json").is_file()
            for state in _of_comparison(out / label, f"{label}/", position)
        ]
    if not (out / "runs.json").is_file():
        raise InputError(f"{out} holds no comparison to watch; name the --out of `imitate compare`")
    return list(_of_comparison(out, "", position))


def table(found: Sequence[State], height: int = 1_000) -> list[str]:
    """At most `height` lines of text. If there are more runs, failed and running ones come first, and the rest is
    counted."""
    order = ("failed", "running", "done", "waiting")
    shown = list(found)
    if len(shown) > height - 3:
        shown = sorted(shown, key=lambda each: order.index(each.state))[: max(height - 3, 0)]
    took = _took(found)
    rows = [
        ["run", "steps", "return", "share", "left"],
        *(_row(each, _remaining(each, took)) for each in shown),
    ]
    widths = [max(len(row[n]) for row in rows) for n in range(5)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
    ]
    return [*lines, summary(found)]


def summary(found: Sequence[State]) -> str:
    """`12 of 30 runs are done, 1 failed, about 5 min left`."""
    count = {state: sum(each.state == state for each in found) for state in ("done", "failed", "running")}
    said = f"{count['done']} of {len(found)} runs are done"
    said += f", {count['failed']} failed" if count["failed"] else ""
    took = _took(found)
    seconds = sum(_remaining(each, took) or 0.0 for each in found)
    # A run that does not report its progress has 0.
    known = seconds >= 1 and any(each.seconds for each in found)
    return said + (f", about {duration(seconds / max(count['running'], 1))} left" if known else "")


def watch(out: Path, stream: TextIO | None = None) -> None:
    """Show the table until every run has ended, or until Ctrl-C. If the output is not a terminal, show it once."""
    screen = Screen(stream or sys.stdout)
    while True:
        found = states(out)
        screen.show(found)
        if not screen.live or all(each.state in ("done", "failed") for each in found):
            screen.keep()
            return
        time.sleep(REFRESH_SECONDS)


class Screen:
    """Shows the table. In a terminal it is redrawn in place; other outputs get it as plain text."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.live = stream, stream.isatty()
        self._lines = 0

    def show(self, found: Sequence[State]) -> None:
        lines = table(found)
        if self.live:
            size = shutil.get_terminal_size()
            lines = [line[: size.columns - 1] for line in table(found, size.lines - 1)]
            self.clear()
            self._lines = len(lines)
        self.stream.write("\n".join(lines) + "\n")
        self.stream.flush()

    def clear(self) -> None:
        if self._lines:
            raw(self.stream).write(f"\x1b[{self._lines}F\x1b[J")
            self._lines = 0

    def keep(self) -> None:
        """Leave the current table in place, and write below it from now on."""
        self._lines = 0

    @contextmanager
    def above(self) -> Iterator[None]:
        """Write the messages of loggers above the table."""

        def make_room(_record: logging.LogRecord) -> bool:
            self.clear()
            return True

        handlers = list(logging.getLogger().handlers)
        for handler in handlers:
            handler.addFilter(make_room)
        try:
            yield
        finally:
            for handler in handlers:
                handler.removeFilter(make_room)
            self.clear()


def _of_comparison(folder: Path, prefix: str, position: Mapping[str, int]) -> Iterator[State]:
    comparison = Comparison.from_json(read_json(folder / "comparison.json", dict[str, Any]))
    references = read_json(folder / "references.json", References)
    for name, place in read_json(folder / "runs.json", Runs).items():
        run = folder / place
        state, steps, mean = _state(run, folder / "errors" / f"{file_name(name)}.json")
        algorithm = f"{prefix}{name.rpartition('-seed')[0]}"
        steps = min(max(steps, position.get(prefix + name, 0)), comparison.budget)
        if state == "waiting" and steps:
            state = "running"
        share = None if mean is None else references.share(mean)
        seconds = _seconds(run, ended=state != "running")
        yield State(prefix + name, algorithm, state, steps, comparison.budget, mean, share, seconds)


def _state(run: Path, error: Path) -> tuple[str, int, float | None]:
    path = run / "result.json"
    if path.is_file():
        return "done", *_ended(run, path.stat().st_mtime_ns)
    if error.is_file():
        return "failed", 0, None
    row = MetricsRow.last(run / "metrics.jsonl")
    if row is not None:
        mean = row.train_return
        return "running", row.budget_steps, mean if mean is not None and math.isfinite(mean) else None
    return "running" if run.is_dir() else "waiting", 0, None


@lru_cache(maxsize=10_000)  # a comparison may have a thousand runs, and is read every second
def _ended(run: Path, _modified: int) -> tuple[int, float]:
    """The steps and mean return of a finished run."""
    result = Result.load(run)
    assert result is not None
    return result.spent, result.mean


def _seconds(run: Path, *, ended: bool) -> float:
    """The time from a run's oldest file to its newest, or until now if it is running."""
    # Files whose names begin with a dot are still being written, and may vanish.
    times = [path.stat().st_mtime for path in run.glob("[!.]*") if path.is_file()]
    return (max(times) if ended else time.time()) - min(times) if times else 0.0


def _took(found: Sequence[State]) -> dict[str, float]:
    """Mean seconds of each learner's finished runs; the empty name has the mean of all."""
    seconds: dict[str, list[float]] = {}
    for each in found:
        if each.state == "done":
            for name in ("", each.algorithm):
                seconds.setdefault(name, []).append(each.seconds)
    return {name: fmean(every) for name, every in seconds.items()}


def _remaining(state: State, took: Mapping[str, float]) -> float | None:
    """Seconds that a run still needs; None if there is nothing to estimate them from.

    Finished runs of the same learner are the best guide, then the run's own pace, then all other runs. Steps are not
    added up over learners, since they take different times.
    """
    if state.state in ("done", "failed"):
        return 0.0
    if state.algorithm not in took and state.steps and state.seconds:
        return state.seconds * (state.budget / state.steps - 1)
    usual = took.get(state.algorithm, took.get(""))
    return None if usual is None else max(usual - state.seconds, 0.0)


def _row(state: State, seconds: float | None) -> list[str]:
    left = duration(seconds) if state.state == "running" and seconds else state.state
    steps = f"{number(state.steps)} / {number(state.budget)}" if state.steps else ""
    mean = "" if state.mean is None else number(state.mean)
    return [state.name, steps, mean, "" if state.share is None else percent(state.share), left]
