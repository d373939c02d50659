"""Some of an environment's Dict observations, in one array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from imitate.envs.fields import Array, Fields, Space, as_fields, in_rows
from imitate.envs.numbers import indicators
from imitate.errors import InputError

__all__ = ["Selected", "Selection"]


class Selection:
    """The parts of a Dict that `keys` name, joined in one array (D,) as FlattenObservation does. One part alone that is
    a picture keeps its shape.

    Raises InputError if the space has no such part, or is no Dict.
    """

    def __init__(self, space: Space, keys: Sequence[str]) -> None:
        if not isinstance(space, Fields):
            raise InputError(f"the observations have no keys, they are {space}: leave obs_keys out")
        for name in keys:
            if name not in space.spaces:
                raise InputError(f"no observation {name!r}; there are {', '.join(space)}")
        self._chosen = spaces.Dict([(name, space[name]) for name in keys])
        first = space[keys[0]]
        self._alone = len(keys) == 1 and isinstance(first, spaces.Box) and len(first.shape) > 1
        self.space = first if self._alone else spaces.flatten_space(self._chosen)

    def take(self, values: Any, get: Any) -> Array:
        """Selected observations (N, *shape); get(values, name, space) reads one part of a Dict, (N, *part_shape)."""
        if self._alone:
            ((name, part),) = self._chosen.items()
            return np.asarray(get(values, name, part))
        parts = list(_flat(self._chosen, values, get))
        return np.concatenate(parts, axis=1).astype(self.space.dtype, copy=False)


class Selected(gym.ObservationWrapper[Any, Any, Any], gym.utils.RecordConstructorArgs):
    """An environment whose observations are a `Selection` of its own."""

    def __init__(self, env: gym.Env[Any, Any], keys: Sequence[str]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, keys=keys)
        super().__init__(env)
        if not isinstance(keys, list | tuple) or not keys:
            raise InputError(f"obs_keys must be a list of names of observations, got {keys!r}")
        self._fields = as_fields(env.observation_space)
        self._selection = Selection(self._fields, keys)
        self.observation_space = self._selection.space

    def observation(self, observation: Any) -> Array:
        rows = in_rows(self._fields, observation)[None]
        taken: Array = self._selection.take(rows, lambda rows, name, _: rows[name])[0]
        return taken


def _flat(space: spaces.Dict, values: Any, get: Any) -> Iterator[Array]:
    for name, part in space.items():
        inside = get(values, name, part)
        if isinstance(part, spaces.Dict):
            yield from _flat(part, inside, get)
        elif isinstance(part, spaces.Discrete):
            yield indicators(inside, int(part.start), int(part.n), np.int64)
        elif isinstance(part, spaces.Box):
            yield np.asarray(inside).reshape(len(inside), -1)
        else:
            raise InputError(f"observations {name!r} are {part}: wanted Box, Discrete or Dict of these")
