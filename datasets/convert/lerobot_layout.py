"""Names and paths in a LeRobotDataset v3.0."""

from __future__ import annotations

from typing import Literal

from gymnasium import spaces

from imitate.envs.fields import Fields, Space, leaves
from imitate.errors import InputError

__all__ = [
    "CHUNK",
    "DATA_PATH",
    "FINAL",
    "PROVENANCE",
    "VERSION",
    "VIDEO_PATH",
    "Codec",
    "features_of_space",
    "is_picture",
    "numbered",
]

VERSION = "v3.0"
Codec = Literal["h264", "png"]
"""Lossless coding of pictures: a video in RGB for each episode, or an image for each step."""
CHUNK = 1000
"""Maximum number of files in a folder."""
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
FINAL = "meta/imitate_final.parquet"
PROVENANCE = "meta/imitate.json"
"""These two files are ours; LeRobot ignores them."""


def numbered(chunk: int, file: int, suffix: str) -> str:
    """A path such as `chunk-000/file-000.parquet`."""
    return f"chunk-{int(chunk):03d}/file-{int(file):03d}{suffix}"


def is_picture(space: Space) -> bool:
    """True for (H, W, 3) of uint8, which become videos or images."""
    shape = space.shape or ()
    return isinstance(space, spaces.Box) and len(shape) == 3 and shape[2] == 3 and space.dtype == "uint8"


def features_of_space(space: Space) -> dict[str, tuple[str, Space]]:
    """The features of observations: the part's name as in `leaves` (empty: all of it), and its space.

    A Dict's part `wrist` is `observation.images.wrist` if it is a picture, otherwise `observation.wrist`.

    Raises InputError if two parts would have one name.
    """
    if not isinstance(space, Fields):
        return {"observation.image" if is_picture(space) else "observation.state": ("", space)}
    named = [
        (f"observation.{'images.' if is_picture(part) else ''}{name.replace('/', '.')}", (name, part))
        for name, part, _ in leaves(space)
    ]
    if len(dict(named)) < len(named):
        raise InputError("two observations have one name in LeRobot, where / becomes a dot; rename one")
    return dict(named)
