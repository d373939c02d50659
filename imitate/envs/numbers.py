"""Checks of numbers, that they are finite and that a space holds them; and numbers as one-hot vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

__all__ = ["Array", "Space", "all_finite", "finite_rows", "indicators", "misfit", "strays", "values_of"]

Array = npt.NDArray[Any]
Space = spaces.Space[Any]


def values_of(space: Space) -> tuple[Any, Any] | None:
    """The first value and the number of values: ints for Discrete; arrays with one entry per part for MultiDiscrete and
    MultiBinary; None for a Box."""
    if isinstance(space, spaces.Discrete):
        return int(space.start), int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start.astype(np.int64), space.nvec.astype(np.int64)
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape, np.int64), np.full(space.shape, 2)
    return None


def strays(space: Space, values: Array) -> Array:
    """Mask (..., *shape) of the numbers (..., *shape) that are below or above those of a space without parts; NaN is
    neither."""
    if isinstance(space, spaces.Box):
        return np.asarray((values < space.low) | (values > space.high))
    discrete = values_of(space)
    assert discrete is not None
    first, count = discrete
    return np.asarray((values < first) | (values >= first + count))


def misfit(array: Array, space: Space) -> str:
    """The reason why numbers can't be whole numbers of a space, for a message; empty if they can.

    A picture of bytes takes no floats at all: one in [0, 1] would become black, and a 1.0 in it may mean 255.
    """
    wanted = np.dtype(space.dtype)
    if wanted.kind not in "iub" or array.dtype == wanted or not array.size:
        return ""
    if array.dtype.kind == "f":
        if wanted == np.uint8 and isinstance(space, spaces.Box):
            return f"is {array.dtype}, wanted {wanted} (cast it; multiply a picture in [0, 1] by 255 first)"
        array = np.atleast_1d(array)
        whole = np.isfinite(array)
        whole[whole] = array[whole] % 1 == 0
        if not whole.all():
            return f"holds {array[~whole][0]:g}: wanted whole numbers of {space}"
    least, most = (0, 1) if wanted.kind == "b" else (np.iinfo(wanted).min, np.iinfo(wanted).max)
    outside = array[(array < least) | (array > most)] if array.dtype.kind != "b" else array[:0]
    return f"holds {outside[0]:g}: wanted {wanted}, {least} to {most}" if outside.size else ""


def all_finite(array: Array) -> bool:
    """True if no number in the array, or in its fields, is NaN or infinite."""
    if array.dtype.names is not None:
        return all(all_finite(array[name]) for name in array.dtype.names)
    if array.dtype.kind != "f":
        return True
    # The sum of squares is NaN or infinite if a number is, or if it overflows. It takes a third of the time, where BLAS
    # takes the array as it is.
    fast = array.flags.c_contiguous and array.itemsize in (4, 8)
    return (fast and math.isfinite(np.vdot(array, array))) or bool(np.isfinite(array).all())


def finite_rows(array: Array, lead: int) -> Array:
    """Mask, of the first `lead` axes, of where no number in the array, or in its fields, is NaN or infinite."""
    finite = np.ones(array.shape[:lead], bool)
    for part in [array] if array.dtype.names is None else [array[name] for name in array.dtype.names]:
        if part.dtype.names is not None:
            finite &= finite_rows(part, lead)
        elif part.dtype.kind == "f":
            finite &= np.isfinite(part).all(axis=tuple(range(lead, part.ndim)))
    return finite


def indicators(values: Any, first: int, count: int, dtype: npt.DTypeLike) -> Array:
    """Numbers (...,) from `first` on to one-hot vectors (..., count). Indexing the identity would make all `count`."""
    places = np.asarray(values) - first
    found = np.zeros((*places.shape, count), dtype)
    found.reshape(-1, count)[np.arange(places.size), places.ravel()] = 1
    return found
