"""A task on a Ray worker, and the mailbox through which it talks with the main process."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import logging
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import torch
from ray.exceptions import RayError

from imitate.compare.backends import Failure, Task, now_and_then, perform
from imitate.compare.backends.transport import Files, write, written
from imitate.files import versions

__all__ = ["Parcel", "carry_out", "mailbox"]

REPORT_SECONDS = 0.5
FILES_SECONDS = 10  # for those who watch; a new checkpoint is sent at once
FILES_BYTES_PER_SECOND = 1 << 20  # of a task on the way, on average: many send to one machine


@dataclass(frozen=True)
class Parcel:
    """What a worker gets.

    key             of this attempt at the task
    session         the same for all parcels of a main process's block
    files, luggage  references to contents in Ray's object store, by name
    versions        of the main process's packages
    """

    key: str
    session: str
    task: Task
    files: Mapping[str, Any]
    luggage: Mapping[str, Any]
    versions: Mapping[str, str]


def mailbox() -> type[Any]:
    """The class of an actor on the main process's node: workers leave news here, and wait until they are to stop.

    Ray sends a class that is made in a function by value. So the actor's process imports none of ours, and starts
    seconds earlier.
    """

    class Mailbox:
        def __init__(self) -> None:
            self._positions: dict[str, int] = {}
            self._files: dict[str, Any] = {}
            self._stopped = asyncio.Event()

        async def put(self, key: str, position: int, files: Any) -> None:
            self._positions[key] = position
            if files:
                self._files.setdefault(key, {}).update(files)

        async def take(self) -> tuple[dict[str, int], dict[str, Any]]:
            """The latest position and files of each attempt since the last call."""
            taken = self._positions, self._files
            self._positions, self._files = {}, {}
            return taken

        async def stop(self) -> None:
            self._stopped.set()

        async def stopped(self) -> None:
            await self._stopped.wait()

    return Mailbox


def carry_out(parcel: Parcel, box: Any) -> tuple[Failure | None, Files | None]:
    """One task, in a folder of its own: what went wrong, and the files that it leaves (None: it has not begun)."""
    if parcel.versions != (here := versions()):
        differ = sorted(name for name, version in parcel.versions.items() if here.get(name) != version)
        there = ", ".join(f"{name} {here.get(name, 'missing')}" for name in differ) or "more packages"
        wanted = ", ".join(f"{name} {parcel.versions[name]}" for name in differ) or "none of them"
        return Failure(
            f"a node of the cluster has {there}, wanted {wanted}: install the same on every node"
        ), None
    _settle(parcel.session, box)
    task = parcel.task
    with tempfile.TemporaryDirectory(prefix="imitate-") as folder:
        root, luggage = Path(folder) / "root", Path(folder) / "luggage"
        root.mkdir()
        for place, files in ((root, parcel.files), (luggage, parcel.luggage)):
            for name, content in zip(files, ray.get(list(files.values())), strict=True):
                write(place, name, content)
        if task.luggage is not None:
            task.luggage.unpack(luggage)
        report = now_and_then(_Reporter(parcel.key, task, root, box), REPORT_SECONDS)
        report(0)
        if parcel.session in _stopped:
            return None, None
        failure = perform(task, root, report)
        return failure, written(task, root)


class _Reporter:
    """Sends the position, and now and then the files that are new."""

    def __init__(self, key: str, task: Task, root: Path, box: Any) -> None:
        self._key, self._task, self._root, self._box = key, task, root, box
        self._known: dict[str, int] = {}
        written(task, root, self._known)  # the main process has these
        self._checkpoint = self._age()
        self._sent = time.monotonic()
        self._due = 0.0

    def __call__(self, position: int) -> None:
        now, checkpoint = time.monotonic(), self._age()
        files: Files = {}
        if now >= self._due and (checkpoint != self._checkpoint or now >= self._sent + FILES_SECONDS):
            files = written(self._task, self._root, self._known)
            self._checkpoint, self._sent = checkpoint, now
            self._due = now + sum(len(content) for content in files.values()) / FILES_BYTES_PER_SECOND
        self._box.put.remote(self._key, position, files)

    def _age(self) -> int:
        """When the checkpoint was written; 0 while there is none."""
        path = self._task.checkpoint and self._root / self._task.checkpoint
        return path.stat().st_mtime_ns if path and path.exists() else 0


_sessions: set[str] = set()
_stopped: set[str] = set()


def _settle(session: str, box: Any) -> None:
    """Once in a worker process: one thread, no notices, and an ear for the end."""
    if session in _sessions:
        return
    _sessions.add(session)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # but while a task is performed
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("imitate").setLevel(logging.ERROR)  # notices are the main process's: said once
    threading.Thread(target=_listen, args=(session, box), daemon=True).start()


def _listen(session: str, box: Any) -> None:
    with contextlib.suppress(RayError):  # the block has ended by itself
        ray.get(box.stopped.remote())
        _stopped.add(session)
        # Ray blocks SIGINT in its workers. This calls its handler all the same.
        _thread.interrupt_main()
