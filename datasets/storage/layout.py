"""The datasets in a file of demonstrations: their types, chunks and compression."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from imitate.datasets.storage.schema import EPISODES, TAGS, DemoInfo, write_info
from imitate.datasets.storage.zstd import LEVEL, ZSTD, register
from imitate.errors import InputError, one_line
from imitate.files import atomic

__all__ = ["FAILED", "LIBVER", "MOST_FAILED", "claim", "create", "create_new", "row_types"]

LIBVER = ("v110", "v110")
"""The version of HDF5's format that is written. 1.10 is the first whose files can be read while they are written, and
all later libraries read it; with "latest", files of HDF5 2.0 are unreadable to 1.14."""
FAILED = "failed_seeds"
"""Attribute of the table of episodes: seeds (MOST_FAILED,) of episodes in which the environment failed, padded with
-1."""
MOST_FAILED = 256  # fixed, since an attribute can't grow while a file is read and written

_CHUNK_BYTES = 1 << 17  # larger chunks are hardly faster to read, and every column takes at least one
# Pictures are packed in 64 rows, or fewer if they are large, since a whole chunk is unpacked to read one of them.
# 84 x 84 frames of Breakout take 136 bytes each with gzip 1 and 189 with lzf, at equal speed.
_PICTURES_IN_CHUNK, _PICTURE_CHUNK_BYTES = 64, 1 << 19
_FILTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gzip": ("gzip 1", {"compression": 1}),
    "zstd": (f"zstd {LEVEL}", {"compression": ZSTD, "compression_opts": (LEVEL,), "fletcher32": True}),
}
"""Name and options of each compression."""
_CHUNKS = {"texts": 1 << 16, "tags": 256, "episodes": 256}  # rows, where they differ from the others'
_RESERVE_BYTES = 1 << 20

_DESCRIPTIONS = {
    "obs": "Observations. An episode of T steps has T + 1 rows, the last being the true final observation; where "
    "frame_stack k > 1, T + k single frames. Its first row is the obs_start of the table of episodes.",
    "actions": "Actions that were executed, a row a step. An episode's first row is its start in the table.",
    "rewards": "Undiscounted rewards of the environment, a row a step.",
    "expert_actions": "The expert's actions, free of noise: what to imitate. A row a step.",
    "states": "States of the simulator before each action, a row a step.",
    "texts": "Bytes of the texts of episodes, in UTF-8, one after another; `tags` has their places.",
    "tags": "A row an episode: first byte and number of bytes in `texts` of its task, of the masks that it is in (a "
    "line), of its simulator's model_file and of robomimic's env_args.",
    "episodes": "A row an episode: first rows, number of steps, return, how it ended, seed of its reset (below 0: "
    "unknown).",
}
_FIELDS = " A row has a field for each part of the Dict."


def create(path: Path, info: DemoInfo, expert_actions: bool) -> None:
    """Create a file without episodes. Raises InputError if its compression needs a package that is missing."""
    if info.compression == "zstd":
        register(path)
    path.touch()
    claim(path, 1 << 16)  # fails now if the disk is full
    with h5py.File(path, "w", libver=LIBVER) as file:
        write_info(file, info)
        for name, (shape, dtype) in row_types(info, expert_actions).items():
            pixels = len(shape) >= 2 and dtype == np.uint8
            row_bytes = dtype.itemsize * int(np.prod(shape))
            most, fill = (_PICTURES_IN_CHUNK, _PICTURE_CHUNK_BYTES) if pixels else (8192, _CHUNK_BYTES)
            chunk = min(max(1, fill // row_bytes), _CHUNKS.get(name, most))
            parted = name == "obs" and dtype.names is not None
            packed = name == "texts" or pixels or (parted and _has_pixels(dtype))
            filter = "gzip" if name == "texts" else info.compression
            compression, options = _FILTERS[filter] if packed else ("none", {})
            column = file.create_dataset(
                name, (0, *shape), dtype, maxshape=(None, *shape), chunks=(chunk, *shape), **options
            )
            column.attrs["description"] = _DESCRIPTIONS[name] + (_FIELDS if parted else "")
            column.attrs["compression"] = compression
        file["episodes"].attrs["reserved"] = np.int64(0)
        file["episodes"].attrs[FAILED] = np.full(MOST_FAILED, -1, np.int64)


def create_new(path: Path, info: DemoInfo, expert_actions: bool) -> h5py.File:
    """A new file, open for writing. Raises InputError if the path exists or can't be written."""
    try:
        with atomic(path, new=True) as temporary:
            create(temporary, info, expert_actions)
        return h5py.File(path, "r+", libver=LIBVER)
    except FileExistsError as error:
        raise InputError(f"{path} exists already: choose another name, or resume it") from error
    except OSError as error:
        raise InputError(f"{path} can't be written: {error.strerror or one_line(error)}") from error


def _has_pixels(dtype: np.dtype[Any]) -> bool:
    """True if rows of a structured array contain images."""
    parts = [] if dtype.fields is None else [part for part, *_ in dtype.fields.values()]
    return any(_has_pixels(part) or (part.base == np.uint8 and len(part.shape) >= 2) for part in parts)


def row_types(info: DemoInfo, expert_actions: bool) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shape and type of each column's rows; the table of episodes is last."""
    action = (info.action_space.shape or (), info.action_space.dtype)
    steps = {
        "obs": (info.frame_shape, info.observation_space.dtype),
        "actions": action,
        "rewards": ((), np.dtype(np.float32)),
    }
    labels = {"expert_actions": action} if expert_actions else {}
    states = {"states": ((info.state_size,), np.dtype(np.float64))} if info.state_size else {}
    texts = {"texts": ((), np.dtype(np.uint8)), "tags": ((), TAGS)} if info.has_texts else {}
    return steps | labels | states | texts | {"episodes": ((), EPISODES)}


def claim(path: Path, end: int) -> None:
    """Make the file at least `end` bytes long, on disk. Raises OSError if the disk is full."""
    with path.open("rb+", buffering=0) as disk:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(disk.fileno(), 0, end)
            return
        size = disk.seek(0, os.SEEK_END)
        while size < end:
            size += disk.write(bytes(min(end - size, _RESERVE_BYTES)))
