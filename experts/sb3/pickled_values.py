"""Arrays, numbers and spaces from the records of a pickle; only plain number types are accepted."""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from typing import Any

import numpy as np
from gymnasium import spaces

from imitate.envs.spaces import MOST_NUMBERS, Array
from imitate.errors import InputError
from imitate.experts.sb3.pickles import Global, Record

__all__ = ["to_array", "to_float", "to_space"]

_LARGEST_ARRAY = 64 << 20  # bytes
_MOST_PARTS = 256  # of a Dict


def to_array(value: Any) -> Array:
    """The NumPy array or scalar that a record describes, decoded from its bytes; also accepts plain numbers.

    Raises InputError for anything else, such as arrays of Python objects.
    """
    if isinstance(value, float) or (isinstance(value, int) and value.bit_length() < 64):
        return np.asarray(value)
    if isinstance(value, Record) and isinstance(value.function, Global):
        module, name = value.function.module, value.function.name
        if module.split(".")[0] == "numpy":
            if name == "scalar" and len(value.args) == 2:
                return _decode(value.args[1], value.args[0], (), "C")
            if name == "_reconstruct" and isinstance(value.state, tuple) and len(value.state) == 5:
                _, shape, dtype, fortran_order, raw = value.state
                return _decode(raw, dtype, shape, "F" if fortran_order is True else "C")
            if name == "_frombuffer" and len(value.args) == 4:  # pickle protocol 5
                return _decode(*value.args)
    raise InputError(
        "the pickle holds an object where an array of numbers was expected, and objects are never built"
    )


def to_float(value: Any) -> float:
    """A single number, plain or NumPy's. Raises InputError for anything else."""
    array = to_array(value)
    if array.size != 1:
        raise InputError(f"the pickle holds an array of shape {array.shape} where one number was expected")
    return float(array.reshape(()))


def _decode(raw: Any, dtype: Any, shape: Any, order: Any) -> Array:
    raw, number = _bytes_of(raw), _dtype_of(dtype)
    sizes = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    if raw is None or number is None or not sizes:
        raise InputError("the pickle holds an array that is not of plain numbers")
    if len(raw) > _LARGEST_ARRAY or len(raw) % number.itemsize:
        raise InputError(f"the pickle holds an array of {len(raw)} bytes: too many, or no whole numbers")
    array = np.frombuffer(bytes(raw), number)
    if array.size != math.prod(shape):
        raise InputError(
            f"the pickle holds {array.size} numbers for an array of shape {shape}: the file is damaged"
        )
    return array.reshape(shape, order="F" if order == "F" else "C").astype(array.dtype.newbyteorder("="))


def _bytes_of(raw: Any) -> bytes | bytearray | None:
    """The bytes of an array; None if they are something else."""
    if isinstance(raw, Record) and raw.function == Global("_codecs", "encode"):  # bytes in protocols 0 to 2
        text = raw.args[0] if raw.args else None
        return text.encode("latin1", "replace") if isinstance(text, str) else None
    return raw if isinstance(raw, bytes | bytearray) else None


def _dtype_of(record: Any) -> np.dtype[Any] | None:
    """The type of plain numbers that a record describes; None if it is something else."""
    if not (isinstance(record, Record) and record.class_name == "dtype" and record.args):
        return None
    kind, state = record.args[0], record.state if isinstance(record.state, tuple) else ()
    byte_order = state[1] if len(state) > 1 else "|"
    plain = isinstance(kind, str) and re.fullmatch(r"b1|[iu][1248]|f[248]", kind)
    return np.dtype(f"{byte_order}{kind}") if plain and byte_order in ("<", ">", "|", "=") else None


def to_space(record: Any) -> spaces.Space[Any]:
    """The space that a record describes. Raises InputError for anything else, and for spaces that are too large."""
    state = record.state if isinstance(record, Record) else None
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[0], dict):  # (dict, slots)
        state = state[0]
    if not isinstance(record, Record) or not isinstance(state, dict):
        raise InputError("not a stored space")
    kind = record.class_name
    if kind == "Box":
        low, high = to_array(state["low"]), to_array(state["high"])
        _check_size(math.prod(np.broadcast_shapes(low.shape, high.shape)))
        low, high = np.broadcast_arrays(low, high)
        return spaces.Box(low, high, low.shape, low.dtype.type)
    if kind == "Discrete":
        n = int(to_float(state["n"]))
        return spaces.Discrete(_check_size(n), start=int(to_float(state.get("start", 0))))
    if kind == "MultiDiscrete":
        sizes: Array = to_array(state["nvec"])
        _check_size(int(sizes.astype(float).sum()))
        return spaces.MultiDiscrete(sizes)
    if kind == "MultiBinary":
        shape = np.atleast_1d(to_array(state["n"])).tolist()
        _check_size(math.prod(shape))
        return spaces.MultiBinary(shape if len(shape) > 1 else shape[0])
    if kind == "Dict":
        inner = state["spaces"]
        inner = inner.items if isinstance(inner, Record) else inner
        return _dict_of(inner)
    raise InputError(f"space {kind!r} is not supported")


def _dict_of(records: Any) -> spaces.Dict:
    """A space with parts, but none that has parts itself: a file of a kilobyte can refer to each of them many times."""
    if not isinstance(records, dict) or len(records) > _MOST_PARTS:
        raise InputError(f"a stored Dict space has at most {_MOST_PARTS} parts")
    # Ordered, since gymnasium sorts a plain dict, but features are concatenated in the order of training.
    parts: OrderedDict[str, spaces.Space[Any]] = OrderedDict()
    total = 0
    for key, record in records.items():
        parts[str(key)] = part = to_space(record)
        if isinstance(part, spaces.Dict):
            raise InputError("a Dict space in a Dict space is not supported, by Stable-Baselines3 neither")
        total += _check_size(spaces.flatdim(part))
        _check_size(total)
    return spaces.Dict(parts)


def _check_size(count: int) -> int:
    if not 0 < count <= MOST_NUMBERS:
        raise InputError(f"a space of {count} numbers: wanted 1 to {MOST_NUMBERS}")
    return count
