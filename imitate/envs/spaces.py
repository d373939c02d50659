"""Spaces: which are supported, and how they are stored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from imitate.errors import InputError, one_line

__all__ = ["Array", "Space", "check_supported", "space_from_json", "space_to_json"]

_LARGEST = 1 << 22  # numbers in an observation, or discrete actions; four Atari frames have 28,224 numbers

Array = npt.NDArray[Any]
Space = spaces.Space[Any]


def check_supported(observation_space: Space, action_space: Space) -> None:
    """Raise InputError, naming the space, for unsupported spaces.

    Observations must be Box or Discrete, and actions Discrete or a bounded, flat Box of floats.
    """
    if not isinstance(observation_space, spaces.Box | spaces.Discrete):
        raise InputError(
            f"observation space {_name(observation_space)} is not supported: wanted Box or Discrete; "
            "wrap the environment, e.g. with gymnasium.wrappers.FlattenObservation"
        )
    if isinstance(action_space, spaces.Discrete):
        return
    if not isinstance(action_space, spaces.Box):
        raise InputError(
            f"action space {_name(action_space)} is not supported: wanted Discrete or Box; wrap the environment"
        )
    if len(action_space.shape) != 1 or action_space.dtype.kind != "f" or not action_space.is_bounded():
        raise InputError(
            f"action space {action_space} is not supported: a Box of actions must be flat, of floats and bounded; "
            "wrap the environment, e.g. with gymnasium.wrappers.RescaleAction"
        )


def space_to_json(space: Space) -> dict[str, Any]:
    """A Box or Discrete space as plain data; equal bounds are stored as one number."""
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.Box):
        low, high = _compact(space.low), _compact(space.high)
        return {
            "type": "Box",
            "low": low,
            "high": high,
            "shape": list(space.shape),
            "dtype": str(space.dtype),
        }
    raise InputError(f"space {_name(space)} can't be stored: wanted Box or Discrete")


def space_from_json(data: Mapping[str, Any]) -> Space:
    """The space that `space_to_json` described. Raises InputError for an invalid description."""
    try:
        if data["type"] == "Discrete":
            _check_size(int(data["n"]))
            return spaces.Discrete(int(data["n"]), start=int(data["start"]))
        shape, dtype = tuple(map(int, data["shape"])), np.dtype(str(data["dtype"]))
        _check_size(math.prod(shape))
        if dtype.kind not in "biuf":
            raise InputError(f"not the description of a space: {dtype} is no type of numbers")
        low, high = (np.broadcast_to(np.asarray(data[key], dtype), shape) for key in ("low", "high"))
        return spaces.Box(low, high, shape, dtype.type)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, AssertionError) as error:
        raise InputError(f"not the description of a space: {one_line(error)}") from error


def _check_size(count: int) -> None:
    if not 0 < count <= _LARGEST:
        raise InputError(f"not the description of a space: {count} numbers, wanted 1 to {_LARGEST}")


def _compact(bounds: Array) -> Any:
    # Strict JSON has no infinity, but NumPy reads it from text.
    plain = np.where(np.isinf(bounds), bounds.astype(str).astype(object), bounds.astype(object))
    return plain.flat[0] if (bounds == bounds.flat[0]).all() else plain.tolist()


def _name(space: Space) -> str:
    return type(space).__name__
