"""What a demonstrations file holds besides its steps: the format, `DemoInfo`, and opening a file with
care."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
from gymnasium import spaces

from imitate.envs.spaces import Array, check_supported, space_from_json, space_to_json
from imitate.errors import InputError
from imitate.files import versions

__all__ = [
    "COLUMNS",
    "EPISODES",
    "DemoInfo",
    "open_demos",
    "outside",
    "read_info",
    "read_table",
    "write_info",
]

FORMAT = "imitate demonstrations"
SCHEMA_VERSION = 1

# A row an episode. `start` counts steps and `obs_start` rows of `obs`, of which an episode of T steps has T
# + k (k frames a stack; 1 without): its first k-1 frames, then T+1. The table's float64 return is the sum of
# rewards.
EPISODES = np.dtype(
    [
        ("start", "<i8"),
        ("obs_start", "<i8"),
        ("length", "<i8"),
        ("return", "<f8"),
        ("terminated", "?"),
        ("truncated", "?"),
        ("seed", "<i8"),  # -1: unknown
    ]
)
COLUMNS = ("obs", "actions", "rewards")  # and "expert_actions" in some files

_SWMR_FLAG = 4  # of the consistency flags, byte 11 of a superblock of version 3


@dataclass(frozen=True)
class DemoInfo:
    """Where demonstrations come from; stored as the file's attributes.

    expert         the spec it was loaded by; expert_sha256 of its weights; expert_return as measured
    noise          spec of the noise on executed actions, "" for none
    seed           episode n of a collection has the seed `episode_seeds(seed)[n]`; None: not collected that
    way
    frame_stack    k > 1: observations are stacks (k, *frame) and each frame is stored once

    Raises InputError for spaces that are not supported or do not suit `frame_stack`.
    """

    env_id: str
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    expert: str = ""
    expert_sha256: str = ""
    expert_return: float | None = None
    deterministic: bool = True
    noise: str = ""
    seed: int | None = None
    frame_stack: int = 1
    versions: Mapping[str, str] = field(default_factory=versions)

    def __post_init__(self) -> None:
        check_supported(self.observation_space, self.action_space)
        shape = self.observation_space.shape or ()
        if self.frame_stack < 1 or (
            self.frame_stack > 1 and (len(shape) < 2 or shape[0] != self.frame_stack)
        ):
            raise InputError(
                f"frame_stack {self.frame_stack} does not suit observations of shape {shape}; 1 fits always"
            )

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """Of a row of `obs` in the file."""
        shape = self.observation_space.shape or ()
        return shape[1:] if self.frame_stack > 1 else shape


def write_info(file: h5py.File, info: DemoInfo) -> None:
    """Store `info` and the schema version as attributes."""
    file.attrs.update(
        {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "env_id": info.env_id,
            "env_kwargs": json.dumps(dict(info.env_kwargs)),
            "observation_space": json.dumps(space_to_json(info.observation_space)),
            "action_space": json.dumps(space_to_json(info.action_space)),
            "expert": info.expert,
            "expert_sha256": info.expert_sha256,
            "expert_return": np.nan if info.expert_return is None else info.expert_return,
            "deterministic": info.deterministic,
            "noise": info.noise,
            "seed": -1 if info.seed is None else info.seed,
            "frame_stack": info.frame_stack,
            "versions": json.dumps(dict(info.versions)),
        }
    )


def read_info(file: h5py.File) -> DemoInfo:
    """The attributes as DemoInfo. Raises InputError for a file of another kind or of a newer schema."""
    attributes = file.attrs
    if attributes.get("format") != FORMAT:
        raise InputError(
            f"{file.filename} is HDF5 but not a file of demonstrations; convert or record it first"
        )
    version = int(attributes["schema_version"])
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{file.filename} has schema {version}, this release reads {SCHEMA_VERSION}: upgrade imitate-rl"
        )
    try:
        expert_return, seed = float(attributes["expert_return"]), int(attributes["seed"])
        return DemoInfo(
            env_id=str(attributes["env_id"]),
            observation_space=space_from_json(json.loads(attributes["observation_space"])),
            action_space=space_from_json(json.loads(attributes["action_space"])),
            env_kwargs=json.loads(attributes["env_kwargs"]),
            expert=str(attributes["expert"]),
            expert_sha256=str(attributes["expert_sha256"]),
            expert_return=None if np.isnan(expert_return) else expert_return,
            deterministic=bool(attributes["deterministic"]),
            noise=str(attributes["noise"]),
            seed=None if seed < 0 else seed,
            frame_stack=int(attributes["frame_stack"]),
            versions=json.loads(attributes["versions"]),
        )
    except (KeyError, ValueError) as error:
        raise InputError(
            f"{file.filename} has damaged attributes ({error}); record or convert it again"
        ) from error


def open_demos(path: Path) -> h5py.File:
    """Open for reading, also while another process records it or after that process was killed.

    Raises InputError where there is no file, or not a whole file of HDF5 demonstrations.
    """
    if not path.is_file():
        raise InputError(f"no file of demonstrations at {path}; record one with `imitate collect`")
    size = path.stat().st_size
    with path.open("rb") as raw:
        superblock = raw.read(48)
    # A file that says it is being written (or whose writer was killed) is read as SWMR. In that mode HDF5
    # does not compare the file's size with the recorded one: what is missing reads as zeros, or is waited for
    # without end. So it is compared here, with the size at first and with what the writer reserved since.
    being_written = len(superblock) == 48 and bool(superblock[11] & _SWMR_FLAG)
    truncated = being_written and size < int.from_bytes(superblock[28:36], "little")
    try:
        if truncated:
            raise OSError("truncated file")
        file = h5py.File(path, "r", libver="latest", swmr=being_written)
    except OSError as error:
        raise InputError(
            f"{path} is not a whole HDF5 file ({error}); restore it or record it again"
        ) from error
    try:
        read_info(file)
        missing = [name for name in (*COLUMNS, "episodes") if name not in file]
        if missing:
            raise InputError(f"{path} lacks the dataset {missing[0]!r}; restore it or record it again")
        if being_written and size < file["episodes"].attrs["reserved"]:
            raise InputError(
                f"{path} is not a whole HDF5 file (truncated file); restore it or record it again"
            )
    except BaseException:
        file.close()
        raise
    return file


def read_table(file: h5py.File) -> Array:
    """The episodes (E,) that are wholly in the file, as records of EPISODES.

    Raises InputError where they can't be: lengths that do not add up or more steps than are stored.
    """
    if file["episodes"].dtype != EPISODES:
        raise InputError(
            f"{file.filename}: the episodes table is not {EPISODES.names}; restore it or record it again"
        )
    table: Array = file["episodes"][:]
    # The table of a killed writer can end in rows whose chunk never reached the disk: they read as zeros.
    unwritten = np.flatnonzero(table["length"] == 0)
    table = table[: unwritten[0]] if len(unwritten) else table
    stack = int(file.attrs["frame_stack"])
    starts = np.concatenate([[0], np.cumsum(table["length"])])
    rows = starts + stack * np.arange(len(starts))
    if (table["start"] != starts[:-1]).any() or (table["obs_start"] != rows[:-1]).any():
        raise InputError(
            f"{file.filename}: lengths of episodes and their starts disagree; restore it or record it again"
        )
    if min(len(file["actions"]), len(file["rewards"])) < starts[-1] or len(file["obs"]) < rows[-1]:
        raise InputError(
            f"{file.filename}: {starts[-1]} steps are listed, fewer are stored; restore it or record it again"
        )
    return table


def outside(space: gym.Space[Any], actions: Array) -> Array:
    """(T,) which of the actions (T, *shape) are not in their space. Observations are not held to
    their bounds: where one leaves them, the environment declared them wrong."""
    if isinstance(space, spaces.Discrete):
        return np.asarray((actions < space.start) | (actions >= space.start + space.n))
    assert isinstance(space, spaces.Box)
    return np.asarray(((actions < space.low) | (actions > space.high)).any(axis=-1))
