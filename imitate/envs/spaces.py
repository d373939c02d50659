"""Spaces: checks which are supported, and stores them as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from imitate.envs.fields import LEAVES, Fields, as_fields, leaves
from imitate.envs.numbers import Array, Space, values_of
from imitate.errors import InputError, one_line

__all__ = [
    "MOST_NUMBERS",
    "Array",
    "Space",
    "beyond",
    "center_and_scale",
    "check_plain",
    "check_supported",
    "is_plain",
    "kind",
    "lowest_actions",
    "multi_discrete",
    "random_observations",
    "space_from_json",
    "space_to_json",
    "uniform_actions",
    "values_of",
]

MOST_NUMBERS = 1 << 22
"""Numbers in an observation, or discrete actions. Four Atari frames have 28,224 numbers."""
_OBSERVATIONS = "Box, Discrete, MultiDiscrete, MultiBinary, or Dict or Tuple of these"
_ACTIONS = "Discrete, MultiDiscrete, MultiBinary, Tuple of these, or Box"


def uniform_actions(space: Space, count: int, rng: np.random.Generator) -> Array:
    """`count` random actions (count, *action_shape), uniform over the space."""
    shape = (count, *(space.shape or ()))
    if (discrete := values_of(space)) is not None:
        first, values = discrete
        return np.asarray(rng.integers(values, size=shape) + first, space.dtype)
    assert isinstance(space, spaces.Box)
    return rng.uniform(space.low, space.high, shape).astype(space.dtype)


def lowest_actions(space: Space, steps: int) -> Array:
    """The lowest action of the space, (steps, *action_shape): it stands where the action is unknown."""
    discrete = values_of(space)
    lowest = space.low if discrete is None else discrete[0]  # type: ignore[attr-defined]
    return np.broadcast_to(lowest, (steps, *(space.shape or ()))).astype(space.dtype)


def random_observations(space: Space, count: int, rng: np.random.Generator) -> Any:
    """Random observations (count, *obs_shape), for a Dict a dict of them.

    Real numbers are normal, clipped to the bounds.
    """
    if isinstance(space, spaces.Dict):
        return {name: random_observations(part, count, rng) for name, part in space.items()}
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        numbers = rng.normal(scale=2.0, size=(count, *space.shape))
        return np.clip(numbers, space.low, space.high).astype(space.dtype)
    if isinstance(space, spaces.Box):
        return rng.integers(space.low, space.high, (count, *space.shape), space.dtype, endpoint=True)
    space.seed(int(rng.integers(2**31)))
    return np.stack([np.asarray(space.sample()) for _ in range(count)])


def multi_discrete(parts: Sequence[Space]) -> spaces.MultiDiscrete:
    """The actions of a Tuple of these parts, side by side. Raises InputError if a part is not discrete."""
    values = [one for part in parts if (one := values_of(part)) is not None]
    if not values or len(values) < len(parts):
        raise InputError(
            f"action space Tuple of {', '.join(map(_name, parts))} is not supported: wanted Discrete, MultiDiscrete "
            "and MultiBinary in it; wrap the environment"
        )
    first, count = (np.concatenate([np.ravel(one[place]) for one in values]) for place in (0, 1))
    return spaces.MultiDiscrete(count, start=first)


def check_supported(observation_space: Space, action_space: Space) -> None:
    """Raise InputError, naming the space, for unsupported spaces.

    Observations must be Box, Discrete, MultiDiscrete, MultiBinary, or Dict or Tuple of these; actions Discrete, flat
    MultiDiscrete or MultiBinary, or a bounded, flat Box of floats.
    """
    if not isinstance(as_fields(observation_space), LEAVES | Fields):
        raise InputError(
            f"observation space {_name(observation_space)} is not supported: wanted {_OBSERVATIONS}; "
            "wrap the environment, e.g. with gymnasium.wrappers.FlattenObservation"
        )
    known = as_fields(observation_space)
    parts = [part for _, part, _ in leaves(known)] if isinstance(known, Fields) else [known]
    for name, space in (*(("observation", part) for part in parts), ("action", action_space)):
        if 0 in (space.shape or ()):
            raise InputError(f"{name} space {space} has no numbers: give it at least one")
    if isinstance(action_space, spaces.Discrete):
        return
    if not isinstance(action_space, LEAVES):
        raise InputError(
            f"action space {_name(action_space)} is not supported: wanted {_ACTIONS}; wrap the environment"
        )
    if len(action_space.shape or ()) != 1:
        raise InputError(
            f"action space {action_space} is not supported: it must be flat; wrap the environment"
        )
    if not isinstance(action_space, spaces.Box):
        return
    if action_space.dtype.kind != "f" or not action_space.is_bounded():
        raise InputError(
            f"action space {action_space} is not supported: a Box of actions must be flat, of floats and bounded; "
            "give the environment's action_space the finite bounds that it has"
        )


def is_plain(*given: Space) -> bool:
    """True if all of these spaces are Box or Discrete."""
    return all(isinstance(as_fields(space), spaces.Box | spaces.Discrete) for space in given)


def check_plain(learner: str, observation_space: Space, action_space: Space) -> None:
    """Raise InputError, naming the learner, unless both spaces are Box or Discrete."""
    for what, space in (("observations", as_fields(observation_space)), ("actions", action_space)):
        if not is_plain(space):
            name, remedy = _name(space), "or wrap the environment"
            if isinstance(space, Fields):
                name = "Dict or Tuple"
                remedy = (
                    "wrap the environment with gymnasium.wrappers.FlattenObservation, or take some of a data set's in "
                    "one array with `imitate data convert --obs-keys`"
                )
            raise InputError(
                f"{learner} does not take {name} {what}: choose bc or dagger, which do, {remedy}"
            )


def kind(space: Space) -> str:
    """The space without its bounds and without the width of floats, such as "Box(4,) of floats".

    A policy fits an environment if the kinds of their spaces are equal: observations are converted, actions clipped.
    """
    space = as_fields(space)
    if isinstance(space, Fields):
        return f"Dict({', '.join(f'{name}: {kind(part)}' for name, part in space.items())})"
    if isinstance(space, spaces.Box):
        return f"Box{space.shape} of {'floats' if space.dtype.kind == 'f' else space.dtype}"
    if isinstance(space, spaces.MultiBinary):
        return f"MultiBinary({list(space.shape)})"
    if (values := values_of(space)) is not None:
        first, count = (np.asarray(each).tolist() for each in values)
        return f"{type(space).__name__}({count}{f', start={first}' if np.any(first) else ''})"
    return str(space)


def beyond(trained: Space, space: Space) -> bool:
    """True if actions of the first Box may leave the second, of the same shape. Rounding doesn't count."""
    if (
        not isinstance(trained, spaces.Box)
        or not isinstance(space, spaces.Box)
        or trained.shape != space.shape
    ):
        return False
    coarser = min(trained.dtype, space.dtype, key=lambda dtype: dtype.itemsize)
    low, high, least, most = (
        bound.astype(coarser) for bound in (trained.low, trained.high, space.low, space.high)
    )
    return bool((low < least).any() or (high > most).any())


