"""The columns of a file of demonstrations: arrays over steps, checked as they are read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
from gymnasium import spaces

from imitate.datasets.storage.damage import damaged
from imitate.datasets.storage.fit import outside
from imitate.datasets.storage.schema import DemoInfo
from imitate.envs.numbers import Array, all_finite
from imitate.errors import InputError

__all__ = ["LARGEST_EPISODE", "PIECE_BYTES", "Column", "read_columns", "row_bytes"]

_READ_BYTES = 1 << 22
LARGEST_EPISODE = 1 << 30
"""Maximum number of bytes of one column that are read at once."""
PIECE_BYTES = 1 << 25
"""Size of the pieces, in bytes over all columns, in which long episodes are read and converted."""
_CACHED = 1 << 20  # bytes; smaller chunks are cached by HDF5 itself


def row_bytes(rows: Any) -> int:
    """Bytes of a row of an array or a dataset (n, *shape)."""
    return int(rows.dtype.itemsize * math.prod(rows.shape[1:]))


class Column:
    """A column with one row per step; `obs` has T + k rows for an episode of T steps, where k is the number of stacked
    frames (1 without). The rows of several files follow one another.

    dtype, shape   of one row
    space          contains all values; None: any finite number
    """

    def __init__(self, parts: Sequence[h5py.Dataset], name: str, space: gym.Space[Any] | None) -> None:
        self.name = name
        self.dtype: np.dtype[Any] = parts[0].dtype
        self.shape: tuple[int, ...] = parts[0].shape[1:]
        self.row_bytes = row_bytes(parts[0])
        self.starts = [0]
        """(files,) number of the first row in each file."""
        self._parts = parts
        # Kept, since asking HDF5 at every read would take a quarter of the time.
        self._paths = [part.file.filename for part in parts]
        self._space = space

    def read(self, start: int, stop: int, into: Array | None = None) -> Array:
        """Rows [start, stop), written to `into` if given.

        Raises InputError if the file is damaged, or holds NaN or values outside the space.
        """
        file = self._paths[0]
        if into is None and (stop - start) * self.row_bytes > LARGEST_EPISODE:
            raise InputError(
                f"{file}: {stop - start} rows of {self.name} take {(stop - start) * self.row_bytes >> 20} MiB, "
                "too much for one trajectory; use pieces() or batches(), which stream"
            )
        if into is None:
            into = np.empty((stop - start, *self.shape), self.dtype)
        # In pieces, since reading a slice makes a copy; it is still several times faster than h5py's read_direct.
        piece = max(1, _READ_BYTES // max(1, self.row_bytes))
        ends = [*self.starts[1:], stop]
        for part, file, first, end in zip(self._parts, self._paths, self.starts, ends, strict=True):
            low, high = max(start, first), min(stop, end)
            if low >= high:
                continue
            with damaged(file, f"rows {start} to {stop} of {self.name}", part):
                for at in range(low, high, piece):
                    until = min(at + piece, high)
                    into[at - start : until - start] = part[at - first : until - first]
            self._check(into[low - start : high - start], file)
        return into

    def _check(self, rows: Array, file: str) -> None:
        if not all_finite(rows):
            raise InputError(
                f"{self.name} of {file} hold NaN or infinity: drop the episode or record it again"
            )
        if self._space is not None and (count := int(outside(self._space, rows).sum())):
            raise InputError(
                f"{count} {self.name} are outside {self._space} in {file}: drop the episode or record it again"
            )


def read_columns(files: Sequence[h5py.File], info: DemoInfo) -> dict[str, Column]:
    """The columns of open files, each with the space of its values. If only some files have labels, the others' actions
    serve as labels."""
    # Observations may leave a Box's bounds; then the environment declared wrong bounds.
    obs = None if isinstance(info.observation_space, spaces.Box) else info.observation_space
    held = {"obs": obs, "actions": info.action_space, "rewards": None}
    if any("expert_actions" in file for file in files):
        held["expert_actions"] = info.action_space
    if info.state_size:
        held["states"] = None
    columns = {}
    for name, space in held.items():
        with damaged(files[0].filename, f"the column {name}"):
            parts = [_opened(file, name if name in file else "actions") for file in files]
            columns[name] = Column(parts, name, space)
    return columns


def _opened(file: h5py.File, name: str) -> h5py.Dataset:
    """A dataset that caches the chunk read last, even a large one; otherwise it would be unpacked for every piece."""
    dataset = file[name]
    chunk = int(np.prod(dataset.chunks or (), dtype=np.int64)) * dataset.dtype.itemsize
    if chunk <= _CACHED:
        return dataset
    del dataset  # an open dataset keeps its cache settings
    access = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
    access.set_chunk_cache(1, chunk, 1.0)
    return h5py.Dataset(h5py.h5d.open(file.id, name.encode(), access))
