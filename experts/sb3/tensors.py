"""Reads a policy saved by `torch.save` as data: named tensors of plain numbers, and nothing else.

Torch's own loader is not used on foreign files: even with `weights_only=True` it allocates whatever size a file claims,
and it had vulnerabilities (CVE-2025-32434, CVE-2026-24747). Both of torch's formats are read: the zip, and the pickles
written before torch 1.6.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from imitate.errors import InputError
from imitate.experts.sb3.pickles import Global, Persistent, Record, read_pickle
from imitate.files import open_zip

__all__ = ["LARGEST_WEIGHTS", "read_member", "read_tensors"]

LARGEST_WEIGHTS = 128 << 20  # bytes; the zoo's largest policy takes 30 MB
_MOST_TENSORS = 10_000
_CHUNK = 1 << 20
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C

_DTYPES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}


def read_member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """A member of at most `limit` bytes, stored or deflated. Its bytes are counted, since the header's size may lie."""
    info = archive.getinfo(name)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(
            f"{name!r} is compressed with method {info.compress_type}: only stored and deflated are read"
        )
    if info.file_size > limit:
        raise InputError(f"{name!r} says it has {info.file_size} bytes, over the limit of {limit}")
    content = bytearray()
    with archive.open(info) as stream:
        while chunk := stream.read(_CHUNK):
            content += chunk
            if len(content) > limit:
                raise InputError(f"{name!r} has more than the {limit} bytes that are the limit")
    return bytes(content)


def read_tensors(data: bytes) -> dict[str, Tensor]:
    """The named tensors in the bytes of a `policy.pth`, on the CPU.

    Raises InputError for anything but plain, dense tensors by name, and for tensors larger than the stored data.
    """
    content, stored = _read_zip(data) if zipfile.is_zipfile(io.BytesIO(data)) else _read_legacy(data)
    named = content.items if isinstance(content, Record) and content.class_name == "OrderedDict" else content
    if not isinstance(named, dict) or not all(isinstance(name, str) for name in named):
        raise InputError("it holds no dictionary of tensors by name")
    if len(named) > _MOST_TENSORS:
        raise InputError(f"it holds {len(named)} tensors, over the limit of {_MOST_TENSORS}")
    tensors, total = dict[str, Tensor](), 0
    for name, value in named.items():
        tensors[name] = _tensor(value, stored)
        # Several names may share the same bytes, but each is copied when the networks are built.
        total += tensors[name].numel() * tensors[name].element_size()
        if total > LARGEST_WEIGHTS:
            raise InputError(f"its tensors have more than the {LARGEST_WEIGHTS} bytes that are the limit")
    return tensors


ReadStorage = Callable[[str, torch.dtype], Tensor]


def _read_zip(data: bytes) -> tuple[Any, ReadStorage]:
    archive = open_zip(io.BytesIO(data))
    pickles = [name for name in archive.namelist() if name.endswith("/data.pkl") or name == "data.pkl"]
    if len(pickles) != 1:
        raise InputError(f"it has {len(pickles)} members data.pkl where torch writes one")
    folder = pickles[0].removesuffix("data.pkl")
    order = f"{folder}byteorder"
    if order in archive.namelist() and read_member(archive, order, 16) != b"little":
        raise InputError("it was written on a machine with another byte order")

    def stored(key: str, dtype: torch.dtype) -> Tensor:
        return _flat(read_member(archive, f"{folder}data/{key}", LARGEST_WEIGHTS), dtype)

    return read_pickle(read_member(archive, pickles[0], _CHUNK)), _once(stored)


def _read_legacy(data: bytes) -> tuple[Any, ReadStorage]:
    stream = io.BytesIO(data)
    if read_pickle(stream) != _LEGACY_MAGIC:
        raise InputError("it is not a file of torch.save")
    read_pickle(stream), read_pickle(stream)  # protocol version and the machine's type sizes
    content = read_pickle(stream)
    keys = read_pickle(stream)
    types = _storage_types(content)
    if not isinstance(keys, list) or not all(isinstance(key, str) and key in types for key in keys):
        raise InputError("its list of storages is damaged")
    storages = {key: _flat(_legacy_storage(stream, types[key]), types[key]) for key in keys}
    return content, lambda key, _: storages[key]


def _legacy_storage(stream: BinaryIO, dtype: torch.dtype) -> bytes:
    count = int.from_bytes(stream.read(8), "little", signed=True)
    if not 0 <= count * dtype.itemsize <= LARGEST_WEIGHTS:
        raise InputError(f"a tensor of {count} numbers is over the limit of {LARGEST_WEIGHTS} bytes")
    content = stream.read(count * dtype.itemsize)
    if len(content) != count * dtype.itemsize:
        raise InputError("its tensors are cut off: the file is truncated")
    return content


def _storage_types(content: Any) -> dict[str, torch.dtype]:
    """The dtype of each storage that the tensors refer to."""
    named = content.items if isinstance(content, Record) else content
    values = named.values() if isinstance(named, dict) else []
    return dict(_reference(value) for value in values)


def _reference(value: Any) -> tuple[str, torch.dtype]:
    """The key and the dtype of a tensor's storage."""
    rebuilt = isinstance(value, Record) and value.function == Global("torch._utils", "_rebuild_tensor_v2")
    if not rebuilt or len(value.args) < 4:
        raise InputError(
            "it holds objects that only code could load, or tensors that are not plain and dense"
        )
    storage: Any = value.args[0].id if isinstance(value.args[0], Persistent) else None
    is_named = isinstance(storage, tuple) and len(storage) >= 5 and storage[0] == "storage"
    if not is_named or not isinstance(storage[2], str):
        raise InputError("a tensor refers to no storage of its file")
    kind = storage[1].name if isinstance(storage[1], Global) and storage[1].module == "torch" else None
    if kind not in _DTYPES:
        raise InputError(f"a tensor is of {kind or 'something'} that is no plain number")
    return storage[2], _DTYPES[kind]


def _tensor(value: Any, stored: ReadStorage) -> Tensor:
    key, dtype = _reference(value)
    offset, shape, stride = value.args[1:4]
    sizes = (offset, *shape, *stride) if isinstance(shape, tuple) and isinstance(stride, tuple) else ()
    if len(sizes) != 2 * len(shape or ()) + 1 or not all(
        type(size) is int and 0 <= size < 2**40 for size in sizes
    ):
        raise InputError("a tensor has a damaged shape")
    flat = stored(key, dtype)
    count = math.prod(shape)
    last = offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    if count > len(flat) or (count and last >= len(flat)) or flat.dtype != dtype or len(shape) > 8:
        raise InputError("it holds tensors larger than their data, or of two types at once")
    if not count:
        return torch.empty((0,), dtype=dtype)
    return flat.as_strided(shape, stride, offset)


def _flat(content: bytes, dtype: torch.dtype) -> Tensor:
    if not content or len(content) % dtype.itemsize:
        return torch.empty(0, dtype=dtype)
    return torch.from_numpy(np.frombuffer(content, np.uint8).copy()).view(dtype)


def _once(read: ReadStorage) -> ReadStorage:
    """Wrap `read` so that each storage is read only once, since tensors may share one."""
    found: dict[str, Tensor] = {}

    def stored(key: str, dtype: torch.dtype) -> Tensor:
        if key not in found:
            if sum(tensor.nbytes for tensor in found.values()) > LARGEST_WEIGHTS:
                raise InputError(f"its tensors have more than the {LARGEST_WEIGHTS} bytes that are the limit")
            found[key] = read(key, dtype)
        return found[key]

    return stored
