"""The `imitate` command: streams, signals, and the exit status."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from imitate.commands.line import CommandLine
from imitate.commands.table import COMMANDS, find
from imitate.errors import DISK_FULL, InputError, one_line
from imitate.terminal import plain_output
from imitate.training.process import terminations

__all__ = ["main"]

FILE_ERRORS = (
    errno.EACCES, errno.EDQUOT, errno.EEXIST, errno.EFBIG, errno.EIO, errno.EISDIR, errno.ELOOP, errno.EMFILE,
    errno.ENAMETOOLONG, errno.ENFILE, errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS,
)  # fmt: skip
"""File errors that are not our mistakes."""


class _Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, handled like Ctrl-C."""

    def __init__(self, number: int) -> None:
        self.number = number


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand and return the exit status.

    2: the caller's mistake, reported in one line on standard error. 130: Ctrl-C. 143: SIGTERM. 129: SIGHUP, as the
    terminal closed. 141: the reader of the output closed it, as `head` does.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_streams()
    with plain_output(), _terminable():
        try:
            try:
                return _run(arguments)
            finally:
                sys.stdout.flush()  # inside the try, so that a closed pipe or a full disk is handled below
        except BrokenPipeError:
            _forget_output()
            return 141
        except InputError as error:
            print(f"imitate: {one_line(error)}", file=sys.stderr)
            return 2
        except OSError as error:
            if error.errno not in FILE_ERRORS:
                raise
            if error.filename is None:
                _forget_output()
            said = os.strerror(error.errno)
            if error.errno in (errno.EMFILE, errno.ENFILE):
                said += "; raise `ulimit -n`, or ask for fewer workers or environments"
            elif error.filename is not None:
                remedy = "; make room, or write to another disk" if error.errno in DISK_FULL else ""
                said = f"can't use {error.filename}: {said}{remedy}"
            _say(one_line(said), error)
            return 2
        except (MemoryError, RuntimeError) as error:
            # Torch raises these as its MemoryError, on a processor and on a GPU.
            full = "allocate memory" in str(error) or "out of memory" in str(error)
            if isinstance(error, RuntimeError) and not full:
                raise
            _say(f"the memory is full ({one_line(error)}); ask for less", error)
            return 2
        except KeyboardInterrupt as error:
            number = error.number if isinstance(error, _Terminated) else signal.SIGINT
            _say("interrupted" if number == signal.SIGINT else "terminated", error)
            return 128 + number


def _say(text: str, error: BaseException) -> None:
    """Print an error in one line, with its notes, which say what is kept."""
    notes = (note.removeprefix("imitate: ") for note in getattr(error, "__notes__", []))
    print("; ".join([f"imitate: {text}", *notes]), file=sys.stderr)


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        from importlib import metadata  # takes a tenth of a second, too slow for help

        print(f"imitate-rl {metadata.version('imitate-rl')}")
        return 0
    # Before torch starts its threads: networks this small are slower on several.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for argument in arguments:
        if "\0" in argument or not _is_text(argument):
            raise InputError(f"{argument!r} is not UTF-8 text, which records of a run are: rename the file")
    typed = CommandLine(arguments)
    if names := [*typed.values("--env"), *typed.values("--expert")]:
        from imitate.envs.trust import trust  # imports gymnasium, which `doctor` must find broken by itself

        trust(*names)
    logging.basicConfig(format="imitate: %(message)s", level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("imitate").setLevel(logging.INFO)
    return find(arguments[0])(arguments[1:])


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:  # bytes in another encoding appear as lone surrogates
        return False
    return True


def _open_streams() -> None:
    """Open closed standard streams to the null device; otherwise the next opened file would take their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115  # open until the process ends


def _forget_output() -> None:
    """Send output that is flushed at exit to the null device."""
    with suppress(OSError, ValueError):  # no real file, as in tests, or no descriptor left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _terminable() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return
    owner = os.getpid()

    def terminate(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if os.getpid() == owner:
            raise _Terminated(number)
        os._exit(128 + number)  # a forked worker that inherited this handler

    def insist(unraisable: sys.UnraisableHookArgs) -> None:  # Python drops what is raised in a destructor
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            # Later, as it would be dropped again here.
            number = getattr(unraisable.exc_value, "number", signal.SIGINT)
            threading.Timer(0.1, os.kill, (owner, number)).start()
        else:
            hook(unraisable)

    before = {number: signal.signal(number, terminate) for number in terminations()}
    hook = sys.unraisablehook
    sys.unraisablehook = insist
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "usage: imitate COMMAND [options]",
            "",
            "Imitation learning from real experts, compared with pure RL.",
            "",
            *lines,
            "",
            "`imitate COMMAND --help` describes a command's options.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
