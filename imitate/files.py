"""Reading and writing files: writes are atomic and reads are bounded."""

from __future__ import annotations

import errno
import json
import math
import os
import platform
import secrets
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

import filelock
import msgspec

from imitate.errors import DISK_FULL, LARGEST, InputError, Unwritable, one_line

__all__ = [
    "Count",
    "Lock",
    "Number",
    "atomic",
    "atomic_folder",
    "cache_folder",
    "filling",
    "home",
    "last_line",
    "lock",
    "machine",
    "make_parent",
    "open_zip",
    "plain_json",
    "read_bytes",
    "read_json",
    "sweep",
    "versions",
    "without_nan",
    "write_json",
]

T = TypeVar("T")

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
"""A whole number in a file: steps, bytes, a seed."""
Number = Annotated[float, msgspec.Meta(ge=-1e60, le=1e60)]
"""A measured number in a file, of which no return is too large: rewards are float32. Statistics take its fourth power,
which is finite."""

_PARTIAL = ".partial"
_LARGEST_JSON = 64 << 20
_MOST_VALUES = 6_000_000  # of one JSON text; an object of one value takes 200 bytes
_LARGEST_LIST = 1 << 20  # bytes of a zip's list of members
_TAIL = 1 << 16  # bytes at the end of a log, which hold its last line
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)  # errors of a folder that takes no new files
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP)

# The umask can only be read by setting it, which other threads would notice, so read it once at import.
_UMASK = os.umask(0o077)
os.umask(_UMASK)


@contextmanager
def atomic(path: Path, *, new: bool = False) -> Iterator[Path]:
    """Write a file atomically: yields a temporary path, which is renamed to `path` at the end of the block.

    If the block raises, the temporary file is removed. With `new`, no file is replaced: raises FileExistsError if
    `path` exists by then. The file is synced to disk before it is renamed; its permissions follow the user's umask.

    Raises Unwritable before the block if the folder takes no new files.
    """
    temporary = _temporary(path)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_UMASK)
        if new:
            _claim(temporary, path)
        else:
            temporary.replace(path)
    except BaseException as problem:
        temporary.unlink(missing_ok=True)
        _name(problem, temporary, path)
        raise


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """As `atomic` with `new`, for a folder: yields an empty temporary folder, which is renamed to `path` at the end."""
    temporary = _temporary(path)
    try:
        temporary.mkdir()
        yield temporary
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        temporary.rename(path)
    except BaseException as problem:
        shutil.rmtree(temporary, ignore_errors=True)
        _name(problem, temporary, path)
        raise


def make_parent(path: Path) -> None:
    """Create the folder of an output file, with its parents, if it is missing.

    Raises Unwritable if a file is in its place or the folder above it is read-only, and other errors as OSError.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _explain(error, path)
        raise


def _temporary(path: Path) -> Path:
    """A name in the same folder that no other writer has. A process's number is no such name: those of containers are
    the same, and their caches may be shared.

    Raises Unwritable if the folder takes no new files, and other errors as OSError. Both name `path`; an error of a
    library that writes the temporary file would name that one, or give no reason.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_PARTIAL}")
    try:
        temporary.touch(exist_ok=False)
    except OSError as error:
        _explain(error, path)
        raise
    temporary.unlink()
    return temporary


def _explain(error: OSError, path: Path) -> None:
    """Raise Unwritable if the folder of `path` is the reason that it can't be created; otherwise give the error its
    name."""
    error.filename = str(path)
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        file = next((each for each in path.parents if each.is_file()), path.parent)
        said = f"{file} is a file, not a folder; choose another output path"
    elif error.errno == errno.ENOENT and not path.parent.is_dir():
        said = f"there is no folder {path.parent}; create it first, or choose another output path"
    elif error.errno in (*_CLOSED, errno.ENOENT):  # the last in /proc
        reason = os.strerror(error.errno)
        said = f"its folder takes no new files ({reason}); choose another output path, or make the folder writable"
    else:
        return
    raise Unwritable(error.errno, said, str(path)) from error


def _name(problem: BaseException, temporary: Path, path: Path) -> None:
    """Give an error the name of the file that the caller knows."""
    if isinstance(problem, OSError):
        unnamed = problem.filename is None and problem.errno in DISK_FULL
        if unnamed or str(problem.filename).startswith(str(temporary)):
            problem.filename = str(path)
    elif isinstance(problem, InputError):
        problem.args = (str(problem).replace(str(temporary), str(path)),)


