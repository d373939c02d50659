"""Spaces of Minari's data sets, and observations of several parts as one array."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from imitate.datasets.convert.recording import Notes
from imitate.envs.spaces import Array, Space, space_from_json
from imitate.errors import InputError

__all__ = ["Picked", "images_of", "is_image", "space_of", "space_to_text"]

_LARGEST_IMAGE = 1 << 26


class Picked:
    """Which observations to take of a space, in one array: of a Dict the flat ones, as FlattenObservation does, or
    those that `keys` name."""

    def __init__(self, space: Space, keys: Sequence[str], notes: Notes) -> None:
        self.space_as_stored = space
        if not isinstance(space, spaces.Dict):
            if keys:
                raise InputError(f"the observations have no keys, they are {space}: leave --obs-keys out")
            self.space = space
            return
        names = keys or [name for name, one in space.items() if len(one.shape or ()) < 2]
        for name in names:
            if name not in space.spaces:
                raise InputError(f"no observation {name!r}; there are {', '.join(space)}")
        for name in space:
            if name not in names:
                notes[f"observations {name!r} are left out"] += 1
        self._chosen = spaces.Dict([(name, space[name]) for name in names])
        alone = space[names[0]] if len(names) == 1 else None
        self._alone = names[0] if isinstance(alone, spaces.Box) and len(alone.shape) > 1 else None
        self.space = alone if alone is not None and self._alone else gym.spaces.flatten_space(self._chosen)

    def take(self, values: Any, get: Any) -> Array:
        """(T+1, *shape), where get(values, name, space) reads one part of a Dict."""
        if not isinstance(self.space_as_stored, spaces.Dict):
            return np.asarray(get(values, None, self.space_as_stored))
        if self._alone is not None:
            return np.asarray(get(values, self._alone, self._chosen[self._alone]))
        parts = list(_flat(self._chosen, values, get))
        return np.concatenate(parts, axis=1).astype(self.space.dtype, copy=False)


def _flat(space: spaces.Dict, values: Any, get: Any) -> Iterator[Array]:
    for name, part in space.items():
        inside = get(values, name, part)
        if isinstance(part, spaces.Dict):
            yield from _flat(part, inside, get)
        elif isinstance(part, spaces.Discrete):
            yield np.eye(int(part.n), dtype=np.int64)[np.asarray(inside) - int(part.start)]
        elif isinstance(part, spaces.Box):
            yield np.asarray(inside).reshape(len(inside), -1)
        else:
            raise InputError(f"observations {name!r} are {part}: wanted Box, Discrete or Dict of these")


def images_of(rows: list[Any], space: Space) -> Array:
    """JPEG files to images (T+1, *shape)."""
    from PIL import Image

    images = np.empty((len(rows), *(space.shape or ())), np.uint8)
    for number, row in enumerate(rows):
        data = row if isinstance(row, bytes) else np.asarray(row, np.uint8).tobytes()
        with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
            if (
                image.width * image.height > _LARGEST_IMAGE
                or (image.height, image.width) != images.shape[1:3]
            ):
                raise InputError(f"an image has {image.size} pixels, wanted {images.shape[1:]}")
            images[number] = np.asarray(image)
    return images


def is_image(space: Space) -> bool:
    """What Minari takes for images."""
    return (
        isinstance(space, spaces.Box)
        and len(space.shape) in (2, 3)
        and min(space.shape[:2]) >= 32
        and space.dtype == np.uint8
        and bool((space.low == 0).all() and (space.high == 255).all())
    )


def space_of(data: Mapping[str, Any], depth: int = 0) -> Space:
    """The space of Minari's description. Raises InputError for others than Box, Discrete and Dict of these."""
    if data.get("type") != "Dict":
        return space_from_json(data)
    parts = data.get("subspaces")
    if not isinstance(parts, dict) or depth > 4 or not all(isinstance(part, dict) for part in parts.values()):
        raise InputError("not the description of a Dict space")
    return spaces.Dict([(str(name), space_of(part, depth + 1)) for name, part in parts.items()])


def space_to_text(space: Space) -> str:
    """Minari's description: as ours, with a number for every bound."""
    if isinstance(space, spaces.Discrete):
        plain: dict[str, Any] = {
            "type": "Discrete",
            "dtype": "int64",
            "start": int(space.start),
            "n": int(space.n),
        }
    else:
        assert isinstance(space, spaces.Box)
        plain = {"type": "Box", "dtype": str(space.dtype), "shape": list(space.shape)}
        plain |= {"low": space.low.tolist(), "high": space.high.tolist()}
    return json.dumps(plain)
