"""Zstandard, the only filter of HDF5 that is no part of it and that files of demonstrations may use."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from imitate.errors import InputError, pip_install

__all__ = ["LEVEL", "MOST_RATIO", "ZSTD", "check_frames", "filters_of", "register"]

ZSTD = 32015
"""Zstandard's number in the HDF Group's list of filters."""
LEVEL = 3
MOST_RATIO = 1 << 15
"""Largest compression ratio: a block of at most 128 KiB takes at least 4 bytes."""

_MAGIC = b"\x28\xb5\x2f\xfd"
_LONGEST_HEADER = 18


def register(path: str | Path) -> None:
    """Register the filter, and no other one of hdf5plugin unless it is imported already. Raises InputError, which
    names the file `path`, if hdf5plugin is not installed."""
    name = "hdf5plugin"
    theirs = name in sys.modules
    try:
        plugins = import_module(name)
    except ImportError as error:
        raise InputError(
            f"{path}: pictures compressed with zstd need hdf5plugin: {pip_install('zstd')}"
        ) from error
    for number in () if theirs else plugins.FILTERS.values():
        if number != ZSTD and h5py.h5z.filter_avail(number):
            h5py.h5z.unregister_filter(number)
    if not h5py.h5z.filter_avail(ZSTD):
        raise InputError(f"{path}: hdf5plugin has no zstd filter here: install it again")


def filters_of(dataset: h5py.Dataset) -> list[int]:
    """The numbers of a dataset's filters, in the order in which they are applied."""
    layout = dataset.id.get_create_plist()
    return [layout.get_filter(number)[0] for number in range(layout.get_nfilters())]


def check_frames(dataset: h5py.Dataset, name: str, path: Path) -> None:
    """Raise InputError unless each chunk has a checksum and claims to unpack to the size of a chunk.

    The filter allocates what a chunk claims, and HDF5 then reads the size of a chunk from there. It also hides that a
    chunk can't be unpacked; HDF5's checksum shows damage before.
    """
    filters = filters_of(dataset)
    if filters != [ZSTD, h5py.h5z.FILTER_FLETCHER32]:
        raise InputError(
            f"{name!r} has filters {filters}, wanted zstd and then HDF5's checksum; record it again"
        )
    wanted = int(np.prod(dataset.chunks, dtype=object)) * dataset.dtype.itemsize
    claims: list[int | None] = []
    with path.open("rb", buffering=0) as file:

        def look(chunk: Any) -> None:
            file.seek(chunk.byte_offset)
            claims.append(None if chunk.filter_mask else _content_size(file.read(_LONGEST_HEADER)))

        dataset.id.chunk_iter(look)
    wrong = [claim for claim in claims if claim != wanted]
    if wrong:
        raise InputError(
            f"{name!r} has a chunk that claims {wrong[0]} bytes, wanted {wanted}; restore it or record it again"
        )


def _content_size(header: bytes) -> int | None:
    """The unpacked size that the header of a frame claims; None if it claims none. RFC 8878, section 3.1.1.1"""
    if len(header) <= len(_MAGIC) or not header.startswith(_MAGIC):
        return None
    descriptor = header[4]
    single = descriptor >> 5 & 1
    width = (single, 2, 4, 8)[descriptor >> 6]
    start = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3]
    if not width:
        return None
    return int.from_bytes(header[start : start + width], "little") + (256 if width == 2 else 0)
