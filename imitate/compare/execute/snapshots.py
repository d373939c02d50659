"""A learner at the same fractions of its budget as every other: its policies are kept on the way, measured later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from imitate.compare.plan.comparison import POINTS
from imitate.files import read_json, write_json
from imitate.nn.stored_policy import save_policy

__all__ = ["Mark", "Snapshots"]


@dataclass(frozen=True)
class Mark:
    """A policy that was kept: in which folder, after how many steps of the budget and seconds of processor time."""

    policy: str
    steps: int
    cpu_seconds: float


class Snapshots:
    """Called with (steps spent, policy) before a run's first iteration and after each, it keeps the policy where one
    of the fractions 0, 1/16, 2/16 ... of `budget` has been passed.

    A run that was killed and resumed goes through the same policies again: what is kept already stays.
    `clock` gives processor seconds; those of an earlier part of the run count from the last mark that it left. `save`
    writes a policy to a folder.
    """

    def __init__(
        self,
        folder: Path,
        budget: int,
        clock: Callable[[], float],
        save: Callable[[Path, Any], None] = save_policy,
    ) -> None:
        self.folder, self.budget, self.clock, self.save = folder, budget, clock, save
        self.marks: dict[int, Mark] = {
            int(path.stem): read_json(path, Mark) for path in sorted(folder.glob("*.json"))
        }
        self._began = clock() - max((mark.cpu_seconds for mark in self.marks.values()), default=0.0)

    def restart(self) -> None:
        """The run begins anew: nothing is kept yet."""
        self.marks.clear()
        self._began = self.clock()

    def __call__(self, spent: int, policy: Any) -> None:
        if 0 not in self.marks:  # nothing was learned yet, whatever demonstrations were paid for
            self.save(self.folder / "00", policy)
            self._keep(0, Mark("00", 0, 0.0))
        passed = [
            n for n in range(1, POINTS + 1) if n not in self.marks and spent * POINTS >= n * self.budget
        ]
        if passed:
            name = f"{passed[0]:02}"
            self.save(self.folder / name, policy)
            for n in passed:
                self._keep(n, Mark(name, spent, self.clock() - self._began))

    def complete(self, policy: Path, spent: int, cpu_seconds: float) -> Mapping[int, Mark]:
        """All marks; those that the run did not pass before it ended are of its last policy."""
        last = Mark(str(Path("..") / policy.name), spent, cpu_seconds)
        return {n: self.marks.get(n, last) for n in range(POINTS + 1)} | {POINTS: last}

    def _keep(self, number: int, mark: Mark) -> None:
        write_json(self.folder / f"{number:02}.json", asdict(mark))
        self.marks[number] = mark
