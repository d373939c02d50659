"""Runs code that may crash, hang or exhaust memory in a short-lived child process, where it does no harm."""

from __future__ import annotations

import faulthandler
import gc
import json
import math
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from imitate.datasets.storage.schema import LONGEST_KWARGS
from imitate.envs.answers import closing_env
from imitate.envs.make import make_env
from imitate.errors import InputError, one_line

__all__ = ["check_env", "contained", "contained_once"]

SECONDS = 10.0
_PATIENCE = 3  # a busy machine may give the child only a third of a processor
MEMORY = 3 << 27
"""Bytes that the child may allocate in addition to the caller's."""

_ENV_SECONDS = 5.0

_SAME_TICK = 20_000_000
"""Nanoseconds in which two changes of a file may get the same time."""

FORKS = hasattr(os, "fork")

_passed: set[tuple[object, ...]] = set()
"""Checks, and the states of the files that passed them."""

_OK, _REFUSED = b"\0", b"\1"
_LONGEST_MESSAGE = 2048  # bytes that a pipe takes in one piece


def contained(
    check: Callable[[], None], what: str, seconds: float | None = None, memory: int = MEMORY
) -> None:
    """Run `check` in a fork of this process, within `memory`, `seconds` of processor time (default: SECONDS) and three
    times as many seconds of wall time. A fork costs 3 to 50 ms; a new interpreter would cost 300. Windows has no fork,
    so there `check` runs in this process.

    Raises InputError if `check` raises, with its message, or if the child crashes or takes too long. `what` names the
    checked thing in the message.
    """
    if not FORKS:
        check()
        return
    seconds = SECONDS if seconds is None else seconds
    receive, send = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns about threads that may hold locks. The child calls only HDF5, and h5py handles its lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _child(check, send, seconds, memory)
    os.close(send)
    slow = False  # also if a signal ends the wait
    try:
        waiting = select.poll()  # `select` takes no descriptor above 1,023
        waiting.register(receive, select.POLLIN)
        ready = waiting.poll(1_000 * _PATIENCE * seconds)
        message = os.read(receive, 1 + _LONGEST_MESSAGE) if ready else b""
        slow = not ready
    finally:
        os.close(receive)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):  # other code has waited for all children
            _, status = os.waitpid(child, 0)
            slow |= os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
    if message.startswith(_REFUSED):
        said = message[1:].decode("utf-8", "replace")
        raise InputError(said if what in said else f"{what}: {said}")
    if message != _OK:
        how = f"can't be opened within {seconds:.0f} s" if slow else "crashes the library that opens it"
        busy = ", unless this machine is very busy" if slow else ""
        raise InputError(f"{what} {how}: it is damaged{busy}; restore it or record it again")


def contained_once(check: Callable[[Path], None], path: Path, seconds: float | None = None) -> None:
    """`contained` for a file. If it passed `check` in this process and has not changed since, nothing is done."""
    found = path.stat()
    state = check, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    if state in _passed:
        return
    contained(partial(check, path), str(path), seconds)
    if time.time_ns() - found.st_ctime_ns > _SAME_TICK:
        _passed.add(state)


def check_env(env_id: str, env_kwargs: Mapping[str, Any]) -> None:
    """Raise InputError if an environment with keywords that a file chose would take too much memory or time, or crash.

    It is made in a child process. An environment that can't be made raises nothing here; making it in this process
    gives the reason.
    """
    if not env_kwargs:
        return
    what = f"{env_id} with the env_kwargs that the file names"
    if len(json.dumps(dict(env_kwargs), default=str)) > LONGEST_KWARGS:
        raise InputError(f"{what}: they have more than {LONGEST_KWARGS} characters; shorten them")
    contained(partial(_make, env_id, env_kwargs), what, _ENV_SECONDS)


def _make(env_id: str, env_kwargs: Mapping[str, Any]) -> None:
    with suppress(InputError), closing_env(make_env(env_id, env_kwargs)):
        pass


def _child(check: Callable[[], None], send: int, seconds: float, memory: int) -> NoReturn:
    try:
        gc.freeze()  # the parent's garbage, such as a decoder, may refer to threads that don't exist here
        faulthandler.disable()
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), 2)  # a crashing allocator writes there
        _limit(seconds, memory)
        check()
        os.write(send, _OK)
    except InputError as error:
        os.write(send, _REFUSED + str(error).encode("utf-8", "replace")[:_LONGEST_MESSAGE])
    except MemoryError:
        os.write(send, _REFUSED + f"it would take more than {memory >> 20} MiB of memory".encode())
    except BaseException as error:
        os.write(send, _REFUSED + one_line(error).encode("utf-8", "replace")[:_LONGEST_MESSAGE])
    finally:
        os._exit(0)  # so that nothing of the parent is flushed, closed or removed


def _limit(seconds: float, memory: int) -> None:
    import resource  # POSIX only

    def lower(kind: int, limit: int) -> None:
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))

    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_CPU, math.ceil(seconds))
    if sys.platform == "linux":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        lower(resource.RLIMIT_AS, used + memory)