def _claim(temporary: Path, path: Path) -> None:
    """Rename without replacing: creating a hard link fails if the name exists, even if another process just took it."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # the file system has no hard links
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        temporary.replace(path)
    else:
        temporary.unlink()


def sweep(folder: Path) -> None:
    """Remove leftovers of killed writers in `folder`; call it only if no other process writes there."""
    for leftover in folder.glob(f".*{_PARTIAL}*"):  # and their locks
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


class Lock:
    """Lock a file that has no other use, creating it. `close` removes it; the lock also ends with this object, and
    with the process. Processes that are forked don't inherit it.

    On a file system without locks, nothing is locked. Raises InputError with the message `busy` if another process or
    another object holds the lock, and OSError or Unwritable if the file can't be created.
    """

    def __init__(self, path: Path, busy: str) -> None:
        path.parent.stat()  # filelock would create a folder that is missing
        self._path = path
        # Otherwise a file's existence could be the lock, which a process killed on another machine leaves for ever.
        self._held = filelock.FileLock(path, thread_local=False, fallback_to_soft=False)
        try:
            self._held.acquire(timeout=0)
        except filelock.Timeout:
            if not os.path.lexists(path):
                _temporary(path)  # raises in /proc, which filelock takes for a busy folder
            raise InputError(busy) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                if not os.path.lexists(path):
                    _explain(error, path)
                raise
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """End the lock; does nothing if it has ended."""
        if not self._held.is_locked:
            return
        # Removed while it is held, so that a process that locks the same file then sees that it is gone.
        if os.name != "nt":  # which can't remove an open file
            self._path.unlink(missing_ok=True)
        self._held.release()


@contextmanager
def lock(folder: Path, what: str) -> Iterator[None]:
    """Lock `folder` for this process, creating it if missing.

    `what` describes the use for the message, such as "a training run". Raises InputError if another process holds it,
    and Unwritable if the folder can't be made or takes no files.
    """
    busy = f"{what} is at work in {folder}: wait for it, or choose another --out"
    file = folder / ".lock"
    try:
        make_parent(file)
        held = Lock(file, busy)
    except Unwritable as error:
        error.filename = str(folder)
        raise
    with closing(held):
        yield


@contextmanager
def filling(folder: Path, what: str) -> Iterator[None]:
    """As `lock`, for a folder that the block fills: leftovers of killed writers are removed before it, and the folder
    itself after it if it stays empty."""
    try:
        with lock(folder, what):
            sweep(folder)
            yield
    finally:
        with suppress(OSError):  # it is not empty, or was not made
            folder.rmdir()


def home() -> Path:
    """The user's home folder. Raises InputError if there is none, as for a container's user without a name."""
    try:
        return Path.home()
    except RuntimeError:
        raise InputError("your home folder is not known: set HOME to a folder of yours") from None


def cache_folder(name: str) -> Path:
    """The folder `name` among what imitate remembers, in $XDG_CACHE_HOME/imitate. Raises InputError as `home` does."""
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "imitate" / name


def write_json(path: Path, data: Any) -> None:
    """Write plain data atomically, creating the folder if missing."""
    make_parent(path)
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(data, indent=2) + "\n", "utf-8")


def without_nan(data: Any) -> Any:
    """Plain data with None for NaN, which JSON lacks."""
    if isinstance(data, list):
        return [without_nan(each) for each in data]
    if isinstance(data, dict):
        return {name: without_nan(value) for name, value in data.items()}
    return None if isinstance(data, float) and math.isnan(data) else data


def read_bytes(path: Path, limit: int) -> bytes:
    """The whole file. Raises InputError if it is not a file or larger than `limit` bytes, without reading more."""
    if not path.is_file():
        raise InputError(f"{path} is no file; check the path")
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise InputError(
            f"{path} has {path.stat().st_size} bytes, over the limit of {limit} for a file of its kind"
        )
    return data


class _Bounded:
    """A file whose reads end after _LARGEST_LIST bytes, since `zipfile` reads the list of members in one; `cut` says if
    more was asked for."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.cut = file, False
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        self.cut = self.cut or size > _LARGEST_LIST
        return self._file.read(_LARGEST_LIST if size < 0 else min(size, _LARGEST_LIST))


def open_zip(file: BinaryIO) -> zipfile.ZipFile:
    """Open a zip with a bounded list of members, each of which would take ten times as much memory.

    Raises BadZipFile if the file is not a zip, or its list is larger than 1 MiB.
    """
    bounded: Any = _Bounded(file)
    try:
        return zipfile.ZipFile(bounded)
    except zipfile.BadZipFile as error:
        if bounded.cut:
            raise zipfile.BadZipFile(f"its list of members is larger than {_LARGEST_LIST} bytes") from error
        raise


def last_line(path: Path) -> bytes:
    """The last whole line (at most 64 KiB) of a file that another process may be writing to; empty if there is none."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _TAIL, 0))
        return file.read(_TAIL).rpartition(b"\n")[0].rpartition(b"\n")[2]


def read_json(path: Path, type: type[T], *, limit: int = _LARGEST_JSON) -> T:
    """Read a JSON file as `type`: a dataclass, `dict[str, float]` or another type that msgspec checks.

    Raises InputError if it is not a file, too large, not JSON, nested too deeply, or has other types; the message names
    the field.
    """
    data = read_bytes(path, limit)
    try:
        return msgspec.convert(plain_json(data), type)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"{path} can't be read: {one_line(error)}; restore it or make it again") from error


def plain_json(text: str | bytes) -> Any:
    """JSON by the standard library, since it reads the Infinity that configs may hold.

    Raises ValueError for a whole number of more than 64 bits, on which arithmetic would fail much later, for half a
    surrogate pair, which can't be written, and for a text whose values could take more than about 600 MB.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    if (values := sum(map(text.count, ",[{"))) > _MOST_VALUES:
        raise ValueError(f"{values} commas and brackets, over the limit of {_MOST_VALUES}")
    data = json.loads(text, parse_int=_of_64_bits)
    if "\\ud" in text.lower():
        json.dumps(data, ensure_ascii=False).encode()
    return data


def _of_64_bits(digits: str) -> int:
    if len(digits) > 20 or abs(number := int(digits)) >= 1 << 64:
        raise ValueError(f"a number of {len(digits)} digits; wanted at most 64 bits")
    return number


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on; stored with every artefact."""
    packages = (
        "imitate-rl", "torch", "gymnasium", "numpy", "h5py", "stable-baselines3", "sb3-contrib",
        "ale-py", "mujoco", "pybullet", "box2d", "envpool", "pybullet-envs-gymnasium", "gymnasium-robotics",
    )  # fmt: skip
    return {"python": platform.python_version()} | {
        name: version for name in packages if (version := _version(name)) is not None
    }


def machine() -> dict[str, Any]:
    """Processor, cores and operating system, for records of results and speed."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.processor()
    return {"cpu": processor, "cores": os.cpu_count(), "system": platform.system()}


@cache  # looking one up takes half a millisecond
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
