"""Converts Arrow tables (files, streams, Parquet) to arrays and back, with checks before they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from imitate.datasets.convert.foreign import needs
from imitate.datasets.convert.pieces import marked
from imitate.datasets.storage.contain import MEMORY, contained
from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = [
    "as_table",
    "batches",
    "checked",
    "column",
    "fields",
    "files",
    "first_texts",
    "is_struct",
    "numbers",
    "parquet",
    "parquet_writer",
    "write",
]

_TOGETHER = 256  # groups of files in one child process
_TOGETHER_BYTES = 1 << 25


def batches(path: Path, *, sound: bool = False) -> Iterator[Any]:
    """The record batches of an Arrow file or stream, one at a time.

    A child process reads all of them first, so a file that crashes the reader raises InputError. `checked` has done so
    if the file is `sound`.
    """
    needs("pyarrow")  # once, before the fork
    if not sound:
        _contained(path, partial(_batches, path))
    yield from _batches(path)


def checked(groups: Iterable[Sequence[Path]]) -> Iterator[tuple[Sequence[Path], bool]]:
    """Groups of Arrow files, in order, and whether a child process could read them.

    One child reads many groups of small files, since a fork takes much longer than these. If one file of them is
    damaged, none counts as sound, and `batches` finds out which it is.
    """
    needs("pyarrow")
    held: list[Sequence[Path]] = []
    size = 0
    for group, last in marked(groups):
        held.append(group)
        size += sum(path.stat().st_size for path in group if path.is_file())
        if last or len(held) == _TOGETHER or size > _TOGETHER_BYTES:
            paths = [path for each in held for path in each]
            sound = len(paths) > 1 and _are_sound(paths, size)
            for each in held:
                yield each, sound
            held, size = [], 0


def parquet(
    path: Path, names: Sequence[str] = (), *, rows: int, optional: Sequence[str] = ()
) -> Iterator[Any]:
    """Batches of `rows` rows of a Parquet file, with the columns `names` (default: all) and those of `optional` that it
    has, checked like those of `batches`."""
    needs("pyarrow.parquet")
    read = partial(_parquet_batches, path, names, rows, optional)
    _contained(path, read)
    yield from read()


def column(table: Any, name: str) -> Any:
    """One column of a table or batch as one array. Raises InputError if it is missing."""
    if name not in table.schema.names:
        raise InputError(f"it has no column {name!r}; there are {', '.join(table.schema.names)}")
    found = table.column(name)
    return found.combine_chunks() if hasattr(found, "combine_chunks") else found


def fields(array: Any) -> dict[str, Any]:
    """The fields of a struct column. Raises InputError for another column."""
    if not is_struct(array):
        raise InputError(f"a column is {array.type}, wanted a struct")
    return {field.name: array.field(number) for number, field in enumerate(array.type)}


def is_struct(array: Any) -> bool:
    return bool(needs("pyarrow").types.is_struct(array.type))


def numbers(array: Any) -> Array:
    """An array (T,) of numbers, or (T, ...) of lists that are equally long. Raises InputError for anything else."""
    pa = needs("pyarrow")
    shape = [len(array)]
    if array.null_count:
        raise InputError("a column has empty fields")
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    while (
        pa.types.is_list(array.type)
        or pa.types.is_large_list(array.type)
        or pa.types.is_fixed_size_list(array.type)
    ):
        inside = array.flatten()
        each = len(inside) // max(1, int(np.prod(shape, dtype=np.int64)))
        lengths = None if pa.types.is_fixed_size_list(array.type) else array.value_lengths().to_numpy(False)
        if (lengths is not None and (lengths != each).any()) or inside.null_count:
            raise InputError("a column has lists of different lengths")
        shape.append(each)
        array = inside
    if not (
        pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_boolean(array.type)
    ):
        raise InputError(f"a column is {kind}, wanted numbers")
    return np.asarray(array.to_numpy(zero_copy_only=False)).reshape(shape)


def write(path: Path, columns: dict[str, Any]) -> None:
    """Write an Arrow file of one batch. Columns are arrays (T, ...), or dicts of these for structs."""
    pa = needs("pyarrow")
    batch = pa.RecordBatch.from_pydict({name: of_rows(rows) for name, rows in columns.items()})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


def of_rows(rows: Any) -> Any:
    """Arrow's form of rows: (T,) becomes an array of numbers, (T, ...) one of fixed-size lists, and a dict one of
    structs."""
    pa = needs("pyarrow")
    if isinstance(rows, dict):
        return pa.StructArray.from_arrays([of_rows(part) for part in rows.values()], names=list(rows))
    if rows.ndim == 1:
        return pa.array(rows)
    flat = pa.array(np.ascontiguousarray(rows).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, int(np.prod(rows.shape[1:])))


def as_table(columns: Mapping[str, Any]) -> Any:
    """A table of columns: arrays (T, ...), lists of plain values and arrays, or Arrow's own arrays."""
    pa = needs("pyarrow")

    def column_of(rows: Any) -> Any:
        if isinstance(rows, pa.Array):
            return rows
        return of_rows(rows) if isinstance(rows, np.ndarray) else pa.array(rows)

    return pa.table({name: column_of(rows) for name, rows in columns.items()})


