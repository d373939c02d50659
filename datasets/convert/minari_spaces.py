"""Spaces of Minari's data sets, and observations of several parts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from imitate.datasets.convert.foreign import Notes
from imitate.datasets.convert.recording import typed
from imitate.datasets.storage.schema import DemoInfo
from imitate.envs.fields import Array, Fields, Space, in_rows
from imitate.envs.selected import Selection
from imitate.envs.spaces import space_from_json, space_to_json
from imitate.errors import InputError

__all__ = ["Picked", "is_image", "space_of", "space_to_text"]


class Picked:
    """The selected observations of a space: all of them, or the parts of a Dict that `keys` name, joined in one array
    as FlattenObservation does."""

    def __init__(self, space: Space, keys: Sequence[str], notes: Notes) -> None:
        self.space_as_stored = self.space = space
        self._notes = notes
        self.env_kwargs = {"obs_keys": list(keys)} if keys else {}
        self._selection: Selection | None = None
        if not keys:
            return
        self._selection = Selection(space, keys)
        self.space = self._selection.space
        assert isinstance(space, Fields)
        notes.update(f"observations {name!r} are left out" for name in space if name not in keys)

    @property
    def row_bytes(self) -> int:
        """Bytes of a selected observation."""
        return int(np.dtype(self.space.dtype).itemsize * np.prod(self.space.shape or ()))

    def described(self, info: DemoInfo) -> DemoInfo:
        """The description of the selected observations; the environment is told to give the same."""
        return replace(info, observation_space=self.space, env_kwargs={**info.env_kwargs, **self.env_kwargs})

    def take(self, values: Any, get: Any) -> Array:
        """Selected observations (T+1, *shape); get(values, name, space) reads one part of a Dict."""
        if not isinstance(self.space_as_stored, Fields):
            return np.asarray(get(values, None, self.space_as_stored))
        if isinstance(self.space, Fields):
            return self._rows(self.space, values, get)
        assert self._selection is not None  # a Dict is taken whole otherwise
        return self._selection.take(values, get)

    def _rows(self, space: Fields, values: Any, get: Any) -> Array:
        parts = {}
        for name, part in space.items():
            inside = get(values, name, part)
            if isinstance(part, Fields):
                parts[name] = self._rows(part, inside, get)
            else:
                parts[name] = typed(np.asarray(inside), part, f"observations {name!r}", self._notes)
        lengths = {len(rows) for rows in parts.values()}
        if len(lengths) > 1:
            raise InputError(f"its observations have {sorted(lengths)} rows, wanted equally many")
        rows: Array = in_rows(space, parts, (lengths.pop(),))
        return rows


def is_image(space: Space) -> bool:
    """True if Minari treats such observations as images."""
    return (
        isinstance(space, spaces.Box)
        and len(space.shape) in (2, 3)
        and min(space.shape[:2]) >= 32
        and space.dtype == np.uint8
        and bool((space.low == 0).all() and (space.high == 255).all())
    )


def space_of(data: Mapping[str, Any], depth: int = 0) -> Space:
    """The space of Minari's description, with Dict and Tuple as Fields. Raises InputError for texts and graphs."""
    if data.get("type") not in ("Dict", "Tuple"):
        return space_from_json(data)
    parts = data.get("subspaces")
    if isinstance(parts, list):
        parts = {str(place): part for place, part in enumerate(parts)}
    if not isinstance(parts, dict) or depth > 4 or not all(isinstance(part, dict) for part in parts.values()):
        raise InputError(f"not the description of a {data['type']} space")
    return Fields({name: space_of(part, depth + 1) for name, part in parts.items()})


def space_to_text(space: Space) -> str:
    """Minari's description of a space: like ours, but with a number for every bound."""
    return json.dumps(_plain(space))


def _plain(space: Space) -> dict[str, Any]:
    if isinstance(space, Fields):
        return {"type": "Dict", "subspaces": {name: _plain(part) for name, part in space.items()}}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "dtype": str(space.dtype), "start": int(space.start), "n": int(space.n)}
    if not isinstance(space, spaces.Box):
        return space_to_json(space)
    plain = {"type": "Box", "dtype": str(space.dtype), "shape": list(space.shape)}
    return plain | {"low": space.low.tolist(), "high": space.high.tolist()}
