"""Care with data of others: what their errors become, what is said of them, how much they may claim."""

from __future__ import annotations

import errno
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from imitate.errors import InputError, one_line

__all__ = ["Notes", "most_episodes", "needs", "refused"]

Notes = Counter[str]
"""What the result does not have as the source had it, and how often."""

_BYTES_OF_AN_EPISODE = 16  # at least, in any file


def needs(module: str) -> Any:
    """A package of the extra `formats`, imported. Raises InputError where it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"this format needs {module.partition('.')[0]}: pip install 'imitate-rl[formats]'"
        ) from error


def most_episodes(path: Path) -> int:
    """How many episodes a data set can hold. A table that claims more repeats one row without end."""
    files = path.rglob("*") if path.is_dir() else [path]
    return 1000 + sum(file.stat().st_size for file in files if file.is_file()) // _BYTES_OF_AN_EPISODE


class refused:
    """As a context: an InputError says of what it is, and whatever else goes wrong in foreign data becomes one."""

    def __init__(self, what: str | Path) -> None:
        self._what = str(what)

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, InputError):
            if self._what not in str(error):
                raise InputError(f"{self._what}: {error}") from error
        elif isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            return  # of the disk, and not of what is in the file
        elif isinstance(error, Exception):
            raise InputError(
                f"{self._what} can't be read ({type(error).__name__}: {one_line(error)[:200]}): it is damaged or "
                "of another version"
            ) from error
