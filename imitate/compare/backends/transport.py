"""A task's files on their way between machines: contents by name below the task's root."""

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
"""(bytes,) uint8 by name: arrays go through Ray's object store without being copied."""


def files_at(root: Path, paths: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """The files at and below `paths`, by name. Hidden ones are locks and unfinished files."""
    for path in paths:
        for file in [root / path, *(root / path).rglob("*")]:
            if file.is_file() and not file.name.startswith("."):
                yield file.relative_to(root).as_posix(), file


def read(path: Path) -> Array:
    return np.fromfile(path, np.uint8)


def written(task: Task, root: Path, known: dict[str, int] | None = None) -> Files:
    """What the task has written below `root` so far; only what is new since `known`, which is brought up to date.

    Files come in the order in which they were written, but the checkpoint last: so whoever writes them elsewhere and is
    killed over it leaves what a killed task would leave.
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
    """Write what came from a task's worker; `whole`: these are all its files, so others of the task are removed, and
    folders in which nothing is left.

    Raises InputError, and writes nothing, if a file is none of those that the task writes.
    """
    for name in files:
        if not any(_place(name).is_relative_to(path.as_posix()) for path in task.writes):
            raise InputError(f"{task.name} sent a file {name!r}, which is none of those it writes: not kept")
    for name, content in files.items():
        write(task.root, name, content)
    for name, path in files_at(task.root, task.writes) if whole else ():
        if name not in files:
            path.unlink()
    for path in task.writes if whole else ():
        for folder in sorted((task.root / path).rglob("*"), reverse=True):  # the inner ones first
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def write(root: Path, name: str, content: Array) -> None:
    """Raises InputError if the name leads out of `root`."""
    path = root / _place(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as temporary:
        content.tofile(temporary)


def _place(name: str) -> PurePosixPath:
    place = PurePosixPath(name)
    if place.is_absolute() or ".." in place.parts or not place.parts:
        raise InputError(f"a file {name!r} was sent, which is not below a task's folder: not kept")
    return place
