"""Moves a task's files between machines: contents are keyed by their path below the task's root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import numpy as np

from imitate.compare.backends import Task
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.files import atomic

__all__ = ["Files", "files_at", "read", "receive", "write", "written"]

Files = Mapping[str, Array]
"""Contents (bytes,) uint8 by name, since Ray's object store passes arrays without copying them."""


def files_at(root: Path, paths: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """The files at and below `paths`, by name. Hidden ones are locks and unfinished files."""
    for path in paths:
        for file in [root / path, *(root / path).rglob("*")]:
            if file.is_file() and not file.name.startswith("."):
                yield file.relative_to(root).as_posix(), file


def read(path: Path) -> Array:
    return np.fromfile(path, np.uint8)


def written(task: Task, root: Path, known: dict[str, int] | None = None) -> Files:
    """The files that the task has written below `root` so far; with `known`, only those that are new since then.
    `known` is updated.

    Files come in the order in which they were written, with the checkpoint last. So a process that is killed while it
    writes them elsewhere leaves the same state as a killed task.
    """
    found = sorted(
        (Path(name) == task.checkpoint, path.stat().st_mtime_ns, name, path)
        for name, path in files_at(root, task.writes)
    )
    known = {} if known is None else known
    new = {name: path for _, age, name, path in found if known.get(name) != age}
    known.update({name: age for _, age, name, _ in found})
    return {name: read(path) for name, path in new.items()}


def receive(task: Task, files: Files, *, whole: bool) -> None:
    """Write the files that came from a task's worker. `whole`: these are all its files, so the task's other files and
    empty folders are removed.

    Raises InputError, and writes nothing, if the task does not declare one of the files in `writes`.
    """
    for name in files:
        if not any(_place(name).is_relative_to(path.as_posix()) for path in task.writes):
            raise InputError(f"{task.name} sent a file {name!r}, which it does not declare: not kept")
    for name, content in files.items():
        write(task.root, name, content)
    if not whole:
        return
    for name, path in files_at(task.root, task.writes):
        if name not in files:
            path.unlink()
    for path in task.writes:
        for folder in sorted((task.root / path).rglob("*"), reverse=True):  # inner folders first
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def write(root: Path, name: str, content: Array) -> None:
    """Write a file below `root`. Raises InputError if its name leads out of `root`."""
    path = root / _place(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as temporary:
        content.tofile(temporary)


def _place(name: str) -> PurePosixPath:
    place = PurePosixPath(name)
    if place.is_absolute() or ".." in place.parts or not place.parts:
        raise InputError(f"a file {name!r} was sent, which is not below a task's folder: not kept")
    return place
