"""Keeps a learner's policies at fixed fractions of its budget, the same for all learners; they are measured later."""

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
    """A kept policy: its folder, the steps of the budget spent so far, and the seconds of processor time."""

    policy: str
    steps: int
    cpu_seconds: float


class Snapshots:
    """Keeps the policy whenever one of the fractions 0, 1/16, 2/16 ... of `budget` has been passed. It is called with
    (steps spent, policy) before a run's first iteration and after each.

    A resumed run passes the same policies again, so those already kept stay. `clock` gives processor seconds, and
    `paid` are those before the checkpoint from which the run goes on. As in the run's own account, its preparation and
    saving policies don't count. `save` writes a policy to a folder.
    """

    def __init__(
        self,
        folder: Path,
        budget: int,
        clock: Callable[[], float],
        save: Callable[[Path, Any], None] = save_policy,
        *,
        paid: float = 0.0,
    ) -> None:
        self.folder, self.budget, self.clock, self.save = folder, budget, clock, save
        self.marks: dict[int, Mark] = {
            int(path.stem): read_json(path, Mark) for path in sorted(folder.glob("*.json"))
        }
        self._began = clock() - paid

    def restart(self) -> None:
        """Forget everything, since the run begins anew."""
        self.marks.clear()
        self._began = self.clock()

    @property
    def seconds(self) -> float:
        """Processor seconds of the run so far."""
        return self.clock() - self._began

    def __call__(self, spent: int, policy: Any) -> None:
        now, seconds = self.clock(), self.seconds
        if 0 not in self.marks:  # nothing was learned yet, even if demonstrations have been paid for
            self.save(self.folder / "00", policy)
            self._keep(0, Mark("00", 0, 0.0))
            self._began = now  # the run has been prepared
        passed = [
            n for n in range(1, POINTS + 1) if n not in self.marks and spent * POINTS >= n * self.budget
        ]
        if passed:
            name = f"{passed[0]:02}"
            self.save(self.folder / name, policy)
            for n in passed:
                self._keep(n, Mark(name, spent, seconds))
        self._began += self.clock() - now

    def complete(self, policy: Path, spent: int, cpu_seconds: float) -> Mapping[int, Mark]:
        """All marks; those that the run did not reach get its last policy."""
        last = Mark(str(Path("..") / policy.name), spent, cpu_seconds)
        return {n: self.marks.get(n, last) for n in range(POINTS + 1)} | {POINTS: last}

    def _keep(self, number: int, mark: Mark) -> None:
        write_json(self.folder / f"{number:02}.json", asdict(mark))
        self.marks[number] = mark