def files(contents: Sequence[bytes]) -> Any:
    """A column of files, such as images, as Hugging Face's `datasets` stores them: bytes and no path."""
    pa = needs("pyarrow")
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.array([{"bytes": content, "path": None} for content in contents], kind)


def first_texts(lists: Any) -> tuple[list[str], bool]:
    """The first text of each list of texts, "" for an empty one; and whether a list has several."""
    rows = lists.to_pylist()
    if not all(isinstance(row, list) and all(isinstance(text, str) for text in row) for row in rows):
        raise InputError(f"a column is {lists.type}, wanted lists of texts")
    return [row[0] if row else "" for row in rows], any(len(row) > 1 for row in rows)


@contextmanager
def parquet_writer(path: Path, schema: Any) -> Iterator[Any]:
    """A pyarrow `ParquetWriter` of the file, closed at the end of the block."""
    writer = needs("pyarrow.parquet").ParquetWriter(str(path), schema, compression="snappy")
    try:
        with writer:
            yield writer
    finally:
        # After a full disk its destructor would close it again, and print what that raises.
        writer.is_open = False


def _contained(path: Path, read: Callable[[], Iterator[Any]]) -> None:
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    _read_in_child(read, str(path), path.stat().st_size)


def _are_sound(paths: Sequence[Path], size: int) -> bool:
    try:
        _read_in_child(lambda: chain.from_iterable(map(_batches, paths)), str(paths[0]), size)
    except Exception:  # without a fork, whatever the reader raises
        return False
    return True


def _read_in_child(read: Callable[[], Iterator[Any]], what: str, size: int) -> None:
    def read_all() -> None:
        for _ in read():
            pass

    contained(read_all, what, 10 + size / (1 << 20), MEMORY + 2 * size)


def _batches(path: Path) -> Iterator[Any]:
    pa = needs("pyarrow")
    with pa.memory_map(str(path)) as file:
        magic = file.read(6)
        file.seek(0)
        whole = pa.ipc.open_file(file) if magic == b"ARROW1" else None
        stream = (
            pa.ipc.open_stream(file)
            if whole is None
            else map(whole.get_batch, range(whole.num_record_batches))
        )
        for batch in stream:
            batch.validate(full=True)
            yield batch


def _parquet_batches(path: Path, names: Sequence[str], rows: int, optional: Sequence[str]) -> Iterator[Any]:
    pq = needs("pyarrow.parquet")
    with pq.ParquetFile(str(path)) as file:
        missing = [name for name in names if name not in file.schema_arrow.names]
        if missing:
            raise InputError(
                f"it has no column {missing[0]!r}; there are {', '.join(file.schema_arrow.names)}"
            )
        wanted = [*names, *(name for name in optional if name in file.schema_arrow.names)]
        for batch in file.iter_batches(rows, columns=wanted or None, use_threads=False):
            batch.validate(full=True)
            yield batch
