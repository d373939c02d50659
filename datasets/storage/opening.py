"""Opens untrusted files of demonstrations within bounded time and memory."""

from __future__ import annotations

import glob
import time
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

from imitate.datasets.storage.contain import contained_once
from imitate.datasets.storage.damage import damaged
from imitate.datasets.storage.layout import FAILED, MOST_FAILED, row_types
from imitate.datasets.storage.savepoint import lost_power, savepoint_of
from imitate.datasets.storage.schema import EPISODES, DemoInfo, read_info
from imitate.datasets.storage.superblock import (
    SIGNATURE,
    SIZE,
    Settled,
    being_written,
    end_of_file,
    half_open,
)
from imitate.datasets.storage.zstd import MOST_RATIO, ZSTD, check_frames, filters_of, register
from imitate.envs.spaces import Array
from imitate.errors import InputError, one_line

__all__ = ["check_storage", "open_demos", "paths_of", "read_failed", "read_table"]

_LARGEST_CHUNK = 1 << 26
_MOST_STEPS = 1 << 40
_LARGEST_REWARD = 1e39
"""More than a float32 holds; squares of sums of these are finite."""
_BEST_COMPRESSION = 1100
"""Largest compression ratio that is accepted. Deflate reaches at most 1,032; a file that claims more refers to the same
bytes repeatedly."""

_FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}
"""Filters that are part of HDF5. Others are plugins, code that is loaded from elsewhere; of these only ZSTD is allowed,
for the pictures of a file that says so."""

_TRIES = 5  # a file that is being written may change while it is checked
_HOPELESS = 2.0  # seconds; a try that takes this long is not repeated, since HDF5 would loop again


