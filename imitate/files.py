"""Files that are whole or absent, read within bounds, and what each of them carries."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import filelock
import msgspec

from imitate.errors import InputError, one_line

__all__ = ["atomic", "lock", "read_bytes", "read_json", "sweep", "versions", "write_json"]

T = TypeVar("T")

_PARTIAL = ".partial"
_LARGEST_JSON = 64 << 20

# No function tells the umask without setting it, and other threads would see the other one: so once, at import.
_UMASK = os.umask(0o077)
os.umask(_UMASK)


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to. It takes the name of `path` where the block ends without an error,
    and is removed where it does not: nobody ever sees half of a file.

    The file is on disk before it gets its name, and has the permissions that the user's umask says.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_PARTIAL}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_UMASK)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sweep(folder: Path) -> None:
    """Remove what killed writers left in `folder`; only where no other process writes there."""
    for leftover in folder.glob(f".*{_PARTIAL}"):
        leftover.unlink(missing_ok=True)


@contextmanager
def lock(folder: Path, what: str) -> Iterator[None]:
    """Hold `folder` (made where it is missing) for this process. Raises InputError where another one holds it;
    `what` says what it does there, such as "a training run"."""
    folder.mkdir(parents=True, exist_ok=True)
    held = filelock.FileLock(folder / ".lock")
    try:
        held.acquire(timeout=0)
    except filelock.Timeout:
        raise InputError(f"{what} is at work in {folder}: wait for it, or choose another --out") from None
    try:
        yield
    finally:
        held.release()
        (folder / ".lock").unlink(missing_ok=True)


def write_json(path: Path, data: Any) -> None:
    """Write plain data, atomically; the folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(data, indent=2) + "\n", "utf-8")


def read_bytes(path: Path, limit: int) -> bytes:
    """The whole file. Raises InputError, before reading more, where it is larger than `limit` bytes or no file."""
    if not path.is_file():
        raise InputError(f"{path} is no file; check the path")
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise InputError(
            f"{path} has {path.stat().st_size} bytes, over the limit of {limit} for a file of its kind"
        )
    return data


def read_json(path: Path, type: type[T], *, limit: int = _LARGEST_JSON) -> T:
    """A JSON file as `type`: a dataclass, `dict[str, float]` or anything else that msgspec checks.

    Raises InputError where it is no file, too large, no JSON, nested too deeply, or of other types, naming the field.
    """
    data = read_bytes(path, limit)
    try:
        # Of the standard library, since it reads the Infinity that configs may hold; JSON itself has none.
        return msgspec.convert(json.loads(data), type)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"{path} can't be read: {one_line(error)}; restore it or make it again") from error


def versions() -> dict[str, str]:
    """Of Python and of the packages that results depend on: part of every artefact."""
    packages = (
        *(
            "imitate-rl",
            "torch",
            "gymnasium",
            "numpy",
            "h5py",
            "stable-baselines3",
            "ale-py",
            "mujoco",
            "envpool",
        ),
    )
    return {"python": platform.python_version()} | {
        name: version for name in packages if (version := _version(name)) is not None
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
