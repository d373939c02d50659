"""Dict observations as rows of structured arrays, so that all other code can treat them as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from gymnasium import spaces

from imitate.envs.numbers import Array, Space, all_finite, misfit, strays, values_of
from imitate.errors import Fault, InputError

__all__ = [
    "LEAVES",
    "Array",
    "Fields",
    "Space",
    "as_dict",
    "as_fields",
    "batch_of",
    "from_parts",
    "in_rows",
    "leaves",
    "part_of",
    "rows_of",
]

_MOST_FIELDS = 256  # of one Dict; HDF5 describes them all in 64 KiB
_DEEPEST = 8  # Dicts in Dicts

LEAVES = spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary


class Fields(spaces.Dict):
    """A Dict space whose observations are rows of a structured array, which can be indexed, stacked and stored like any
    array.

    N observations have the shape (N,), and their field `obs["goal"]` has (N, *goal_shape), as in a dict of batches.
    Fields are sorted by name; parts are Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these.

    Raises InputError for other parts, for more than 256 or Dicts more than 8 deep, and for names that are not text, are
    empty or hold NUL.
    """

    dtype: np.dtype[Any]
    depth: int

    def __init__(self, parts: Mapping[str, Space]) -> None:
        if not all(isinstance(name, str) and name and "\0" not in name for name in parts):
            raise InputError(
                f"the names {list(parts)} of a Dict are not supported: wanted texts, not empty and without "
                "NUL; rename its parts, e.g. in a wrapper of the environment"
            )
        known = {name: as_fields(parts[name]) for name in sorted(parts)}
        for name, part in known.items():
            if not isinstance(part, LEAVES | Fields):
                raise InputError(
                    f"observation space {type(part).__name__}, of {name!r}, is not supported: wanted Box, Discrete, "
                    "MultiDiscrete, MultiBinary, or Dict or Tuple of these; wrap the environment"
                )
        self.depth = 1 + max((part.depth for part in known.values() if isinstance(part, Fields)), default=0)
        if not 0 < len(known) <= _MOST_FIELDS or self.depth > _DEEPEST:
            raise InputError(
                f"a Dict of {len(known)} parts, {self.depth} deep, is not supported: wanted 1 to {_MOST_FIELDS}, "
                f"at most {_DEEPEST} deep"
            )
        super().__init__(list(known.items()))
        self._shape = ()
        self.dtype = np.dtype([(name, part.dtype, part.shape or ()) for name, part in known.items()])


def as_fields(space: Space) -> Space:
    """Turn a Dict, or a Tuple with its places "0", "1" ... as names, into Fields; any other space is returned as it
    is."""
    if isinstance(space, Fields):
        return space
    if isinstance(space, spaces.Tuple):
        return Fields({str(place): part for place, part in enumerate(space)})
    return Fields(space.spaces) if isinstance(space, spaces.Dict) else space


def leaves(space: Fields, at: int = 0) -> Iterator[tuple[str, Space, int]]:
    """The name of every part ("camera/left" in a nested Dict), its space, and its offset in the bytes of a row."""
    for name, part in space.items():
        offset = at + space.dtype.fields[name][1]  # type: ignore[index]  # it is structured
        if isinstance(part, Fields):
            yield from ((f"{name}/{inner}", leaf, place) for inner, leaf, place in leaves(part, offset))
        else:
            yield name, part, offset


def part_of(rows: Array, name: str) -> Array:
    """The part of rows (N,) with a name as in `leaves`, (N, *shape); a view."""
    names = rows.dtype.names or ()
    if name in names:
        return rows[name]
    for each in names:
        if name.startswith(f"{each}/"):
            with suppress(KeyError):  # names may hold slashes, so another one may begin like this
                return part_of(rows[each], name[len(each) + 1 :])
    raise KeyError(name)


def from_parts(space: Fields, parts: Mapping[str, Array], count: int) -> Array:
    """Rows (N,) from their parts (N, *shape), named as in `leaves`.

    Raises InputError if a shape differs, and for floats where the space has whole numbers (`misfit`).
    """
    rows = np.empty(count, space.dtype)
    for name, part, _ in leaves(space):
        place = part_of(rows, name)
        if parts[name].shape != place.shape:
            raise InputError(f"{name!r} has shape {parts[name].shape}, wanted {place.shape}")
        if wrong := misfit(parts[name], part):
            raise InputError(f"{name!r} {wrong}")
        place[...] = parts[name]
    return rows


def in_rows(space: Space, obs: Any, lead: tuple[int, ...] = ()) -> Any:
    """Convert Gymnasium's observations (*lead, ...): dicts and tuples to rows (*lead,), others stay as they are. Parts
    that the space lacks are left out.

    Raises a `Fault` for a missing part, one of another shape, floats where the space has whole numbers (`misfit`), and
    a number that a discrete part lacks.
    """
    if not isinstance(space, Fields) or isinstance(obs, np.ndarray | np.void):
        return obs
    rows = np.empty(lead, space.dtype)
    _fill(rows, space, obs, "an observation")
    return rows


def _fill(rows: Array, space: Fields, obs: Any, what: str) -> None:
    parts = _parts(space, obs, what)
    for name, part in space.spaces.items():  # several times as fast as `space.items()`
        inner = f"{name!r} of an observation"
        if isinstance(part, Fields):
            _fill(rows[name], part, parts[name], inner)
            continue
        value = _as_array(parts[name], inner)
        if value.shape != rows.shape + (part.shape or ()) or value.dtype.kind not in "biuf":
            raise Fault(
                f"{inner} has shape {value.shape} and type {value.dtype}: wanted numbers of shape {part.shape}"
            )
        if reason := misfit(value, part):
            raise Fault(f"{inner} {reason}")
        if (discrete := values_of(part)) is not None and (wrong := strays(part, value)).any():
            got, low, size = (np.broadcast_to(each, value.shape)[wrong][0] for each in (value, *discrete))
            raise Fault(f"{inner} holds {got:g}, wanted {low} to {low + size - 1}")
        rows[name] = value


def _parts(space: Fields, obs: Any, what: str) -> Mapping[str, Any]:
    """The parts of a dict, a tuple, or rows with other types. Raises a `Fault` if the space has one that is missing."""
    if isinstance(obs, tuple):
        obs = {str(place): part for place, part in enumerate(obs)}
    elif isinstance(obs, np.ndarray | np.void) and obs.dtype.names:
        obs = {name: obs[name] for name in obs.dtype.names}
    if not isinstance(obs, Mapping):
        raise Fault(f"{what} is a {type(obs).__name__}: wanted a dict with {', '.join(space)}")
    if missing := [name for name in space.spaces if name not in obs]:
        raise Fault(f"{what} has no {missing[0]!r}: wanted {', '.join(space)}")
    return obs


def _as_array(value: Any, what: str) -> Array:
    try:
        return np.asarray(value)
    except ValueError:
        hint = "; of env.reset(), take the first part" if isinstance(value, tuple) else ""
        raise Fault(
            f"{what} is a {type(value).__name__} of parts that differ in shape: wanted one array{hint}"
        ) from None


def batch_of(space: Space, obs: Any) -> tuple[Array, bool]:
    """Observations as a batch (N, *obs_shape), and whether `obs` was a single one (*obs_shape); then N is 1.

    For a Dict space, `obs` is a dict of arrays (N, *shape) or (*shape), or rows of a structured array, whose floats may
    have another width.

    Its numbers have the space's types, and are as torch takes them: in native order, contiguous and writable.

    Raises InputError for a missing or an unknown key, another shape or type, floats where the space has whole numbers
    (`misfit`), and numbers that are NaN or infinite.
    """
    if isinstance(space, Fields) and getattr(obs, "dtype", None) != space.dtype:
        lead = _lead_of_parts(space, obs, "an observation")
        array = np.empty(lead, space.dtype)
        _fill(array, space, obs, "an observation")
    else:
        array = _as_array(obs, "an observation")
        lead = _lead(array, space, "an observation")
        if array.dtype != space.dtype or not array.flags.carray:
            array = np.array(array, space.dtype, order="C")
    batch = array if lead else array[None]
    if not all_finite(batch):
        raise InputError("an observation holds NaN or infinite numbers: correct the environment that gave it")
    return batch, not lead


def _lead(array: Array, space: Space, what: str) -> tuple[int, ...]:
    """The leading shape: () for one observation, (N,) for a batch."""
    shape = space.shape or ()
    lead = array.shape[: array.ndim - len(shape)] if array.ndim >= len(shape) else ()
    number = array.dtype == space.dtype if isinstance(space, Fields) else array.dtype.kind in "biuf"
    if array.shape != lead + shape or len(lead) > 1 or not number:
        wanted = f"{shape} or {('N', *shape)}".replace("'", "") if shape else "() or (N,)"
        raise InputError(
            f"{what} has shape {array.shape} and type {array.dtype}: wanted numbers of shape {wanted}"
        )
    if wrong := misfit(array, space):
        raise InputError(f"{what} {wrong}")
    return lead


def _lead_of_parts(space: Fields, obs: Any, what: str) -> tuple[int, ...]:
    parts = _parts(space, obs, what)
    if unknown := [name for name in parts if name not in space.spaces]:
        raise InputError(f"{what} has {unknown[0]!r}, which its space lacks: wanted {', '.join(space)}")
    leads = set()
    for name, part in space.items():
        inner = f"{name!r} of an observation"
        if isinstance(part, Fields):
            leads.add(_lead_of_parts(part, parts[name], inner))
        else:
            leads.add(_lead(_as_array(parts[name], inner), part, inner))
    if len(leads) > 1:
        raise InputError(f"the parts {', '.join(space)} of {what} differ in N: wanted one N for all")
    return leads.pop()


def as_dict(rows: Array) -> Any:
    """The inverse of `in_rows`: rows (T,) as a dict of arrays (T, *shape), any other array as it is."""
    if rows.dtype.names is None:
        return rows
    return {name: as_dict(np.ascontiguousarray(rows[name])) for name in rows.dtype.names}


def rows_of(parts: Mapping[str, Any]) -> Array:
    """The inverse of `as_dict`: a dict of arrays or lists (T, *shape) as rows (T,). Raises ValueError if they differ in
    T."""
    arrays = {
        name: rows_of(part) if isinstance(part, Mapping) else np.asarray(part)
        for name, part in sorted(parts.items())
    }
    lengths = {array.shape[:1] for array in arrays.values()}
    if len(lengths) != 1:
        raise ValueError(f"{', '.join(arrays)} differ in length")
    rows = np.empty(lengths.pop(), [(name, array.dtype, array.shape[1:]) for name, array in arrays.items()])
    for name, array in arrays.items():
        rows[name] = array
    return rows
