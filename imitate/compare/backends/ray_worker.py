"""A task on a Ray worker, and the mailbox through which it talks with the main process."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import math
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from imitate.compare.backends import Failure, Task, now_and_then, perform, settle
from imitate.compare.backends.transport import Files, write, written
from imitate.files import versions

__all__ = ["Parcel", "carry_out", "mailbox", "mailbox_name"]

REPORT_SECONDS = 0.5
FILES_SECONDS = 10  # between two sendings of files; a new checkpoint is sent at once
FILES_BYTES_PER_SECOND = 1 << 20  # average rate of a running task, since many tasks send to one machine
LISTEN_SECONDS = 60  # without a mailbox before the block counts as ended


@dataclass(frozen=True)
class Parcel:
    """The input of a worker.

    key             identifies this attempt at the task
    session         the same for all parcels of one `with` block of the main process
    files, luggage  references to file contents in Ray's object store, by name
    versions        package versions of the main process
    """

    key: str
    session: str
    task: Task
    files: Mapping[str, Any]
    luggage: Mapping[str, Any]
    versions: Mapping[str, str]


def mailbox_name(session: str) -> str:
    """The name of a block's mailbox. If the mailbox is lost, the main process makes a new one with this name."""
    return f"imitate mailbox {session}"


def mailbox() -> type[Any]:
    """The class of an actor on the main process's node. Workers leave their news there, and learn from it when to stop.

    Ray sends a class that is defined in a function by value. So the actor's process imports none of our modules and
    starts seconds earlier.
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


def carry_out(parcel: Parcel) -> tuple[Failure | None, Files | None]:
    """Carry out one task in its own folder. Returns its failure, if any, and the files that it wrote (None: it has not
    begun)."""
    if parcel.versions != (here := versions()):
        differ = sorted(name for name, version in parcel.versions.items() if here.get(name) != version)
        there = ", ".join(f"{name} {here.get(name, 'missing')}" for name in differ) or "more packages"
        wanted = ", ".join(f"{name} {parcel.versions[name]}" for name in differ) or "none of them"
        return Failure(
            f"a node of the cluster has {there}, wanted {wanted}: install the same on every node"
        ), None
    _settle_once(parcel.session)
    task = parcel.task
    with tempfile.TemporaryDirectory(prefix="imitate-") as folder:
        root, luggage = Path(folder) / "root", Path(folder) / "luggage"
        root.mkdir()
        for place, files in ((root, parcel.files), (luggage, parcel.luggage)):
            for name, content in zip(files, ray.get(list(files.values())), strict=True):
                write(place, name, content)
        if task.luggage is not None:
            task.luggage.unpack(luggage)
        report = now_and_then(_Reporter(parcel, root), REPORT_SECONDS)
        report(0)
        if parcel.session in _stopped:
            return None, None
        failure = perform(task, root, report)
        return failure, written(task, root)


class _Reporter:
    """Sends the position, and new files from time to time; if the mailbox was lost, it sends all files again."""

    def __init__(self, parcel: Parcel, root: Path) -> None:
        self._parcel, self._task, self._root = parcel, parcel.task, root
        self._known: dict[str, int] = {}
        written(self._task, root, self._known)  # the main process has these files already
        self._checkpoint = self._age()
        self._sent = time.monotonic()
        self._due = 0.0
        self._box = _found(parcel.session)
        self._answer: Any = None  # to the last message

    def __call__(self, position: int) -> None:
        if self._box is None or self._is_lost():
            self._box, self._answer = _found(self._parcel.session), None
            self._known, self._sent, self._due = {}, -math.inf, 0.0
        if self._box is None:
            return
        now, checkpoint = time.monotonic(), self._age()
        files: Files = {}
        if now >= self._due and (checkpoint != self._checkpoint or now >= self._sent + FILES_SECONDS):
            files = written(self._task, self._root, self._known)
            self._checkpoint, self._sent = checkpoint, now
            self._due = now + sum(len(content) for content in files.values()) / FILES_BYTES_PER_SECOND
        self._answer = self._box.put.remote(self._parcel.key, position, files)

    def _is_lost(self) -> bool:
        if self._answer is None or not ray.wait([self._answer], timeout=0)[0]:
            return False
        try:
            ray.get(self._answer)
        except RayError:
            return True
        return False

    def _age(self) -> int:
        """The time when the checkpoint was written; 0 if there is none yet."""
        path = self._task.checkpoint and self._root / self._task.checkpoint
        return path.stat().st_mtime_ns if path and path.exists() else 0


_sessions: set[str] = set()
_stopped: set[str] = set()


def _settle_once(session: str) -> None:
    """Set up a worker process, with a thread that waits for the end."""
    if session in _sessions:
        return
    _sessions.add(session)
    settle()
    threading.Thread(target=_listen, args=(session,), daemon=True).start()


def _listen(session: str) -> None:
    heard = time.monotonic()
    while time.monotonic() < heard + LISTEN_SECONDS:  # otherwise the block has ended
        if (box := _found(session)) is None:
            time.sleep(1)
            continue
        try:
            ray.get(box.stopped.remote())
        except RayError:
            heard = time.monotonic()
            time.sleep(0.1)
            continue
        _stopped.add(session)
        # Ray blocks SIGINT in its workers; this calls the handler all the same.
        _thread.interrupt_main()
        return


def _found(session: str) -> Any:
    """The mailbox of a block; None if there is none yet."""
    with contextlib.suppress(RayError, ValueError):
        return ray.get_actor(mailbox_name(session))
    return None