def center_and_scale(space: spaces.Box) -> tuple[Array, Array]:
    """The middle and half the range (D,) of actions. `center + scale * unit` is within the bounds for each unit in
    [-1, 1]: where rounding would leave them, the scale is a trifle smaller."""
    low, high = space.low, space.high
    # A sum or difference of large bounds is infinite, and half of the smallest number is 0.
    center, scale = np.clip(high / 2 + low / 2, low, high), high / 2 - low / 2
    beyond = (center + scale > high) | (center - scale < low)
    scale = np.where(beyond, np.minimum(high - center, center - low), scale)
    while (beyond := (center + scale > high) | (center - scale < low)).any():
        scale = np.where(beyond, np.nextafter(scale, scale.dtype.type(0)), scale)
    return center, scale


def space_to_json(space: Space) -> dict[str, Any]:
    """A supported space as plain data; equal bounds are stored as one number."""
    if isinstance(space, Fields):
        return {"type": "Dict", "spaces": {name: space_to_json(part) for name, part in space.items()}}
    if isinstance(space, spaces.Discrete):
        dtype = {} if space.dtype == np.int64 else {"dtype": str(space.dtype)}
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start), **dtype}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(space.n)}
    if isinstance(space, spaces.MultiDiscrete):
        return {
            "type": "MultiDiscrete",
            "nvec": space.nvec.tolist(),
            "start": space.start.tolist(),
            "dtype": str(space.dtype),
        }
    if isinstance(space, spaces.Box):
        low, high = _compact(space.low), _compact(space.high)
        return {
            "type": "Box",
            "low": low,
            "high": high,
            "shape": list(space.shape),
            "dtype": str(space.dtype),
        }
    raise InputError(f"space {_name(space)} can't be stored: wanted {_OBSERVATIONS}")


