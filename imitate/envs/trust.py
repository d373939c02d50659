"""Decides whether `module:name` may run code: only if the user typed the name, never because a file contains it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType

from imitate.errors import InputError, one_line

__all__ = ["bare_id", "current_folder", "import_env", "import_typed", "trust", "trusted"]

_trusted: set[str] = set()


def trust(*names: str) -> None:
    """Allow `module:name` in this process: the module may be imported, and its expert or learner of that name called.

    The command line calls it with the names that the user typed. In Python call it yourself. Worker processes trust the
    same names as the process that started them. Names without a module are ignored.
    """
    _trusted.update(name for name in names if ":" in name)


def trusted() -> frozenset[str]:
    """All names that this process trusts, to be passed to the processes that it starts."""
    return frozenset(_trusted)


def import_typed(name: str, option: str = "--expert") -> ModuleType:
    """Import the module of an expert or a learner, `module:name`. `option` is the command line's option for such a
    name.

    Raises InputError if the import fails, or if the name isn't trusted, even if its module is imported already.
    Otherwise a file could have any function called, such as `os:abort`.
    """
    if name not in _trusted:
        raise _refusal(name, option)
    return _imported(name)


def import_env(env_id: str) -> None:
    """Import the module of `module:Env-v0`, so that it registers the environment.

    Raises InputError if the import fails, or if no name of this module is trusted. If the module is imported and the
    environment is registered already, trust is not needed, since no code is run.
    """
    if _trusts_module(env_id):
        _imported(env_id)
        return
    from gymnasium import registry  # takes a fifth of a second, which help does not have

    if _module(env_id) not in sys.modules or bare_id(env_id) not in registry:
        raise _refusal(env_id, "--env")


def current_folder(env_id: str) -> AbstractContextManager[None]:
    """Keep the current folder at the end of the import path if the module of `module:Env-v0` is trusted.

    The environment's class may be in another module beside it.
    """
    return _current_folder() if _trusts_module(env_id) else nullcontext()


def bare_id(env_id: str) -> str:
    """The id without its module: `module:Env-v0` and `Env-v0` are the same environment."""
    return env_id.rpartition(":")[2]


def _module(name: str) -> str:
    return name.rpartition(":")[0]


def _trusts_module(env_id: str) -> bool:
    return _module(env_id) in map(_module, _trusted)


def _refusal(name: str, option: str) -> InputError:
    return InputError(
        f"{name!r} would run code of {_module(name)!r}, and a file may not choose what is imported or called: "
        f"if you trust it, say {option} {name} (for a suite: `compare --trust {name}`; "
        f"in Python: imitate.trust({name!r}))"
    )


def _imported(name: str) -> ModuleType:
    try:
        with _current_folder():
            return importlib.import_module(_module(name))
    except Exception as error:  # a module may raise anything; the traceback is kept as the cause
        raise InputError(
            f"module {_module(name)!r} of {name!r} can't be imported: {one_line(error)}"
        ) from error


@contextmanager
def _current_folder() -> Iterator[None]:
    folder = str(Path.cwd())
    sys.path.append(folder)
    try:
        yield
    finally:
        if folder in sys.path:
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]
