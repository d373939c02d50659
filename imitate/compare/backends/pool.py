"""The tasks of one command on a backend: it tracks which are running and which have failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from imitate.compare.backends import Backend, Failure, Task
from imitate.files import read_json, write_json

__all__ = ["Pool"]


class Pool:
    """Tasks by name. The error of `part/job` is written to `out`/part/errors, that of `job` to `out`/errors.

    running   submitted, not ended
    """

    def __init__(self, backend: Backend, out: Path) -> None:
        self._backend = backend
        self._out = out
        self.running: set[str] = set()

    def submit(self, task: Task) -> None:
        self._file(task.name).unlink(missing_ok=True)  # of an earlier try
        self._backend.submit(task)
        self.running.add(task.name)

    def ended(self) -> Iterator[str]:
        """Wait a moment, then yield the names of tasks that have ended; `failed` says whether they failed."""
        for name, failure in self._backend.ended():
            self.running.discard(name)
            if failure is not None:
                self.fail(name, failure)
            yield name

    def news(self) -> Iterator[tuple[str, int]]:
        """The progress (name, position) reported since the last call."""
        return self._backend.news()

    def failed(self, name: str) -> str | None:
        """The error of a task in one line; None if it has not failed."""
        path = self._file(name)
        return read_json(path, Failure).error if path.is_file() else None

    def fail(self, name: str, failure: Failure) -> None:
        named = replace(failure, error=f"{name.rpartition('/')[2]}: {failure.error}")
        write_json(self._file(name), asdict(named))

    def _file(self, name: str) -> Path:
        folder, _, job = name.rpartition("/")
        return self._out / folder / "errors" / f"{job.replace(' ', '-').replace(':', '-')}.json"
