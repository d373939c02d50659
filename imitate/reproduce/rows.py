"""The rows of the results tables, each a few commands with the committed presets."""

from __future__ import annotations

import json
import shlex
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from imitate.compare.plan.learners import baseline

__all__ = ["EPISODES", "ROWS_FILE", "Row", "read_rows"]

ROWS_FILE = Path(__file__).parent / "rows.toml"
EPISODES = 50
"""Test episodes of a seed, the same for learners, expert and random actions. They choose nothing."""


@dataclass(frozen=True)
class Row:
    """A table of rows.toml; the head of that file describes the fields."""

    label: str
    algorithm: str
    env: str
    section: str = ""
    expert: str | None = None
    teacher: str = ""
    demos: int = 0
    recording: str = ""
    options: str = ""
    evaluation: str = ""
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    seeds: int = 3
    first_seed: int = 0
    core_minutes: float | None = None
    protocol: str = ""
    settings: str = ""

    def commands(self, seed: int, device: str | None = None) -> list[str]:
        """The commands for a seed, in an empty folder; all but the last write the run folder `run`, and the last
        measures it, or the expert itself. `device` is where our learners learn."""
        env = ["--env", self.env, *(["--env-kwargs", json.dumps(self.env_kwargs)] if self.env_kwargs else [])]
        measure = shlex.split(f"--episodes {EPISODES} --json {self.evaluation}")
        if self.algorithm == "expert":
            return [shlex.join(["imitate", "evaluate", str(self.expert), *env, *measure])]
        sb3, before = baseline(self.algorithm), []
        train = ["imitate", "expert", "train", "--algo", sb3] if sb3 else ["imitate", "train", self.algorithm]
        train += env
        if self.teacher:
            words = [*env, *shlex.split(self.teacher), "--seed", str(seed), "--out", "teacher"]
            before = [shlex.join(["imitate", "train", "ppo", *words])]
        if self.demos:
            recorded = f" {self.recording}" if self.recording else ""
            before = [
                f"imitate collect {self.expert} --episodes {self.demos}{recorded} --seed {seed} --out demos.h5"
            ]
            train += ["--demos", "demos.h5"]
        elif self.expert is not None:
            train += ["--expert", self.expert]
        train += [*shlex.split(self.options), "--seed", str(seed), "--out", "run"]
        train += [] if device is None or sb3 else ["--device", device]
        return [*before, shlex.join(train), shlex.join(["imitate", "evaluate", "run", *measure])]


def read_rows() -> dict[str, Row]:
    """All rows by name, in the order of the documents."""
    return {name: Row(**row) for name, row in tomllib.loads(ROWS_FILE.read_text("utf-8")).items()}
