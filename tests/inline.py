"""A backend in this process, for comparisons whose subject is not the processes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Self

from imitate.compare.backends import Failure, Task, perform


class Inline:
    """Carries out each task as it is submitted."""

    def __init__(self, workers: int = 1) -> None:  # noqa: ARG002
        self._ended: list[tuple[str, Failure | None]] = []

    def submit(self, task: Task) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as in a worker
            self._ended.append((task.name, perform(task, task.root, lambda _: None)))

    def ended(self) -> Iterator[tuple[str, Failure | None]]:
        ended, self._ended = self._ended, []
        yield from ended

    def news(self) -> Iterator[tuple[str, int]]:
        return iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...
