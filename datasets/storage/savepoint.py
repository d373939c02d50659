"""Savepoints: they track which rows of a recording are safely on disk, and restore these after a power cut.

HDF5 changes its metadata in place, and a disk may write unsynced data in any order. So a power cut can leave a file
that can't be opened, or rows of zeros. But rows never move once their chunk is full, because HDF5 frees nothing in SWMR
mode. So a small file beside a recording, NAME.savepoint, lists the place of each chunk at the last sync. It is replaced
atomically, and `close` removes it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np
import safetensors
from safetensors.numpy import save

from imitate.datasets.storage.damage import damaged
from imitate.datasets.storage.layout import FAILED, LIBVER, create
from imitate.datasets.storage.schema import DemoInfo, info_from_plain, info_to_plain
from imitate.envs.spaces import Array
from imitate.errors import InputError, one_line
from imitate.files import Lock, atomic

__all__ = ["Savepoint", "go_on", "locked", "lost_power", "recover", "repair", "savepoint_of"]

BOOT = Path("/proc/sys/kernel/random/boot_id")


class Savepoint:
    """The savepoint of an open recording.

    Raises OSError if the disk is full.
    """

    def __init__(self, file: h5py.File, path: Path, info: DemoInfo) -> None:
        self._file, self._path = file, savepoint_of(path)
        self._info = json.dumps(info_to_plain(info))

    def save(self, rows: Mapping[str, int]) -> None:
        """Sync the file, and then store the places of its chunks; `rows` is the number of flushed rows in each
        column."""
        handle = self._file.id.get_vfd_handle()
        os.fsync(handle)
        arrays: dict[str, Array] = {}
        for name, count in rows.items():
            column = self._file[name]
            number = -(-count // column.chunks[0])
            if _is_packed(column) and number:  # later rows may overwrite the last chunk
                start = (number - 1) * column.chunks[0], *[0] * (column.ndim - 1)
                arrays[f"{name}/last"] = np.frombuffer(column.id.read_direct_chunk(start)[1], np.uint8)
            chunks: list[tuple[int, int, int]] = []
            column.id.chunk_iter(
                lambda one, into=chunks: into.append((one.byte_offset, one.size, one.filter_mask))
            )
            arrays[name] = np.array(chunks[:number], np.int64).reshape(-1, 3)
        facts = {"rows": json.dumps(dict(rows)), "info": self._info, "boot": _boot()}
        table = self._file["episodes"]
        facts |= {
            "inode": str(os.fstat(handle).st_ino),
            "table": _digest(table, rows["episodes"]),
            FAILED: json.dumps(table.attrs[FAILED].tolist()),
        }
        fresh = _fresh(self._path)
        with fresh.open("wb") as file:
            file.write(save(arrays, facts))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        _sync_folder(self._path.parent)

    def move(self, path: Path) -> None:
        """Follow the file, which was renamed to `path`."""
        self._path = self._path.replace(savepoint_of(path))
        _sync_folder(path.parent)

    def follow(self, file: h5py.File) -> None:
        """Follow the file, which was opened again as `file`."""
        self._file = file

    def remove(self) -> None:
        """Remove the savepoint, since the file is closed and synced."""
        for path in (self._path, _fresh(self._path)):
            path.unlink(missing_ok=True)


def savepoint_of(path: Path) -> Path:
    """The path of a recording's savepoint."""
    return path.with_name(path.name + ".savepoint")


def locked(path: Path) -> Lock:
    """The lock of the one writer of a recording, which readers don't need.

    Raises InputError if another writer has it, if its file can't be opened, or if the recording is a folder.
    """
    real = Path(os.path.realpath(path))
    if real.is_dir():
        raise InputError(f"{path} is a folder, wanted a file: name one in it, or choose another name")
    file = real.with_name(f".{real.name}.lock")
    busy = (
        f"another recording is at work on {path}: wait for it, or call close() of the DemoWriter that was left open, "
        "in a notebook by an earlier cell"
    )
    try:
        return Lock(file, busy)
    except OSError as error:
        reason = error.strerror or one_line(error)
        if os.path.lexists(file):  # a killed writer's, perhaps of another user
            raise InputError(
                f"{file} can't be locked: {reason}; remove it if nobody records {path.name}"
            ) from error
        raise InputError(f"{path} can't be written: {reason}") from error


