"""Arrays of an `.npz` archive as columns, which are read and written row by row from first to last."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from imitate.datasets.convert.ends import as_flags
from imitate.datasets.convert.pieces import side_by_side
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.files import open_zip

__all__ = ["Column", "Grown", "Joined"]

_MOST_STEPS = 1 << 32
_LARGEST_READ = 1 << 27


class Column:
    """An array in the archive. Raises InputError if it does not hold numbers, or is empty."""

    def __init__(self, path: Path, member: str) -> None:
        self._path, self.member = path, member
        with path.open("rb") as whole, open_zip(whole) as archive, archive.open(member) as file:
            kind = archive.getinfo(member).compress_type
            if kind not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(f"{member} uses compression method {kind}, wanted deflate or none")
            shape, self.dtype = _header(file, member)
            held = archive.getinfo(member).file_size
        if not shape or 0 in shape:
            raise InputError(f"{member} has shape {shape}, wanted rows of numbers")
        self.rows, self.shape = shape[0], shape[1:]
        self.row_bytes = self.dtype.itemsize * int(np.prod(self.shape, dtype=object))
        if self.rows * self.row_bytes > held:
            raise InputError(f"{member} claims {self.rows * self.row_bytes} bytes and has {held}")
        self._file: IO[bytes] | None = None

    @contextmanager
    def opened(self) -> Iterator[Column]:
        with self._path.open("rb") as whole, open_zip(whole) as archive, archive.open(self.member) as file:
            _header(file, self.member)
            self._file = file
            yield self

    def take(self, rows: int) -> Array:
        """The next rows."""
        assert self._file is not None
        nbytes = rows * self.row_bytes
        if nbytes > _LARGEST_READ:
            raise InputError(f"{self.member} has {nbytes} bytes, over the limit of {_LARGEST_READ}")
        data = self._file.read(nbytes)
        if len(data) != nbytes:
            raise InputError(f"{self.member} ends early; restore it or make it again")
        array = np.frombuffer(data, self.dtype).reshape(rows, *self.shape)
        return array.astype(self.dtype.newbyteorder("="), copy=False)


class Joined:
    """Columns side by side: one stays as it is, several form rows (n, D)."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self.rows = columns[0].rows
        self.row_bytes = sum(column.row_bytes for column in columns)
        for column in columns:
            if column.rows != self.rows:
                raise InputError(
                    f"{column.member} has {column.rows} rows, {columns[0].member} has {self.rows}"
                )

    @contextmanager
    def opened(self) -> Iterator[Joined]:
        with ExitStack() as stack:
            for column in self._columns:
                stack.enter_context(column.opened())
            yield self

    def take(self, rows: int) -> Array:
        """The next rows."""
        return side_by_side([column.take(rows) for column in self._columns])

    def take_flags(self, rows: int) -> Array:
        """The next rows of a single column of flags."""
        return as_flags(self.take(rows).reshape(-1), self._columns[0].member.removesuffix(".npy"))

    def whole_numbers(self) -> Array:
        """All rows (rows,) int64 of a single column of whole numbers. Raises InputError if one is not whole."""
        self.require(self.rows)
        with self.opened():
            numbers = self.take(self.rows).reshape(-1)
        with np.errstate(invalid="ignore"):
            rounded = numbers.astype(np.int64)
        if (wrong := rounded != numbers).any():
            raise InputError(
                f"{self._columns[0].member} holds {numbers[wrong.argmax()]}, wanted whole numbers: correct it"
            )
        return rounded

    def require(self, rows: int) -> None:
        """Raise InputError unless it has one number for each of `rows` rows."""
        for column in self._columns:
            if len(self._columns) > 1 or column.rows != rows or column.shape not in ((), (1,)):
                raise InputError(
                    f"{column.member} has shape {(column.rows, *column.shape)}, wanted ({rows},)"
                )


class Grown:
    """A .npy file whose number of rows is known only at the end."""

    def __init__(self, path: Path, first: Array) -> None:
        self.path, self._first, self._rows = path, first, 0

    @contextmanager
    def opened(self) -> Iterator[Grown]:
        with self.path.open("wb") as self._file:
            self._write_header()
            yield self
            self._file.seek(0)
            self._write_header()  # as long as before, since NumPy leaves room for the first dimension to grow

    def append(self, rows: Array) -> None:
        self._file.write(np.ascontiguousarray(rows).tobytes())
        self._rows += len(rows)

    def _write_header(self) -> None:
        shape = (self._rows, *self._first.shape[1:])
        described = {"descr": self._first.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, described)


def _header(file: IO[bytes], member: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version != (1, 0):  # NumPy writes others for headers above 64 KiB, which no array of numbers has
        raise InputError(f"{member} is of version {version}, wanted 1.0")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject:
        raise InputError(
            f"{member} holds Python objects, which are never unpickled: wanted one array of numbers, with the rows of "
            "all episodes one after another"
        )
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise InputError(f"{member} holds {dtype}: wanted numbers")
    if fortran and len(shape) > 1:
        raise InputError(f"{member} is in Fortran order: save np.ascontiguousarray of it")
    if shape and not 0 <= shape[0] <= _MOST_STEPS:
        raise InputError(f"{member} claims {shape[0]} rows")
    if any(size < 0 for size in shape):  # reading a negative number of bytes would read all of them
        raise InputError(f"{member} claims the shape {shape}: wanted no negative sizes")
    return shape, dtype
