"""Opens foreign HDF5 files with the same care as our own."""

from __future__ import annotations

import json
import os
from array import array as array_of
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from imitate.datasets.storage.columns import row_bytes
from imitate.datasets.storage.contain import contained_once
from imitate.datasets.storage.damage import damaged
from imitate.datasets.storage.layout import claim
from imitate.datasets.storage.opening import check_storage
from imitate.datasets.storage.schema import FORMAT
from imitate.datasets.storage.superblock import SIGNATURE, SIZE, being_written
from imitate.envs.fields import Fields, leaves
from imitate.envs.spaces import Array, Space
from imitate.errors import InputError

__all__ = [
    "array",
    "check_names",
    "create_hdf5",
    "dataset",
    "extend",
    "group",
    "is_hdf5",
    "json_object",
    "open_hdf5",
    "reserve",
    "rows_of",
    "text",
    "texts",
]

_ROOM = 4 << 20  # bytes for a chunk that is written again, and for HDF5's own tables
_MOST_OBJECTS = 1 << 22
_BYTES_A_SECOND = 1 << 20  # a slow disk and many small objects; bounds how long a damaged file may take
_LARGEST_SCALAR = 1 << 20
_MOST_TEXT = 1 << 24
_LARGEST_READ = 1 << 27


def is_hdf5(path: Path) -> bool:
    """True if it is an HDF5 file without an active writer; a file that is being written is our own."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(SIZE)
    return start.startswith(SIGNATURE) and not being_written(start)


@contextmanager
def create_hdf5(path: Path, **options: Any) -> Iterator[h5py.File]:
    """A new file, to which `extend` adds rows. Raises OSError if the disk is full."""
    path.touch()
    claim(path, _ROOM)
    with h5py.File(path, "w", **options) as file:
        reserve(file, 0)
        yield file
        file.flush()
        size = file.id.get_filesize()
    os.truncate(path, size)


def reserve(parent: h5py.Group, nbytes: int) -> None:
    """Claim room for that many bytes more. Raises OSError if the disk is full, of which HDF5 would crash."""
    path = Path(parent.file.filename)
    end = parent.file.id.get_filesize() + 2 * nbytes + _ROOM
    if path.stat().st_size < end:
        claim(path, end + _ROOM)


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """Open a file after a child process has checked every object: no data outside the file, no plugins, and no more
    than it can hold.

    Raises InputError if the file is damaged, also for errors while it is open.
    """
    if not is_hdf5(path):
        raise InputError(f"{path} is no HDF5 file; check the path")
    contained_once(_check, path, 10 + path.stat().st_size / _BYTES_A_SECOND)
    with damaged(path, "it"), h5py.File(path, "r") as file:
        yield file


def group(parent: h5py.Group, name: str) -> h5py.Group:
    """A group. Raises InputError if it is missing or something else."""
    found = parent.get(name)
    if not isinstance(found, h5py.Group):
        raise InputError(f"it has no group {parent.name.rstrip('/')}/{name}")
    return found


def dataset(parent: h5py.Group, name: str) -> h5py.Dataset:
    """A dataset of numbers. Raises InputError if it is missing or something else."""
    found = parent.get(name)
    if not isinstance(found, h5py.Dataset) or found.ndim < 1 or found.dtype.kind not in "biuf":
        raise InputError(f"it has no rows of numbers at {parent.name.rstrip('/')}/{name}")
    return found


def rows_of(parent: h5py.Group, name: str, count: int) -> h5py.Dataset:
    """A dataset of `count` rows of numbers. Raises InputError if it is missing or something else."""
    found = dataset(parent, name)
    if len(found) != count:
        raise InputError(f"{found.name} has {len(found)} rows, wanted {count}")
    return found


def array(rows: h5py.Dataset, start: int = 0, stop: int | None = None) -> Array:
    """Rows [start, stop) of a dataset. Raises InputError if there are fewer, or too many to be read at once."""
    stop = len(rows) if stop is None else stop
    nbytes = (stop - start) * row_bytes(rows)
    if nbytes > _LARGEST_READ:
        raise InputError(f"{rows.name} has {nbytes} bytes in a piece, over the limit of {_LARGEST_READ}")
    if len(rows) < stop:
        raise InputError(f"{rows.name} has {len(rows)} rows, wanted {stop}")
    read: Array = rows[start:stop]
    return read.astype(read.dtype.newbyteorder("="), copy=False)


def extend(
    parent: h5py.Group, name: str, rows: Array, *, fixed: bool = False, chunk_rows: int | None = None
) -> None:
    """Append rows to a dataset, which is created if missing. Pixels are compressed.

    fixed       no rows will follow
    chunk_rows  rows of a chunk; None: h5py chooses

    Raises OSError if the disk is full.
    """
    reserve(parent, rows.nbytes)
    if name in parent:
        column = parent[name]
        column.resize(len(column) + len(rows), axis=0)
        column[len(column) - len(rows) :] = rows
        return
    shape = rows.shape[1:]
    chunks = True if chunk_rows is None else (chunk_rows, *shape)
    growing: dict[str, Any] = {} if fixed else {"chunks": chunks, "maxshape": (None, *shape)}
    packed = "gzip" if rows.ndim > 2 and rows.dtype == np.uint8 else None
    parent.create_dataset(name, data=rows, compression=packed, **growing)


def texts(parent: h5py.Group, name: str) -> list[str]:
    """A column of texts of a fixed size. Raises InputError if it is missing or something else."""
    found = parent.get(name)
    if (
        not isinstance(found, h5py.Dataset)
        or found.ndim != 1
        or found.size * found.dtype.itemsize > _MOST_TEXT
    ):
        raise InputError(f"it has no list of names at {parent.name.rstrip('/')}/{name}")
    if found.dtype.kind != "S":
        raise InputError(f"{parent.name.rstrip('/')}/{name} holds {found.dtype}, wanted names")
    return [value.decode("utf-8", "replace") for value in found[:]]


def text(parent: h5py.Group | h5py.Dataset, name: str) -> str | None:
    """A text stored as an attribute or as a scalar; None if there is none. Raises InputError if it is very long."""
    value: Any = None
    if name in parent.attrs and parent.attrs.get_id(name).shape == ():
        value = parent.attrs[name]
    elif (
        isinstance(parent, h5py.Group)
        and isinstance(found := parent.get(name), h5py.Dataset)
        and found.shape == ()
    ):
        value = found[()]
    value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if isinstance(value, str) and len(value) > _MOST_TEXT:
        raise InputError(
            f"{name} of {parent.name} has {len(value)} characters, over the limit of {_MOST_TEXT}; shorten it"
        )
    return value if isinstance(value, str) else None


def json_object(parent: h5py.Group, name: str) -> dict[str, Any]:
    """The JSON object in a text; {} if there is no such text. Raises InputError if the text is anything else."""
    try:
        data = json.loads(text(parent, name) or "{}")
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise InputError(f"its {name} is no JSON object; restore it or make it again")
    return data


def _check(path: Path) -> None:
    size = path.stat().st_size
    with damaged(path, "it"), h5py.File(path, "r") as file:
        ours = file.attrs.get("format") == FORMAT  # only our own reader reads these
        places = array_of("Q", [h5py.h5o.get_info(file.id).addr])

        def look(name: str, link: Any) -> str | None:
            """The fault of an object. Returning it ends the visit, since HDF5 does not pass exceptions on."""
            if len(places) > _MOST_OBJECTS:
                return f"it has more than {_MOST_OBJECTS} objects"
            if not isinstance(link, h5py.HardLink):
                return f"{name!r} is a link to another place; links are not followed: copy the data in"
            found = file[name]
            places.append(h5py.h5o.get_info(found.id).addr)
            try:
                _check_texts(found)
                if isinstance(found, h5py.Dataset):
                    _check_dataset(found, name, size, zstd=ours and name == "obs")
            except InputError as error:
                return str(error)
            return None

        _check_texts(file)
        problem = file.visititems_links(look)
        if problem is not None:
            raise InputError(problem)
        # Otherwise a megabyte could hold ten thousand episodes of thousands of columns, which take hours to open.
        if len(np.unique(places)) < len(places):
            raise InputError("an object in it has two names (hard links): copy it instead")


def _check_texts(found: h5py.Group | h5py.Dataset) -> None:
    """Read the texts among the attributes, whose sizes are in the data."""
    for name in found.attrs:
        with suppress(TypeError):  # of a type that NumPy lacks, so nobody reads it
            if h5py.check_string_dtype(found.attrs.get_id(name).dtype) is not None:
                text(found, name)


def _check_dataset(found: h5py.Dataset, name: str, size: int, *, zstd: bool) -> None:
    if found.shape is None:  # h5py.Empty
        return
    if found.ndim >= 1:
        check_storage(found, name, size, zstd=zstd)
    elif found.dtype.itemsize > _LARGEST_SCALAR:
        raise InputError(f"{name!r} is one value of {found.dtype.itemsize} bytes")
    if h5py.check_vlen_dtype(found.dtype) is not None or h5py.check_string_dtype(found.dtype) is not None:
        # Their sizes are in the data, so the child reads them once to see that it can.
        for row in range(len(found)) if found.ndim else [()]:
            found[row]


def check_names(space: Space) -> None:
    """Raise InputError if HDF5 would take the name of a part of Dict observations for another place."""
    names = [name for name, *_ in leaves(space)] if isinstance(space, Fields) else []
    for name in names:
        if {"", ".", ".."} & {*name.split("/")} or any(other.startswith(f"{name}/") for other in names):
            raise InputError(
                f"the part {name!r} of the observations has a name that HDF5 takes for another place: rename it"
            )
