"""The rows of the results tables, each a few commands with the committed presets."""

from __future__ import annotations

import json
import shlex
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["EPISODES", "MEASURE", "ROWS_FILE", "Row", "read_rows"]

ROWS_FILE = Path(__file__).parent / "rows.toml"
EPISODES = 50
"""Deterministic test episodes of a seed, the same for learners, expert and random actions. They choose nothing."""
MEASURE = f"imitate evaluate run --episodes {EPISODES} --json"


@dataclass(frozen=True)
class Row:
    """A table of rows.toml; the head of that file describes the fields."""

    label: str
    algorithm: str
    env: str
    section: str = ""
    expert: str | None = None
    demos: int = 0
    options: str = ""
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    seeds: int = 3
    first_seed: int = 0
    protocol: str = ""
    settings: str = ""

    def commands(self, seed: int) -> list[str]:
        """The commands for a seed, in an empty folder; the last one writes the run folder `run`."""
        train = ["imitate", "train", self.algorithm, "--env", self.env]
        train += ["--env-kwargs", json.dumps(self.env_kwargs)] if self.env_kwargs else []
        collect = []
        if self.demos:
            collect = [f"imitate collect {self.expert} --episodes {self.demos} --seed {seed} --out demos.h5"]
            train += ["--demos", "demos.h5"]
        elif self.expert is not None:
            train += ["--expert", self.expert]
        train += [*shlex.split(self.options), "--seed", str(seed), "--out", "run"]
        return [*collect, shlex.join(train)]


def read_rows() -> dict[str, Row]:
    """All rows by name, in the order of the documents."""
    return {name: Row(**row) for name, row in tomllib.loads(ROWS_FILE.read_text()).items()}
