"""The experiments that the project grew out of, and the rows that answer them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Experiment", "failing_forms", "read_experiments"]


@dataclass(frozen=True)
class Experiment:
    """A table of experiments.toml; the head of that file describes the fields."""

    number: int
    title: str
    there: str
    why: str
    rows: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    open: str = ""


def read_experiments() -> list[Experiment]:
    """All experiments, in order."""
    tables = tomllib.loads((Path(__file__).parent / "experiments.toml").read_text("utf-8"))["experiment"]
    lists = ("rows", "failing", "scripts")
    return [Experiment(**table | {name: tuple(table.get(name, ())) for name in lists}) for table in tables]


def failing_forms(row: str) -> list[str]:
    """The rows that repeat the failing form of the experiments which `row` answers."""
    forms = (name for each in read_experiments() if row in each.rows for name in each.failing)
    return list(dict.fromkeys(forms))
