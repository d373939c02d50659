"""Writes demonstrations: `DemoWriter` appends trajectories to an HDF5 file, which `DemoReader` reads lazily.

A writer may be killed at any moment. Rows are flushed before the table of episodes that refers to them, in HDF5's mode
for a single writer and multiple readers (SWMR), which keeps the metadata on disk consistent. `savepoint` protects
against power cuts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Self

import h5py
import numpy as np

from imitate.datasets.play import unstack_frames
from imitate.datasets.storage.damage import copying
from imitate.datasets.storage.fit import check_fit, episode_row, placed, stored_rewards, total_of
from imitate.datasets.storage.layout import FAILED, LIBVER, MOST_FAILED, claim, create_new, row_types
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.savepoint import Savepoint, locked, repair, savepoint_of
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.superblock import SIZE, end_of_file
from imitate.datasets.storage.texts import Heap
from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array, lowest_actions
from imitate.errors import InputError, one_line

__all__ = ["DemoWriter"]

_PENDING_BYTES = 1 << 24
_FLUSH_SHARE = 0.02  # largest share of the time spent on flushing; an episode waits for tens of milliseconds
_LONGEST_WAIT = 1.0  # seconds, after a flush that took long
_SYNC_SHARE = 0.05  # largest share of the time spent waiting for the disk
_SYNC_WAIT = 1.0  # least seconds from one sync to the next
_RENAMES_OPEN_FILES = os.name != "nt"
RESERVE_BYTES = 1 << 20


class DemoWriter:
    """Appends trajectories to a new file; `close` removes the file if it has no episode.

    Use it in a `with` block, or call `close`. `DemoWriter.resume(path)` goes on with a file that exists.

    info             with `has_actions` False, actions are not stored
    expert_actions   store labels besides the actions; a trajectory without labels is labelled with its actions
    sync             sync to the disk about every second. If False, only `close` syncs, which suits a file that gets its
                     name only when it is complete

    A kill loses what was not flushed, some tens of milliseconds. A power cut loses what was not synced: `synced` counts
    the episodes that can't be lost.

    A file has one writer at a time, and any number of readers. Raises InputError if `path` exists or can't be written.
    """

    def __init__(
        self, path: str | Path, info: DemoInfo, *, expert_actions: bool = False, sync: bool = True
    ) -> None:
        self.path = Path(path).absolute()  # the script may change its folder
        self.info = info
        expert_actions = expert_actions and info.has_actions
        self._pending: list[dict[str, Array]] = []
        self._pending_texts: list[Mapping[str, bytes]] = []
        self._heap = Heap(info.has_texts)
        self._pending_bytes = 0
        self._next_flush = 0.0
        self._next_sync = time.monotonic() + _SYNC_WAIT
        self.synced = 0
        self.failed_seeds: list[int] = []
        self._reader: DemoReader | None = None
        self._reserved = 0
        self._lock = locked(self.path)
        try:
            self._file = create_new(self.path, info, expert_actions)
        except BaseException:
            self._lock.close()
            raise
        self._columns: dict[str, h5py.Dataset] = {
            name: self._file[name] for name in row_types(info, expert_actions)
        }
        self._written = dict.fromkeys(self._columns, 0)
        # A flush writes new rows, and rewrites the last, incomplete chunk of each column.
        chunks = (int(np.prod(column.chunks)) * column.dtype.itemsize for column in self._columns.values())
        self._slack = 65536 + 2 * sum(chunks)
        self._file.swmr_mode = True
        self._savepoint = Savepoint(self._file, self.path, info) if sync else None
        try:
            self.sync()
        except InputError:
            self.close()
            raise

    @classmethod
    def resume(cls, path: str | Path, *, episodes: int | None = None) -> DemoWriter:
        """Continue a file after its first `episodes` episodes (the number in a checkpoint), or after all of them. Its
        writer was closed, or killed.

        The episodes are copied to a new file, which then replaces the old one (where a link leads to), because HDF5
        can't reopen the file of a killed writer for writing.

        Raises InputError if the file has fewer episodes, can't be read, or another writer is at work on it.
        """
        path = Path(path).resolve()
        lock = locked(path)
        try:
            repair(path)
            writer = cls._copied(path, episodes)
        except BaseException:
            lock.close()
            raise
        writer._lock.close()  # of the name that the copy had
        writer._lock = lock
        return writer

    @classmethod
    def _copied(cls, path: Path, episodes: int | None) -> DemoWriter:
        """The writer of a copy that has replaced the file at `path`."""
        fresh = path.with_name(path.name + ".resuming")
        for left in (fresh, savepoint_of(fresh)):  # left by a resume that was killed; the original is whole
            left.unlink(missing_ok=True)
        with DemoReader(path) as old, copying(path, fresh, len(old)):
            if episodes is not None and episodes > len(old):
                raise InputError(
                    f"{path} holds {len(old)} episodes of the {episodes} to resume from: it is another file"
                )
            writer = cls(fresh, old.info, expert_actions=old.has_expert_actions)
            try:
                for number in range(len(old) if episodes is None else episodes):
                    writer.append_pieces(old.pieces(number))
                for seed in old.failed_seeds:
                    writer.fail(seed)
                writer.sync()
                writer._next_flush = 0.0  # new episodes need not wait because of the copying
            except BaseException:
                with suppress(InputError):  # the first failure is the one to report
                    writer.close()
                raise
        writer._move(path)
        return writer

    def _move(self, path: Path) -> None:
        """Rename the file, replacing another."""
        if not _RENAMES_OPEN_FILES:
            self._file.close()
        self.path.replace(path)
        self.path = path
        if self._savepoint is not None:
            self._savepoint.move(path)
        if not _RENAMES_OPEN_FILES:
            self._reopen()

    def _reopen(self) -> None:
        """Go on with the closed file. If this process is killed meanwhile, only the savepoint can restore the file."""
        self._file = h5py.File(self.path, "r+", libver=LIBVER)
        self._columns = {name: self._file[name] for name in self._columns}
        self._reserved = 0  # closing may have given back the reserved space
        self._reserve(self._file.id.get_filesize())
        self._file.swmr_mode = True
        if self._savepoint is not None:
            self._savepoint.follow(self._file)

    def __len__(self) -> int:
        return self._written["episodes"] + len(self._pending)

    @property
    def flushed(self) -> int:
        """Number of episodes in the file; the others are still in memory."""
        return self._written["episodes"]

    @property
    def num_steps(self) -> int:
        return self._written["actions"] + sum(len(rows["actions"]) for rows in self._pending)

    def append(self, trajectory: Trajectory) -> None:
        """Record a copy of an episode, or of a piece of one; `flush_due` says when it is on disk.

        Raises InputError if it does not fit the file's spaces, does not say how it ended, the writer is closed, or the
        disk is full; what had been flushed is kept.
        """
        rows = {name: array.copy() for name, array in self._rows(trajectory).items()}
        rows["episodes"] = episode_row(trajectory, len(trajectory), total_of(rows["rewards"]))
        self._pending_texts.append(self._heap.encoded(trajectory.info))
        self._pending.append(rows)
        self._pending_bytes += rows["obs"].nbytes
        self.flush_due()

    def append_pieces(self, pieces: Iterable[Trajectory]) -> None:
        """Record one episode in pieces, however long it is. Each piece begins with the last observation of the one
        before, and the last one says how the episode ends.

        Raises InputError as `append` does, and if there is no piece. If this method or `pieces` raises, nothing of the
        episode is kept.
        """
        pieces = iter(pieces)
        first = list(islice(pieces, 2))
        if not first:
            raise InputError("an episode needs at least one piece, got none")
        if len(first) == 1:
            self.append(first[0])
            return
        self.flush()
        before, length, total = self._written, 0, 0.0
        try:
            for piece in chain(first, pieces):
                rows = self._rows(piece)
                if length:
                    rows["obs"] = rows["obs"][self.info.frame_stack :]
                self._write(rows)
                length, total = length + len(piece), total + total_of(rows["rewards"])
            row = placed(episode_row(piece, length, total), before, self.info.frame_stack)
            self._write(self._texts([self._heap.encoded(piece.info)]) | {"episodes": row})
        except BaseException:
            self._heap.forget()
            self._written = before  # the next episode overwrites these rows
            raise

    def _rows(self, trajectory: Trajectory) -> dict[str, Array]:
        """The rows of a trajectory by column, without its row of the table. Raises InputError if they don't fit."""
        self._check_open()
        if not isinstance(trajectory, Trajectory):
            raise InputError(f"an episode is a Trajectory, got {type(trajectory).__name__}")
        check_fit(trajectory, self.info, self.path, labels="expert_actions" in self._columns)
        actions = trajectory.actions
        if not self.info.has_actions:
            actions = lowest_actions(self.info.action_space, len(actions))
        rows = {
            "obs": unstack_frames(trajectory.obs, self.info.frame_stack),
            "actions": actions,
            "rewards": stored_rewards(trajectory.rewards),
            "expert_actions": trajectory.labels,
        }
        if trajectory.states is not None:
            rows["states"] = trajectory.states
        return {name: rows[name] for name in self._columns if name in rows}

    def _texts(self, texts: Sequence[Mapping[str, bytes]]) -> dict[str, Array]:
        """New rows of `texts` and `tags`, if the file has them."""
        return self._heap.rows(texts, self._written.get("texts", 0))

    def fail(self, seed: int) -> None:
        """Record that the environment failed in the episode with this seed; the episode is not in the file.

        Raises InputError if the writer is closed, or there are more than a file can list.
        """
        self._check_open()
        if len(self.failed_seeds) == MOST_FAILED:
            raise InputError(
                f"{MOST_FAILED} episodes have failed, and a file lists no more: mend the environment; "
                f"{self.path} keeps {len(self)} episodes"
            )
        self.failed_seeds.append(seed)
        padding = [-1] * (MOST_FAILED - len(self.failed_seeds))
        table = self._columns["episodes"]
        table.attrs.modify(FAILED, np.array(self.failed_seeds + padding, np.int64))
        table.flush()

    def flush_due(self) -> None:
        """Flush if enough is pending or enough time has passed. Call it between episodes too if they are far apart."""
        if self._pending and (self._pending_bytes > _PENDING_BYTES or time.monotonic() > self._next_flush):
            self.flush()
        if self._savepoint is not None and time.monotonic() > self._next_sync and self.synced < len(self):
            self.sync()

    def sync(self) -> None:
        """Flush and wait for the disk, so that neither a kill nor a power cut can lose what was appended.

        Raises InputError if the disk is full."""
        self.flush()
        if self._savepoint is None:
            return
        begin = time.monotonic()
        try:
            self._savepoint.save(self._written)
        except OSError as error:
            raise self._full(error) from error
        self.synced = self._written["episodes"]
        end = time.monotonic()
        self._next_sync = end + max((end - begin) / _SYNC_SHARE, _SYNC_WAIT)

    def flush(self) -> None:
        """Write everything appended, so that a kill can't lose it. Raises InputError if the disk is full."""
        if not self._pending:
            return
        begin = time.monotonic()
        names = self._pending[0]
        pending = {name: np.concatenate([rows[name] for rows in self._pending]) for name in names}
        pending["episodes"] = placed(pending["episodes"], self._written, self.info.frame_stack)
        try:
            self._write(self._texts(self._pending_texts) | pending)
        except BaseException as error:
            self._heap.forget()
            if isinstance(error, InputError):  # lost: `close` must not try again
                self._forget_pending()
            raise
        self._forget_pending()
        end = time.monotonic()
        self._next_flush = end + min((end - begin) / _FLUSH_SHARE, _LONGEST_WAIT)

    def _forget_pending(self) -> None:
        self._pending, self._pending_texts, self._pending_bytes = [], [], 0

    def _write(self, pending: Mapping[str, Array]) -> None:
        """Append rows to columns. Raises InputError if the disk is full."""
        written = self._written
        more = sum(rows.nbytes for rows in pending.values()) + self._slack
        # The table comes last: an episode exists once its row is on disk. An interrupt before that leaves rows that
        # nothing refers to; the next flush overwrites them.
        try:
            self._reserve(self._file.id.get_filesize() + more)
            for name, rows in pending.items():
                column = self._columns[name]
                column.resize(written[name] + len(rows), axis=0)
                column[written[name] :] = rows
                column.flush()
        except (OSError, RuntimeError) as error:  # HDF5 raises either of them
            raise self._full(error) from error
        self._written = written | {name: written[name] + len(rows) for name, rows in pending.items()}

    def reader(self) -> DemoReader:
        """A reader of everything appended so far, while this writer is open. It is always the same object, which keeps
        its cache."""
        self._check_open()
        self.flush()
        if self._reader is None:
            self._reader = DemoReader(self._file)
        # Asked for once an epoch: the table is read and checked again only if it grew.
        elif len(self._reader) != self._written["episodes"]:
            self._reader.refresh()
        return self._reader

    def close(self) -> None:
        """Flush and close; remove the file if it has no episode.

        Raises InputError if the disk is full, or the file is no longer at its path.
        """
        if not self._file:
            return
        with closing(self._lock):
            try:
                self.sync()
                if self._written["episodes"]:
                    self._check_place()
            finally:
                self._end()

    def _end(self) -> None:
        """Close the file, and tidy its path if it still leads there."""
        is_there = self._is_there()
        self._file.close()
        if is_there and not self._written["episodes"]:
            self.path.unlink()
        elif is_there:
            with self.path.open("rb+") as disk:  # give back the reserved space
                disk.truncate(end_of_file(disk.read(SIZE)))
                os.fsync(disk.fileno())
        if self._savepoint is not None:
            self._savepoint.remove()

    def _is_there(self) -> bool:
        """False if the path leads to another file now, or to none."""
        try:
            return os.path.samestat(os.fstat(self._file.id.get_vfd_handle()), self.path.stat())
        except FileNotFoundError:
            return False

    def _check_place(self) -> None:
        if not self._is_there():
            raise InputError(
                f"{self.path} was moved, removed or replaced while it was recorded: record it again, and leave it in "
                "its place until its writer is closed"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reserve(self, end: int) -> None:
        """Reserve disk space up to byte `end`. If HDF5 ran out of space, it could not even close the file, and would
        crash with a segmentation fault."""
        if end > self._reserved:
            self._check_place()
            claim(self.path, end + RESERVE_BYTES)
            self._reserved = end + RESERVE_BYTES
            self._columns["episodes"].attrs.modify("reserved", np.int64(self._reserved))  # see opening._check

    def _full(self, error: Exception) -> InputError:
        reason = getattr(error, "strerror", None) or one_line(error)
        kept = f"; episodes kept: {self._written['episodes']}" if self._savepoint is not None else ""
        return InputError(f"{self.path} can't be written: {reason}{kept}")

    def _check_open(self) -> None:
        if not self._file:
            raise InputError(f"{self.path} is closed: go on with DemoWriter.resume({str(self.path)!r})")
