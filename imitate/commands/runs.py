"""`imitate runs`"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tyro

from imitate.commands.options import run
from imitate.errors import InputError
from imitate.files import plain_json
from imitate.training.experiment import Experiment

__all__ = ["runs"]

_HEAD = ("run", "learner", "environment", "seed", "steps", "return", "state", "age")
_LAST_LINE = 64 << 10  # bytes at the end of a log that are read


def runs(argv: list[str]) -> int:
    def command(folder: tyro.conf.Positional[Path] = Path("runs"), /, json: bool = False) -> int:
        """List the runs in a folder and below: learner, environment, steps, return and age, the newest first.

        The return is that of the last validation, or of training where there was none.

        Args:
            folder: to look in
            json: print JSON
        """
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder: give one that `imitate train --out` wrote to")
        rows = sorted(_rows(folder), key=lambda row: row["age"])
        if not rows:
            raise InputError(f"{folder} holds no run: `imitate train --out {folder}/NAME` writes one")
        _print_json(rows) if json else _print_table(rows)
        return 0

    return run(command, argv, "runs")


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    for parent, folders, files in os.walk(folder):
        if "config.json" not in files:
            continue
        folders.clear()  # a run holds no other
        try:
            experiment = Experiment.read(Path(parent) / "config.json")
        except InputError:
            continue  # another program's config.json
        yield _row(Path(parent), experiment)


def _row(path: Path, experiment: Experiment) -> dict[str, Any]:
    trained, validated = _last(path / "metrics.jsonl"), _last(path / "evaluations.jsonl")
    log = path / "metrics.jsonl" if trained else path / "config.json"
    return {
        "run": str(path),
        "learner": experiment.algorithm,
        "environment": experiment.env_id,
        "seed": experiment.seed,
        "steps": trained.get("env_steps", 0),
        "return": validated.get("mean_return", trained.get("train_return")),
        "state": "finished" if (path / "finished.json").exists() else "not finished",
        "age": time.time() - log.stat().st_mtime,
    }


def _last(path: Path) -> dict[str, Any]:
    """The last whole line of a log, or nothing. A run that is being written to may end in half a line."""
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _LAST_LINE, 0))
        lines = file.read(_LAST_LINE).split(b"\n")[:-1]
    try:
        last = plain_json(lines[-1]) if lines else {}
    except (ValueError, InputError):
        return {}
    return last if isinstance(last, dict) else {}


def _print_json(rows: list[dict[str, Any]]) -> None:
    print(json.dumps(rows, indent=2))


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
