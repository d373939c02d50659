"""Locates data sets: paths, `minari:ID` in Minari's folder, and `hub:ORG/DATASET` on the Hugging Face hub."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from imitate import hub
from imitate.datasets.convert import convert, format_of, minari
from imitate.errors import InputError
from imitate.files import cache_folder, read_json, write_json

__all__ = ["SUFFIXES", "in_our_format", "is_spec", "source_path", "store_path"]

logger = logging.getLogger(__name__)

_LARGEST_DOWNLOAD = 32 << 30  # bytes
_READ = 9
"""Version of the reading code; it is increased when reading changes, so that older copies are not used."""

SUFFIXES = (".parquet", ".arrow", ".json", ".mp4", ".h5", ".hdf5", ".npz", ".csv")
"""Files of data sets; no others are downloaded."""


def is_spec(name: str) -> bool:
    """True if the name is not a path, but `minari:ID` or `hub:ORG/DATASET`."""
    return name.startswith(("minari:", "hub:"))


def source_path(name: str) -> Path:
    """The path of a data set, which is downloaded if it is on the hub. Raises InputError if it can't be found."""
    if name.startswith("hub:"):
        return _downloaded(name.removeprefix("hub:"))
    path = store_path(name)
    if is_spec(name) and not path.exists():
        raise InputError(
            f"{name} is not in {path}; `minari download {name.removeprefix('minari:')}` fetches it, and "
            "MINARI_DATASETS_PATH names another folder"
        )
    return path


def store_path(name: str) -> Path:
    """The path itself, or the path of `minari:ID`."""
    return minari.store(name.removeprefix("minari:")) if name.startswith("minari:") else Path(name)


def in_our_format(name: str, env_id: str, env_kwargs: Mapping[str, Any] | None = None) -> str:
    """`name` itself if it is in our format; otherwise a converted copy, which is kept in $XDG_CACHE_HOME/imitate/demos.

    Raises InputError as `convert` does.
    """
    if not is_spec(name) and not Path(name).exists():
        return name  # `DemoReader` says what is wrong with it
    path = source_path(name)
    try:
        format = format_of(path)
        if format == "imitate":
            return str(path)
    except InputError:
        if path.suffix == ".h5":
            return str(path)  # the same
        raise
    folder = cache_folder("demos")
    copy = folder / f"{_state(path, env_id, env_kwargs)}.h5"
    notes = copy.with_suffix(".json")
    if not copy.exists():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{folder}, for a converted copy of {name}, can't be made: {error.strerror}; set XDG_CACHE_HOME to a "
                f"folder of yours, or make the copy with `imitate data convert {name} COPY.h5`"
            ) from error
        try:
            write_json(notes, convert(path, copy, env_id=env_id, env_kwargs=env_kwargs).notes)
        except InputError:
            if not copy.exists():  # else another process has made the same copy in the meantime
                raise
    logger.info("%s (%s) is read as %s", name, format, copy)
    for note in read_json(notes, list[str]) if notes.exists() else ():
        logger.info("  %s", note)
    return str(copy)


def _state(path: Path, env_id: str, env_kwargs: Mapping[str, Any] | None) -> str:
    """A text that changes whenever a file of the data set does."""
    state = hashlib.sha256(f"{_READ} {path.resolve()} {env_id} {sorted((env_kwargs or {}).items())}".encode())
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            stat = file.stat()
            state.update(f"{file.name} {stat.st_size} {stat.st_mtime_ns}".encode())
    return state.hexdigest()


def _downloaded(name: str) -> Path:
    """Download `ORG/DATASET[@revision]` to the hub's own cache."""
    there = hub.find(name, "dataset")
    wanted = [file for file in there.sizes if file.endswith(SUFFIXES)]
    if not wanted:
        raise InputError(f"hub:{name} has no files of known kinds; wanted {', '.join(SUFFIXES)}")
    folder = hub.fetch(there, wanted, _LARGEST_DOWNLOAD)
    single = [file for file in wanted if file.endswith((".h5", ".hdf5", ".npz", ".csv")) and "/" not in file]
    return folder / single[0] if len(single) == 1 else folder
