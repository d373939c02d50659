"""The schema of a demonstrations file: the table of episodes, and `DemoInfo` as attributes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, get_args

import gymnasium as gym
import h5py
import numpy as np

from imitate.datasets.storage.damage import checked, damaged, read_attribute
from imitate.envs.fields import as_fields
from imitate.envs.spaces import check_supported, space_from_json, space_to_json
from imitate.errors import InputError
from imitate.files import versions

__all__ = [
    "COLUMNS",
    "COMPRESSIONS",
    "EPISODES",
    "FORMAT",
    "LONGEST_KWARGS",
    "TAGS",
    "TEXTS",
    "Compression",
    "DemoInfo",
    "common_info",
    "info_from_plain",
    "info_to_plain",
    "merged",
    "read_info",
    "write_info",
]

_AND = " + "  # between the experts, kinds of noise and commands of files that were merged

T = TypeVar("T")

FORMAT = "imitate demonstrations"
Compression = Literal["gzip", "zstd"]
COMPRESSIONS: tuple[str, ...] = get_args(Compression)
"""Filters of pictures; the first is the default, which every HDF5 library reads."""
SCHEMA_VERSION = 1
WITHOUT_ACTIONS = 2
"""Version of files whose actions are unknown: an older release would take what stands in their place for actions."""

# One row per episode. `start` counts steps and `obs_start` rows of `obs`. An episode of T steps has T + k rows of
# `obs`, where k is the number of stacked frames (1 without): its first k-1 frames, then T+1. The float64 return is
# the sum of the rewards.
EPISODES = np.dtype(
    [
        ("start", "<i8"),
        ("obs_start", "<i8"),
        ("length", "<i8"),
        ("return", "<f8"),
        ("terminated", "?"),
        ("truncated", "?"),
        ("seed", "<i8"),  # below 0: unknown
    ]
)
COLUMNS = ("obs", "actions", "rewards")  # and "expert_actions", "states" in some files
TEXTS = ("task", "masks", "model_file", "env_args")
"""Texts that an episode may have, in `Trajectory.info`: a description of its task, a tuple of names of the parts of the
data set that it is in, robosuite's model of its simulator, and robomimic's description of its environment."""
# One row per episode, in files with texts: first byte in `texts` and number of bytes of each; 0 bytes: it has none.
TAGS = np.dtype([(name, "<i8", (2,)) for name in TEXTS])

_LARGEST_STATE = 1 << 20
LONGEST_KWARGS = 1 << 14
"""Maximum number of characters of the environment's keywords as JSON. With more, a file could ask for a world of any
size."""


@dataclass(frozen=True)
class DemoInfo:
    """The origin of demonstrations, stored as the file's attributes.

    expert         the spec by which it was loaded. expert_sha256 is the hash of its weights, normalisation_sha256 that
                   of the statistics that normalise its observations ("" for none); expert_return was measured
    noise          spec of the noise on executed actions, "" for none
    seed           episode n of a collection has the seed `episode_seeds(seed)[n]`; None: the episodes were not
                   collected from one seed
    frame_stack    k > 1: observations are stacks (k, *frame) and each frame is stored once
    protocol       settings that the environment's id leaves open, such as Atari's sticky actions
    command        the command line that recorded it, without the file's name
    has_actions    False: the expert's actions are unknown, and the lowest one stands in their place
    compression    the filter of pictures, one of COMPRESSIONS
    state_size     how many numbers a state of the simulator has, which is stored with each step; 0: none are
    has_texts      episodes may have the texts named in TEXTS
    fps            steps a second; 0: unknown

    Raises InputError for spaces that are not supported or do not suit `frame_stack`, and for another compression,
    size or rate.
    """

    env_id: str
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    expert: str = ""
    expert_sha256: str = ""
    normalisation_sha256: str = ""
    expert_return: float | None = None
    deterministic: bool = True
    noise: str = ""
    seed: int | None = None
    frame_stack: int = 1
    protocol: str = ""
    command: str = ""
    has_actions: bool = True
    compression: str = COMPRESSIONS[0]
    state_size: int = 0
    has_texts: bool = False
    fps: float = 0.0
    versions: Mapping[str, str] = field(default_factory=versions)

    def __post_init__(self) -> None:
        check_supported(self.observation_space, self.action_space)
        if self.compression not in COMPRESSIONS:
            raise InputError(
                f"pictures compressed with {self.compression!r}: use {' or '.join(COMPRESSIONS)}"
            )
        if not 0 <= self.state_size <= _LARGEST_STATE:
            raise InputError(f"states of {self.state_size} numbers: wanted 0 to {_LARGEST_STATE}")
        if not 0 <= self.fps < math.inf:
            raise InputError(f"{self.fps} steps a second: wanted a number above 0, or 0 if it is unknown")
        object.__setattr__(self, "observation_space", as_fields(self.observation_space))
        shape = self.observation_space.shape or ()
        if self.frame_stack < 1 or (
            self.frame_stack > 1 and (len(shape) < 2 or shape[0] != self.frame_stack)
        ):
            raise InputError(
                f"frame_stack {self.frame_stack} does not suit observations of shape {shape}; 1 fits always"
            )

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """Shape of a row of `obs` in the file."""
        shape = self.observation_space.shape or ()
        return shape[1:] if self.frame_stack > 1 else shape


def write_info(file: h5py.File, info: DemoInfo) -> None:
    """Store `info` and the schema version as attributes."""
    version = SCHEMA_VERSION if info.has_actions else WITHOUT_ACTIONS
    file.attrs.update({"format": FORMAT, "schema_version": version} | info_to_plain(info))


def info_to_plain(info: DemoInfo) -> dict[str, Any]:
    """`info` as text and numbers, by attribute; NaN and -1 stand for an unknown return and seed. Raises InputError for
    env_kwargs that no reader would take."""
    kwargs = json.dumps(dict(info.env_kwargs))
    _check_kwargs(kwargs)
    return vars(info) | {
        "env_kwargs": kwargs,
        "observation_space": json.dumps(space_to_json(info.observation_space)),
        "action_space": json.dumps(space_to_json(info.action_space)),
        "expert_return": np.nan if info.expert_return is None else float(info.expert_return),
        "seed": -1 if info.seed is None else info.seed,
        "fps": float(info.fps),
        "versions": json.dumps(dict(info.versions)),
    }


def read_info(file: h5py.File) -> DemoInfo:
    """The attributes as DemoInfo. Raises InputError for a file of another kind or of a newer schema, or if an attribute
    is missing or of another type."""
    path = file.filename
    with damaged(path, "the attributes"):
        attrs = file.attrs  # each access makes another one, which takes longer than reading an attribute
        if "format" not in attrs or read_attribute(attrs, "format", str) != FORMAT:
            raise InputError(
                f"{path} is HDF5 but not a file of demonstrations; `imitate data convert` reads other projects'"
            )
        version = read_attribute(attrs, "schema_version", int)
        if version not in (SCHEMA_VERSION, WITHOUT_ACTIONS):
            raise InputError(
                f"{path} has schema {version}, this release reads {SCHEMA_VERSION} and {WITHOUT_ACTIONS}: "
                "upgrade imitate-rl"
            )
        return _info(lambda name, kind, default=None: read_attribute(attrs, name, kind, default))


def info_from_plain(data: Mapping[str, Any], path: str | Path) -> DemoInfo:
    """The inverse of `info_to_plain`, from a file of another format. Raises InputError as `read_info`."""

    def read(name: str, kind: type[T], default: T | None = None) -> T:
        if name not in data and default is not None:
            return default
        return checked(name, data[name], kind)

    with damaged(path, "its provenance"):
        return _info(read)


class _Read(Protocol):
    def __call__(self, name: str, kind: type[T], default: T | None = None) -> T: ...


def _info(read: _Read) -> DemoInfo:
    def plain(name: str) -> dict[str, Any]:
        value = json.loads(read(name, str))
        if not isinstance(value, dict):
            raise InputError(f"attribute {name!r} is the JSON of a {type(value).__name__}, wanted an object")
        return value

    _check_kwargs(read("env_kwargs", str))
    expert_return, seed = read("expert_return", float), read("seed", int)
    return DemoInfo(
        env_id=read("env_id", str),
        observation_space=space_from_json(plain("observation_space")),
        action_space=space_from_json(plain("action_space")),
        env_kwargs=plain("env_kwargs"),
        expert=read("expert", str),
        expert_sha256=read("expert_sha256", str),
        normalisation_sha256=read("normalisation_sha256", str, ""),
        expert_return=None if np.isnan(expert_return) else expert_return,
        deterministic=read("deterministic", bool),
        noise=read("noise", str),
        seed=None if seed < 0 else seed,
        frame_stack=read("frame_stack", int),
        protocol=read("protocol", str, ""),
        command=read("command", str, ""),
        has_actions=read("has_actions", bool, True),
        compression=read("compression", str, COMPRESSIONS[0]),
        state_size=read("state_size", int, 0),
        has_texts=read("has_texts", bool, False),
        fps=read("fps", float, 0.0),
        versions={str(name): str(version) for name, version in plain("versions").items()},
    )


def _check_kwargs(text: str) -> None:
    if len(text) > LONGEST_KWARGS:
        raise InputError(f"its env_kwargs have more than {LONGEST_KWARGS} characters; shorten them")


def common_info(infos: Sequence[tuple[str, DemoInfo]]) -> DemoInfo:
    """Merges the metadata of several files, given as (path, info). Experts, kinds of noise and commands are listed; the
    compression is the first one's; other fields are left empty if they differ.

    Raises InputError unless all have the same environment (apart from a `module:` before its name), keywords, spaces,
    frame stack and `state_size`, and all or none have actions.
    """
    first_path, first = infos[0]
    for path, info in infos[1:]:
        for name in (
            "env_id",
            "env_kwargs",
            "observation_space",
            "action_space",
            "frame_stack",
            "has_actions",
            "state_size",
        ):
            was, now = (getattr(one, name) for one in (first, info))
            if name == "env_id":
                was, now = was.rpartition(":")[2], now.rpartition(":")[2]
            if was != now:
                raise InputError(
                    f"{path} has {name} {now}, {first_path} has {was}: they can't be read as one data set"
                )
    every = [info for _, info in infos]
    return replace(
        first,
        expert=_joined(info.expert for info in every),
        expert_sha256=_shared([info.expert_sha256 for info in every], ""),
        normalisation_sha256=_shared([info.normalisation_sha256 for info in every], ""),
        expert_return=_shared([info.expert_return for info in every], None),
        deterministic=all(info.deterministic for info in every),
        noise=_joined(info.noise for info in every),
        seed=_shared([info.seed for info in every], None),
        protocol=_shared([info.protocol for info in every], ""),
        versions=_shared([info.versions for info in every], {}),
        command=_joined(info.command for info in every),
        has_texts=any(info.has_texts for info in every),
        fps=_shared([info.fps for info in every], 0.0),
    )


def merged(info: DemoInfo) -> int:
    """The number of collections that `common_info` has merged, as far as their experts or commands differ."""
    return max(text.count(_AND) for text in (info.expert, info.command)) + 1


def _joined(values: Iterable[str]) -> str:
    return _AND.join(dict.fromkeys(filter(None, values)))


def _shared(values: Sequence[T], default: T) -> T:
    return values[0] if all(value == values[0] for value in values) else default
