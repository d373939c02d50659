"""The stored results of jobs, and of the references measured before: plain data, written and read back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from imitate.files import Count, Number, last_line, plain_json, read_json, write_json

__all__ = [
    "COSTS",
    "Cost",
    "ExpertFacts",
    "Failure",
    "Film",
    "MetricsRow",
    "Point",
    "Reference",
    "References",
    "Result",
    "Returns",
    "Runs",
]

Cost = Literal["steps", "queries", "cpu_seconds"]
COSTS: Mapping[Cost, str] = {
    "steps": "environment steps",
    "queries": "expert answers",
    "cpu_seconds": "CPU seconds",
}


_LONGEST_ROW = 1 << 16  # bytes of a line of metrics.jsonl

Returns = Annotated[list[Number], Meta(min_length=1)]
"""Returns of episodes."""


@dataclass(frozen=True)
class Point:
    """A point of a learning curve: the costs so far, and the returns on the curves' episodes."""

    steps: Count
    queries: Count
    cpu_seconds: Number
    returns: Returns


@dataclass(frozen=True)
class Result:
    """One learner with one seed, as `result.json` of its run says.

    curve             points after 0, 1/16, 2/16 ... of the budget; for an offline learner, flat between trainings
    returns, lengths  of the test episodes, with its last policy, or with the one that it kept by validation
    last_returns      of the same episodes with its last policy, if it validated
    env_steps         the learner's own steps, beside those of demonstrations and of validations; see `spent`
    cpu_seconds       processor time of recording its demonstrations and of training
    hyperparameters   all of them, including defaults
    stepped           num_envs and backend of its environments; empty if it stepped none
    notes             changes of its preset for this budget
    machine           CPU, operating system and commit
    settings_from     preset of this environment or of Atari, defaults, or given; empty if an older version did not say
    """

    env_id: str
    algorithm: str
    seed: Count
    budget: Count
    curve: Annotated[list[Point], Meta(min_length=2, max_length=1_000)]
    returns: Returns
    lengths: list[Count]
    expert_queries: Count
    env_steps: Count
    demo_steps: Count
    cpu_seconds: Number
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    stepped: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    settings_from: str = ""
    validation_steps: Count = 0
    last_returns: list[Number] = field(default_factory=list)

    @property
    def spent(self) -> int:
        """Steps of the budget."""
        return self.env_steps + self.demo_steps + self.validation_steps

    @property
    def last_mean(self) -> float:
        """Mean return of the last policy."""
        return float(np.mean(self.last_returns or self.returns))

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    def save(self, folder: Path) -> None:
        write_json(folder / "result.json", _finite(asdict(self)))

    @classmethod
    def load(cls, folder: Path) -> Result | None:
        """Read result.json; None if the job has not ended. Raises InputError for a damaged file."""
        path = folder / "result.json"
        return read_json(path, cls) if path.is_file() else None


@dataclass(frozen=True)
class Reference:
    """A policy that does not learn, measured on the test episodes and on those of the curves."""

    returns: Returns
    lengths: Annotated[list[Count], Meta(min_length=1)]
    curve: Returns

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))


@dataclass(frozen=True)
class ExpertFacts:
    """The expert that was imitated."""

    spec: str
    description: str
    sha256: str
    published_return: Number | None
    measured: Reference


@dataclass(frozen=True)
class References:
    """Measurements before any run: the expert and random actions.

    key            hash of everything that they depend on
    episode_steps  length of a good policy's episode
    filmed         whether the environment renders to pictures
    made_from      hashes of the expert, and of the code of an environment or an expert of the user's own
    """

    key: str
    episode_steps: Number
    filmed: bool
    random: Reference
    expert: ExpertFacts | None
    made_from: str = ""

    def share(self, mean: float) -> float | None:
        """A mean return on the scale from random actions (0) to the expert (1); None if the expert is no better."""
        low = self.random.mean
        if self.expert is None or self.expert.measured.mean <= low:
            return None
        return (mean - low) / (self.expert.measured.mean - low)


@dataclass(frozen=True)
class Film:
    """Facts stored beside a video: the return of its episode, and its run, or what its expert was made from."""

    episode_return: Number
    run: str = ""


@dataclass(frozen=True)
class MetricsRow:
    """The fields that are read from a line of metrics.jsonl."""

    budget_steps: Count = 0
    expert_queries: Count = 0
    train_return: float | None = None
    gate: float | None = None

    @classmethod
    def parse(cls, line: bytes) -> MetricsRow:
        """Parse a line. Raises ValueError for another kind of line."""
        return msgspec.convert(plain_json(line), cls)

    @classmethod
    def every(cls, path: Path) -> Iterator[MetricsRow]:
        """All rows of a file. Raises ValueError for a line of another kind, or of more than 64 KiB."""
        with path.open("rb") as file:
            yield from map(cls.parse, iter(partial(file.readline, _LONGEST_ROW), b""))

    @classmethod
    def last(cls, path: Path) -> MetricsRow | None:
        """The last whole row of a file that another process may be writing to; None if there is none yet."""
        try:
            return cls.parse(last_line(path))
        except (ValueError, RecursionError):
            return None


@dataclass(frozen=True)
class Failure:
    """The reason why a task failed, in one line; with a traceback unless it raised InputError."""

    error: str
    traceback: str = ""


Runs = dict[
    Annotated[str, Meta(pattern=r"^.+-seed[0-9]{1,16}$")],
    Annotated[str, Meta(pattern=r"^(?!/)(?!.*\.\.)[\w.@/-]+$")],
]
"""The content of runs.json: each run's folder, by learner and seed. None of them leads out of the comparison's
folder."""


def _finite(value: Any) -> Any:
    """The value with infinity as a word, since infinity is a legal setting and JSON has none."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
