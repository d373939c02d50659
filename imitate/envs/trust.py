"""Which modules `module:name` may import: those that the user typed, but none that a file names."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from imitate.errors import InputError, one_line

__all__ = ["bare_id", "current_folder", "import_typed", "trust"]

_trusted: set[str] = set()


def trust(name: str) -> None:
    """Allow the module of `module:name`, which the user typed, to be imported in this process.

    The command line calls it with the values of `--env` and with experts' names. Names without a module are ignored,
    and so are the prefixes `zoo:` and `hub:`.
    """
    module, colon, _ = name.rpartition(":")
    if colon and module not in ("zoo", "hub"):
        _trusted.add(module)


def import_typed(name: str, option: str = "") -> ModuleType:
    """Import the module of `module:name`, which may be in the current folder. `option` is the one that names it.

    Raises InputError if the import fails, and for a module that is neither imported already nor trusted.
    """
    module = name.rpartition(":")[0]
    if module in sys.modules:
        return sys.modules[module]
    if module not in _trusted:
        option = option or ("--env" if re.search(r"-v\d+$", name) else "--expert")
        raise InputError(
            f"{name!r} would import {module!r}, and a file may not choose what is imported: "
            f"if you trust it, say {option} {name} (in Python: import {module})"
        )
    try:
        with current_folder():
            return importlib.import_module(module)
    except Exception as error:  # a module may raise anything; the traceback is kept as the cause
        raise InputError(f"module {module!r} of {name!r} can't be imported: {one_line(error)}") from error


@contextmanager
def current_folder() -> Iterator[None]:
    """Keep the current folder at the end of the import path while a module that the user typed is imported."""
    folder = str(Path.cwd())
    sys.path.append(folder)
    try:
        yield
    finally:
        if folder in sys.path:
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]


def bare_id(env_id: str) -> str:
    """The id without its module: `module:Env-v0` and `Env-v0` are the same environment."""
    return env_id.rpartition(":")[2]
