"""The journal of a search: everything that it has measured so far, written after each action, so that it resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from imitate.errors import InputError
from imitate.files import Count, Number, read_json, write_json
from imitate.improvement.episodes import Played
from imitate.improvement.task import Task

__all__ = ["Dropped", "Journal", "Snapshot"]

_FILE = "journal.json"


@dataclass(frozen=True)
class Snapshot:
    """A learner's policy at a rung, and how it did on the validation episodes.

    share        of the winner's steps
    steps        environment steps of its run so far
    answers      of the expert, so far
    cpu_seconds  of its run, so far
    """

    learner: str
    share: Number
    steps: Count
    answers: Count
    cpu_seconds: Number
    validation: Played

    @property
    def name(self) -> str:
        return f"{self.learner}-{self.steps}"


@dataclass(frozen=True)
class Dropped:
    """A learner that could not begin, or diverged after so many steps."""

    learner: str
    reason: str
    steps: Count = 0


@dataclass
class Journal:
    """The measurements of a search so far.

    expert     the expert's validation episodes
    trusted    what they say of its critic (see `Teacher`)
    finalists  names of the snapshots that are validated on more episodes
    final      number of the finalists' validation episodes
    counts     number of episodes of the test, at first and after it was extended
    tests      episodes of the test, by player: `expert` or the name of a snapshot
    weights    hashes of the expert's weights and statistics, and of code of the user's own
    """

    task: Task
    expert: Played | None = None
    trusted: Number | None = None
    snapshots: list[Snapshot] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    finalists: list[str] = field(default_factory=list)
    final: Count = 0
    counts: list[Count] = field(default_factory=list)
    tests: dict[str, Played] = field(default_factory=dict)
    weights: str = ""

    @classmethod
    def open(cls, out: Path, task: Task) -> Journal:
        """The journal in a folder, or a new one. Raises InputError if it is of another task."""
        path = out / _FILE
        if not path.exists():
            if out.is_dir() and any(not file.name.startswith(".") for file in out.iterdir()):
                raise InputError(f"{out} exists and holds no search: choose another --out")
            return cls(task)
        journal = read_json(path, cls)
        if journal.task != task:
            pairs = zip(asdict(journal.task).items(), asdict(task).values(), strict=True)
            name, was, now = next((name, was, now) for (name, was), now in pairs if was != now)
            raise InputError(f"{out} holds a search with {name} {was}, not {now}: choose another --out")
        return journal

    def write(self, out: Path) -> None:
        write_json(out / _FILE, asdict(self))

    def by_mean(self, names: Sequence[str] | None = None) -> list[str]:
        """The names of these snapshots, or of all, by their mean return in validation, best first; the later of equals.

        Snapshots that have played no episode are left out.
        """
        played = [each for each in self.snapshots if each.validation.seeds]
        best_last = sorted(played, key=lambda each: each.validation.mean)  # stable
        return [each.name for each in reversed(best_last) if names is None or each.name in names]

    def spent_by(self, learner: str) -> int:
        """Environment steps of a learner so far."""
        return max((steps for name, steps in self._steps if name == learner), default=0)

    @property
    def costs(self) -> dict[str, int]:
        """Environment steps so far, by purpose; together they never exceed the budget."""
        learners = {name for name, _ in self._steps}
        return {
            "expert": self.expert.steps if self.expert else 0,
            "learning": sum(self.spent_by(learner) for learner in learners),
            "validation": sum(each.validation.steps for each in self.snapshots),
            "test": sum(each.steps for each in self.tests.values()),
        }

    @property
    def left(self) -> int:
        """Steps of the budget that are left."""
        return self.task.budget - sum(self.costs.values())

    @property
    def _steps(self) -> list[tuple[str, int]]:
        """Steps of learners so far, the latest last."""
        trained = [(each.learner, each.steps) for each in self.snapshots]
        return trained + [(each.learner, each.steps) for each in self.dropped]

    def latest(self, learner: str) -> Snapshot | None:
        return next((each for each in reversed(self.snapshots) if each.learner == learner), None)

    def at(self, learner: str, share: float) -> Snapshot | None:
        """The first snapshot of a learner that has reached this share."""
        return next(
            (each for each in self.snapshots if each.learner == learner and each.share >= share), None
        )

    def snapshot(self, name: str) -> Snapshot:
        """The snapshot of this name. Raises InputError if the journal lacks it."""
        found = next((each for each in self.snapshots if each.name == name), None)
        if found is None:
            raise InputError(f"{_FILE} names the snapshot {name!r} and has none: choose another --out")
        return found

    def length(self, player: str) -> float:
        """Mean length of the player's episodes so far."""
        played = [each.validation for each in self.snapshots if each.name == player]
        played += [self.expert] if self.expert and player == "expert" else []
        played += [self.tests[player]] if player in self.tests else []
        return sum(played, Played()).length

    @property
    def longest(self) -> float:
        """The mean length of episodes of the player whose episodes are longest."""
        return max(self.length(player) for player in ("expert", *(each.name for each in self.snapshots)))