def lost_power(path: Path) -> bool:
    """True if the machine was restarted since `path` was recorded, and the writer had not closed the file.

    This is also true if the writer was killed and the machine was later shut down properly, since nothing shows
    afterwards whether the file system was unmounted.
    """
    if not (path.is_file() and savepoint_of(path).is_file()):
        return False
    _, facts = _read(path, names=())
    return facts.get("inode") == str(path.stat().st_ino) and _boot() not in (facts.get("boot"), "")


def go_on(path: Path) -> None:
    """Make the file of a recording readable before it is resumed, if a power cut ended it."""
    if lost_power(path):
        with closing(locked(path)):
            repair(path)


def repair(path: Path) -> None:
    """As `go_on`, for a caller that holds the file's lock: another process may have done it before."""
    if lost_power(path):
        _recover(path)


def recover(path: Path) -> int:
    """Rebuild the file from its savepoint; returns the number of episodes.

    Raises InputError if the file has no savepoint, if the savepoint does not fit the file, or if a writer is at work.
    """
    with closing(locked(path)):
        return _recover(path)


def _recover(path: Path) -> int:
    if not savepoint_of(path).is_file():
        raise InputError(f"{path} has no {savepoint_of(path).name}: there is nothing to restore it from")
    with damaged(savepoint_of(path), "the savepoint"):
        _, facts = _read(path, names=())
        if facts["inode"] != str(path.stat().st_ino):
            raise InputError(f"it belongs to another file than {path}; remove it")
        rows, info = json.loads(facts["rows"]), info_from_plain(json.loads(facts["info"]), path)
        chunks, _ = _read(path, names=[*rows, *(f"{name}/last" for name in rows)])
    with damaged(savepoint_of(path), "the savepoint"), atomic(path) as temporary, path.open("rb") as old:
        create(temporary, info, "expert_actions" in rows)
        with h5py.File(temporary, "r+", libver=LIBVER) as new:
            for name, column in new.items():
                _restore(column, int(rows[name]), chunks[name], chunks.get(f"{name}/last"), old)
            table = new["episodes"]
            if _digest(table, len(table)) != facts["table"]:
                raise InputError(f"what it describes is not in {path}; remove it")
            if FAILED in facts:  # older ones do not say
                table.attrs.modify(FAILED, np.array(json.loads(facts[FAILED]), np.int64))
    savepoint_of(path).unlink()
    return int(rows["episodes"])


def _restore(column: h5py.Dataset, rows: int, chunks: Array, last: Array | None, old: BinaryIO) -> None:
    """Copy the raw chunks (n, 3) of a column from the open file `old`."""
    size = column.chunks[0]
    whole = int(np.prod(column.chunks)) * column.dtype.itemsize
    nbytes = chunks[:, 1]
    fits = (nbytes >= 0) & (nbytes <= 2 * whole) if _is_packed(column) else nbytes == whole
    end = os.fstat(old.fileno()).st_size
    if chunks.shape != (-(-rows // size), 3) or not fits.all() or nbytes.sum() > end:
        raise InputError(f"it does not describe {column.name}")
    column.resize(rows, axis=0)
    for number, (offset, count, mask) in enumerate(chunks.tolist()):
        old.seek(offset)
        raw = old.read(count) if last is None or number < len(chunks) - 1 else last.tobytes()
        if len(raw) != count:
            raise InputError(f"the file ends before chunk {number} of {column.name}")
        column.id.write_direct_chunk((number * size, *[0] * (column.ndim - 1)), raw, mask)


def _read(path: Path, names: Any) -> tuple[dict[str, Array], dict[str, str]]:
    """The stored arrays among `names`, and the other facts in the savepoint."""
    with (
        damaged(savepoint_of(path), "the savepoint"),
        safetensors.safe_open(savepoint_of(path), framework="np") as file,
    ):
        held = {name: file.get_tensor(name) for name in set(names) & set(file.keys())}
        return held, file.metadata() or {}


def _is_packed(column: h5py.Dataset) -> bool:
    return bool(column.id.get_create_plist().get_nfilters())


def _fresh(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def _digest(table: h5py.Dataset, count: int) -> str:
    return hashlib.sha256(table[:count].tobytes()).hexdigest()


def _boot() -> str:
    """An identifier of this start of the machine; "" if the system has none."""
    return BOOT.read_text("ascii").strip() if BOOT.is_file() else ""


def _sync_folder(folder: Path) -> None:
    """Sync a folder, so that renames in it are on disk."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some file systems can't sync folders
            os.fsync(handle)
    finally:
        os.close(handle)
