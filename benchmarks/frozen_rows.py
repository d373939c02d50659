"""The rows of a frozen measurement, as frozen.toml describes them."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from imitate.errors import InputError


class Task(msgspec.Struct, forbid_unknown_fields=True):
    """An environment and a teacher. The head of frozen.toml describes the fields of this and of `Learner`."""

    env: str
    expert: str
    steps: int
    demos: int
    gail: int = 500_000
    loki: int = 500_000
    off_policy: int = 200_000
    env_kwargs: dict[str, Any] = {}


class Learner(msgspec.Struct, forbid_unknown_fields=True):
    algorithm: str
    budget: int | str | None = None
    demos: int | str | None = None
    imitates: bool = True
    hyperparameters: dict[str, Any] = {}
    only: list[str] = []
    seeds: int | None = None
    minutes: float = 0.5
    minutes_per_million: float = 0.0


class Plan(msgspec.Struct, forbid_unknown_fields=True):
    seeds: list[int]
    episodes: int
    test_seed: int
    curve_episodes: int
    tasks: dict[str, Task]
    learners: dict[str, Learner]


@dataclass(frozen=True)
class Row:
    """A learner on a task, for each of `seeds`; a seed takes about `minutes` on one core."""

    name: str
    task: str
    env: str
    env_kwargs: dict[str, Any]
    algorithm: str
    expert: str | None
    demos: int | None
    budget: int | None
    hyperparameters: dict[str, Any]
    seeds: list[int]
    minutes: float


def read_plan(path: Path) -> Plan:
    """Read a plan. Raises InputError if the file is not a valid one."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text("utf-8")), Plan)
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"{path} can't be used: {error}") from error


def rows_of(plan: Plan) -> list[Row]:
    """The rows of a plan: an imitator has one for each task, named learner-task, and pure RL one for each
    environment."""
    rows: dict[str, Row] = {}
    for label, learner in plan.learners.items():
        for name, task in plan.tasks.items():
            if not matches(name, learner.only or ["*"]):
                continue

            def told(value: Any, task: Task = task) -> Any:
                return getattr(task, value) if isinstance(value, str) and hasattr(task, value) else value

            row = name_of(label, name, plan)
            budget = told(learner.budget)
            rows.setdefault(
                row,
                Row(
                    row,
                    name,
                    task.env,
                    task.env_kwargs,
                    learner.algorithm,
                    task.expert if learner.imitates else None,
                    told(learner.demos),
                    budget,
                    {key: told(value) for key, value in learner.hyperparameters.items()},
                    plan.seeds[: learner.seeds],
                    learner.minutes + learner.minutes_per_million * (budget or 0) / 1e6,
                ),
            )
    return list(rows.values())


def name_of(learner: str, task: str, plan: Plan) -> str:
    """The row of a learner on a task."""
    return f"{learner}-{task if plan.learners[learner].imitates else plan.tasks[task].env.lower()}"


def matches(name: str, patterns: Sequence[str]) -> bool:
    """True if one of the patterns, such as `bc-*`, matches the name."""
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