def paths_of(source: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files that `source` names: a file, several, a folder of .h5 files, or a pattern with `*`, `?` or `[`; sorted.

    Raises InputError if it names none.
    """
    if not isinstance(source, str | Path):
        if not source:
            raise InputError("no files of demonstrations were given; name some, a folder or a pattern")
        return [path for one in source for path in paths_of(one)]
    path = Path(source)
    if path.is_dir():
        found = sorted(path.glob("*.h5"))
    elif not path.exists() and glob.has_magic(str(source)):
        found = sorted(map(Path, glob.glob(str(source), recursive=True)))  # noqa: PTH207 (absolute patterns too)
    else:
        return [path]
    if found:
        return found
    if path.is_dir() and any(path.iterdir()):
        raise InputError(
            f"no file of imitate's in the folder {path}; `imitate data convert {path} demos.h5` reads LeRobot's and "
            "Minari's"
        )
    raise InputError(f"no file of demonstrations at {source}; record one with `imitate collect`")


def open_demos(path: Path) -> h5py.File:
    """Open a file for reading, even while another process records it, or after that process was killed.

    All metadata are read once in a child process first (see `contained_once`), which costs 10 to 60 ms. This process
    opens only what the child could read. Raises InputError if there is no file, or not a whole file of demonstrations.
    """
    if not path.is_file():
        raise InputError(f"no file of demonstrations at {path}; record one with `imitate collect`")
    if lost_power(path):
        raise InputError(
            f"{path} was never closed, and the machine was started again: `imitate data repair {path}` restores the "
            "episodes that were synced; a recording that is resumed does so itself"
        )
    for _ in range(_TRIES):
        if not (is_half_open := half_open(_superblock(path))):
            break
        time.sleep(0.02)  # a living writer needs less
    writing = being_written(_superblock(path))
    for tries_left in reversed(range(_TRIES if writing else 1)):
        begin = time.monotonic()
        try:
            contained_once(_check, path)
            break
        except InputError:
            if not tries_left or time.monotonic() - begin > _HOPELESS:
                raise
            time.sleep(0.02)
    with damaged(path, "it"):
        source = Settled(path) if is_half_open else path
        file = h5py.File(source, "r", libver="latest", swmr=writing and not is_half_open)
        try:
            if read_info(file).compression == "zstd":
                register(path)
        except BaseException:
            file.close()
            raise
        return file


def read_table(file: h5py.File) -> Array:
    """The episodes (E,) that are completely in the file, as records of EPISODES.

    Raises InputError if the table is inconsistent: lengths that do not add up, or more steps than are stored.
    """
    path = file.filename
    with damaged(path, "the table of episodes"):
        dataset = file["episodes"]
        # A killed writer's table can end in rows that never reached the disk: whole chunks, or zeros.
        count = min(len(dataset), dataset.id.get_storage_size() // EPISODES.itemsize)
        table: Array = dataset[:count]
        unwritten = np.flatnonzero(table["length"] == 0)
        table = table[: unwritten[0]] if len(unwritten) else table
        stored = [name for name in ("actions", "rewards", "expert_actions") if name in file]
        stored += ["states"] if file.attrs.get("state_size", 0) else []
        steps, rows = min(len(file[name]) for name in stored), len(file["obs"])
        stack = int(file.attrs["frame_stack"])
        lengths = table["length"]
        possible = np.abs(table["return"]) <= _LARGEST_REWARD * lengths
        if ((lengths < 0) | (lengths > steps) | ~possible).any():
            raise InputError(
                f"{path}: an episode has a negative length, more steps than are stored, or a return that no rewards "
                "add up to; restore it or record it again"
            )
        starts = np.concatenate([[0], np.cumsum(lengths)])
        obs_starts = starts + stack * np.arange(len(starts))
        if (table["start"] != starts[:-1]).any() or (table["obs_start"] != obs_starts[:-1]).any():
            raise InputError(
                f"{path}: lengths of episodes and their starts disagree; restore it or record it again"
            )
        if starts.min() < 0 or steps < starts[-1] or rows < obs_starts[-1]:
            raise InputError(
                f"{path}: {starts[-1]} steps are listed, fewer are stored; restore it or record it again"
            )
        return table


def read_failed(file: h5py.File) -> list[int]:
    """Seeds of episodes in which the environment failed; empty if the file lists none."""
    with damaged(file.filename, f"the attribute {FAILED!r}"):
        attributes = file["episodes"].attrs
        if FAILED not in attributes:
            return []
        stored = attributes.get_id(FAILED)
        if stored.shape != (MOST_FAILED,) or stored.dtype != np.int64:
            raise InputError(f"{FAILED} are {stored.dtype} {stored.shape}, wanted int64 ({MOST_FAILED},)")
        seeds: list[int] = attributes[FAILED].tolist()
        return [seed for seed in seeds if seed >= 0]


def _superblock(path: Path) -> bytes:
    with damaged(path, "it"), path.open("rb") as file:
        return file.read(SIZE)


def _check(path: Path) -> None:
    """Raise InputError unless everything that describes the data can be read and is consistent."""
    size, superblock = path.stat().st_size, _superblock(path)
    writing = being_written(superblock)
    if writing and size < end_of_file(superblock):
        raise _cut_off(path, "truncated file")
    source = Settled(path) if writing else path
    try:
        file = h5py.File(source, "r")
    except Exception as error:
        raise _cut_off(path, one_line(error)) from error
    with damaged(path, "it"), file:
        info = read_info(file)
        _check_datasets(file, info, path, size, writing)
        # The superblock's end of file is from when the writer began; this is the space it has reserved since.
        if writing and size < file["episodes"].attrs["reserved"]:
            raise _cut_off(path, "truncated file")
        read_table(file)
        read_failed(file)


def _cut_off(path: Path, why: str) -> InputError:
    beside = savepoint_of(path)
    how = f"`imitate data repair {path}` restores what {beside.name} beside it knows"
    if not beside.is_file():
        how = f"`imitate data repair` needs {beside.name}, which is not beside it; copy both again, or record it again"
        if path.stat().st_size and not _superblock(path).startswith(SIGNATURE):
            how = f"`imitate data convert {path} demos.h5` reads other formats, such as CSV"
    return InputError(f"{path} is not a whole HDF5 file ({why}): {how}")


def _check_datasets(file: h5py.File, info: DemoInfo, path: Path, size: int, writing: bool) -> None:
    # The table is first: if a writer is active, the other columns then have the rows that it lists.
    wanted = {"episodes": ((), EPISODES)} | row_types(info, expert_actions=True)
    for name, (shape, dtype) in wanted.items():
        link = file.get(name, getlink=True) if name in file.keys() else None  # noqa: SIM118
        if link is None and name != "expert_actions":
            raise InputError(f"lacks the dataset {name!r}; restore it or record it again")
        if link is None:
            continue
        if not isinstance(link, h5py.HardLink):
            raise InputError(f"{name!r} is a link to another place; links are not followed: copy the data in")
        dataset = file[name]
        if not isinstance(dataset, h5py.Dataset):
            raise InputError(f"{name!r} is no dataset; restore it or record it again")
        zstd = name == "obs" and info.compression == "zstd"
        check_storage(dataset, name, size, writing=writing, zstd=zstd)
        if zstd and ZSTD in filters_of(dataset):
            check_frames(dataset, name, path)
        if dataset.dtype != dtype or dataset.shape[1:] != shape:
            raise InputError(
                f"{name} are {dataset.dtype} {dataset.shape[1:]}, wanted {dtype} {shape}; record it again"
            )


def check_storage(
    dataset: h5py.Dataset, name: str, size: int, *, writing: bool = False, zstd: bool = False
) -> None:
    """Raise InputError unless the data are in this file, in sensible pieces, and not more than it can hold.

    size      bytes of the file
    writing   whether a writer is active, or was killed
    zstd      whether that filter is allowed too
    """
    layout = dataset.id.get_create_plist()
    if layout.get_external_count() or layout.get_layout() == h5py.h5d.VIRTUAL:
        raise InputError(f"{name!r} takes its data from another file; copy them in")
    filters = set(filters_of(dataset))
    if not filters <= (_FILTERS | {ZSTD} if zstd else _FILTERS) or (filters and name == "episodes"):
        raise InputError(f"{name!r} is compressed with filters {sorted(filters)}; use gzip, or none")
    if dataset.ndim < 1:
        raise InputError(f"{name!r} has no rows; restore it or record it again")
    nbytes = dataset.size * dataset.dtype.itemsize
    chunked = layout.get_layout() == h5py.h5d.CHUNKED
    ratio = 1 if not chunked else MOST_RATIO if ZSTD in filters else _BEST_COMPRESSION
    if len(dataset) > _MOST_STEPS or nbytes > ratio * size:
        raise InputError(
            f"{name!r} claims {nbytes} bytes, in a file of {size}; restore it or record it again"
        )
    if not chunked:
        return
    chunk_bytes = int(np.prod(dataset.chunks, dtype=object)) * dataset.dtype.itemsize
    if chunk_bytes > _LARGEST_CHUNK:
        raise InputError(
            f"{name!r} has chunks of {chunk_bytes} bytes, over the limit of {_LARGEST_CHUNK}: rechunk it"
        )
    # Both walk the whole index of chunks, the first in a tenth of the time. HDF5 itself refuses chunks beyond the
    # superblock's end of file, but that is outdated if a writer is or was active.
    end = dataset.id.get_storage_size()
    if writing:
        ends = [0]
        dataset.id.chunk_iter(lambda chunk: ends.append(chunk.byte_offset + chunk.size))
        end = max(ends)
    if end > size:
        raise InputError(
            f"it is not a whole HDF5 file ({name!r} goes beyond its end); restore it or record it again"
        )
