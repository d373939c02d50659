"""`imitate runs`"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import tyro

from imitate.commands.options import command, print_json
from imitate.compare.statistics.job_results import MetricsRow, Returns
from imitate.errors import InputError
from imitate.files import Count, Number, last_line, plain_json, read_json
from imitate.training.experiment import Experiment

__all__ = ["runs"]

_HEAD = ("run", "learner", "environment", "seed", "steps", "return", "state", "age")


@command
def runs(folder: tyro.conf.Positional[Path] = Path("runs"), /, json: bool = False) -> int:
    """List the runs in a folder and below: learner, environment, steps, return and age, the newest first.

    The return is that of the last validation. Where there was none, it is that of `imitate evaluate`, of a
    comparison's test, of the last look of `imitate train`, or of training, in this order.

    Args:
        folder: the folder to look in
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give one that `imitate train --out` wrote to")
    rows = sorted(_rows(folder), key=lambda row: row["age"])
    if not rows:
        raise InputError(f"{folder} holds no run: `imitate train --out {folder}/NAME` writes one")
    print_json(rows) if json else _print_table(rows)
    return 0


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    for parent, folders, files in os.walk(folder):
        if "config.json" not in files:
            continue
        try:
            experiment = Experiment.read(Path(parent) / "config.json")
        except InputError:
            continue  # another program's config.json
        folders.clear()  # a run holds no other
        yield _row(Path(parent), experiment)


def _row(path: Path, experiment: Experiment) -> dict[str, Any]:
    log = path / "metrics.jsonl"
    trained = MetricsRow.last(log) or MetricsRow()
    return {
        "run": str(path),
        "learner": experiment.algorithm,
        "environment": experiment.env_id,
        "seed": experiment.seed,
        "steps": trained.budget_steps or _total(path),
        "return": _return(path, trained),
        "state": "finished" if (path / "finished.json").exists() else "not finished",
        "age": time.time() - (log if log.exists() else path / "config.json").stat().st_mtime,
    }


class _Totals(msgspec.Struct):
    """The steps in finished.json."""

    env_steps: Count = 0
    demo_steps: Count = 0
    validation_steps: Count = 0


def _total(path: Path) -> int:
    """Steps of a run without a log, as `imitate improve` and `imitate export --to hub` write one."""
    with suppress(InputError):
        totals = read_json(path / "finished.json", _Totals)
        return totals.env_steps + totals.demo_steps + totals.validation_steps
    return 0


class _Played(msgspec.Struct):
    """The episodes that a run's policy played at the end, as `imitate evaluate`, `compare` and `train` store them."""

    returns: Returns


def _return(path: Path, trained: MetricsRow) -> float | None:
    """The mean return by which a run is known so far."""
    try:
        return msgspec.convert(plain_json(last_line(path / "evaluations.jsonl"))["mean_return"], Number)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass  # no validation
    for name in ("evaluation.json", "result.json", "look.json"):
        with suppress(InputError):
            return fmean(read_json(path / name, _Played).returns)
    found = trained.train_return
    return found if found is not None and math.isfinite(found) else None


def _print_table(rows: list[dict[str, Any]]) -> None:
    table = [_HEAD, *(tuple(_cell(name, row[name]) for name in _HEAD) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(_HEAD))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cell(name: str, value: Any) -> str:
    if name == "age":
        for seconds, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
            if value >= seconds:
                return f"{value / seconds:.0f} {unit}"
        return f"{value:.0f} s"
    if name == "return":
        return f"{value:,.1f}" if isinstance(value, int | float) else "none yet"
    return f"{value:,}" if name == "steps" and isinstance(value, int) else str(value)
