"""Handles foreign data with care: turns errors into InputErrors, collects notes, and limits claimed sizes."""

from __future__ import annotations

import errno
import io
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from imitate.envs.spaces import Array
from imitate.errors import InputError, one_line, pip_install

__all__ = ["Most", "Notes", "most", "needs", "pictures_of", "refused"]

_LARGEST_IMAGE = 1 << 26  # pixels

Notes = Counter[str]
"""Lines about what was lost or guessed, and how often."""


def needs(module: str) -> Any:
    """A package of the extra `formats`, imported. Raises InputError if it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(f"this format needs {module.partition('.')[0]}: {pip_install('formats')}") from error


@dataclass(frozen=True)
class Most:
    """The most that files of some size can hold. Without such limits, a table or array could claim endlessly many rows
    in a few bytes."""

    episodes: int
    steps: int
    nbytes: int


def most(path: Path) -> Most:
    files = [file for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    film = sum(file.stat().st_size for file in files if file.suffix == ".mp4")
    # Deflate expands one byte to at most 1,032. A frame of a still film takes about 50 bytes.
    return Most(1000 + size // 16, 1_000_000 + 16 * size, (256 << 20) + 1100 * size + 20_000 * film)


def pictures_of(files: Sequence[bytes], shape: Sequence[int], formats: list[str]) -> Array:
    """Image files as pictures (n, *shape) uint8. Raises InputError for one of another size."""
    from PIL import Image

    pictures = np.empty((len(files), *shape), np.uint8)
    for number, data in enumerate(files):
        with Image.open(io.BytesIO(data), formats=formats) as image:
            size = (image.height, image.width)
            if size != tuple(shape[:2]) or math.prod(size) > _LARGEST_IMAGE:
                raise InputError(f"an image has height and width {size}, wanted {tuple(shape[:2])}")
            pictures[number] = np.asarray(image.convert("RGB") if len(shape) == 3 else image)
    return pictures


class refused:
    """A context manager that adds the file's name to InputErrors, and turns all other errors in foreign data into
    InputErrors."""

    def __init__(self, what: str | Path) -> None:
        self._what = str(what)

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            return  # a fault of the disk, not of the file's content
        if isinstance(error, InputError):
            if self._what not in str(error):
                raise InputError(f"{self._what}: {error}") from error
        elif isinstance(error, Exception):
            raise InputError(
                f"{self._what} can't be read ({type(error).__name__}: {one_line(error)[:200]}): it is damaged or "
                "of another version"
            ) from error