def space_from_json(data: Mapping[str, Any]) -> Space:
    """The space that `space_to_json` described. Raises InputError for an invalid description."""
    try:
        if data["type"] == "Dict":
            space = Fields({name: space_from_json(part) for name, part in data["spaces"].items()})
            _check_size(sum(math.prod(part.shape or ()) for _, part, _ in leaves(space)))
            return space
        if data["type"] == "Discrete":
            _check_size(int(data["n"]))
            dtype = _integer(data.get("dtype", "int64"))
            return spaces.Discrete(int(data["n"]), start=int(data["start"]), dtype=dtype.type)
        if data["type"] == "MultiBinary":
            sizes = data["n"] if isinstance(data["n"], int) else tuple(map(int, data["n"]))
            _check_size(math.prod(np.atleast_1d(sizes).tolist()))
            return spaces.MultiBinary(sizes)
        if data["type"] == "MultiDiscrete":
            return _multi_discrete(data)
        shape, dtype = tuple(map(int, data["shape"])), np.dtype(str(data["dtype"]))
        _check_size(math.prod(shape))
        if dtype.kind not in "biuf":
            raise InputError(f"not the description of a space: {dtype} is no type of numbers")
        low, high = (np.broadcast_to(np.asarray(data[key], dtype), shape) for key in ("low", "high"))
        return spaces.Box(low, high, shape, dtype.type)
    except InputError:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        AssertionError,
        RecursionError,
        SyntaxError,  # NumPy's, of the type "(,,)i4"
    ) as error:
        raise InputError(f"not the description of a space: {one_line(error)}") from error


def _multi_discrete(data: Mapping[str, Any]) -> spaces.MultiDiscrete:
    dtype = _integer(data["dtype"])
    nvec, start = (np.asarray(data[name], np.int64) for name in ("nvec", "start"))
    _check_size(int(nvec.size))
    if nvec.min() < 1 or start.shape != nvec.shape:
        raise InputError("not the description of a MultiDiscrete space")
    _check_size(int(nvec.astype(object).sum()))
    return spaces.MultiDiscrete(nvec, dtype.type, start=start)


def _integer(name: Any) -> np.dtype[Any]:
    """The type of integers with this name. Raises InputError for other types."""
    dtype = np.dtype(str(name))
    if dtype.kind not in "iu":
        raise InputError(f"not the description of a space: {dtype} is no type of integers")
    return dtype


def _check_size(count: int) -> None:
    if not 0 < count <= MOST_NUMBERS:
        raise InputError(f"not the description of a space: {count} numbers, wanted 1 to {MOST_NUMBERS}")


def _compact(bounds: Array) -> Any:
    # Strict JSON has no infinity, but NumPy reads it from text.
    plain = np.where(np.isinf(bounds), bounds.astype(str).astype(object), bounds.astype(object))
    return plain.flat[0] if (bounds == bounds.flat[0]).all() else plain.tolist()


def _name(space: Space) -> str:
    return type(space).__name__
