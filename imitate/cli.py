"""The `imitate` command: a table of subcommands that are imported only when called, so that help is instant."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType

from imitate.algorithms import ALGORITHMS
from imitate.errors import InputError, did_you_mean, one_line

__all__ = ["main"]

COMMANDS = {
    "quickstart": "compare BC, DAgger and PPO on CartPole with a bundled expert, in minutes",
    "collect": "record an expert's demonstrations to HDF5",
    "data": "`data info FILE` describes demonstrations, `data validate FILE` checks them",
    "train": f"`train ALGO --env ENV ...` trains {', '.join(ALGORITHMS)}",
    "evaluate": "measure a run or an expert, with a video if you like",
    "compare": "imitation and RL on one budget of environment steps, with a report",
    "report": "write a comparison's report anew, or one report of several folders",
    "envs": "list the environments that can be run here, and what an extra would add",
    "expert": "`expert list`, `show SPEC`, `check SPEC`, `train --algo ALGO --env ENV --out FOLDER`",
}


FILE_ERRORS = (
    errno.EACCES, errno.EDQUOT, errno.EEXIST, errno.EFBIG, errno.EIO, errno.EISDIR, errno.ELOOP, errno.EMFILE,
    errno.ENAMETOOLONG, errno.ENFILE, errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS,
)  # fmt: skip
"""What goes wrong with files without a mistake of ours."""


class _Terminated(KeyboardInterrupt):
    """SIGTERM: whatever is done at Ctrl-C is done here too."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; the caller's mistakes are one line on standard error and status 2.

    Ctrl-C is status 130, SIGTERM 143; a reader of the output that has enough, such as `head`, is 141.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_streams()
    with _sigterm():
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
            what = f"can't use {error.filename}: " if error.filename is not None else ""
            print(f"imitate: {what}{os.strerror(error.errno)}", file=sys.stderr)
            return 2
        except _Terminated:
            print("imitate: terminated", file=sys.stderr)
            return 143
        except KeyboardInterrupt:
            print("imitate: interrupted", file=sys.stderr)
            return 130


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        from importlib import metadata  # a tenth of a second, which help does not have

        print(f"imitate-rl {metadata.version('imitate-rl')}")
        return 0
    # Before torch starts its threads: networks as small as these are slower on several.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from imitate.envs.trust import trust

    for argument in arguments:
        if "\0" in argument or not _is_text(argument):
            raise InputError(f"{argument!r} is not UTF-8 text, which records of a run are: rename the file")
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        option, equals, joined = argument.partition("=")
        if option in ("--env", "--expert"):
            trust(joined if equals else following)
    logging.basicConfig(format="imitate: %(message)s", level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("imitate").setLevel(logging.INFO)
    return _command(arguments)(arguments[1:])


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:  # bytes of another encoding come as lone surrogates
        return False
    return True


def _open_streams() -> None:
    """Standard streams that were closed lead nowhere: otherwise the next file that is opened takes their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115  # for the whole process


def _forget_output() -> None:
    """What is left to be flushed at exit goes nowhere."""
    with suppress(OSError, ValueError):  # no file, as in tests; or no descriptor is left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _sigterm() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # signals are for that one alone
        yield
        return
    owner = os.getpid()

    def terminate(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if os.getpid() == owner:
            raise _Terminated
        os._exit(128 + number)  # a forked worker, which has inherited this

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _command(arguments: list[str]) -> Callable[[list[str]], int]:
    name = arguments[0]
    if name not in COMMANDS:
        raise InputError(f"unknown command {name!r}{did_you_mean(name, COMMANDS)}; see `imitate --help`")
    module = import_module(f"imitate.commands.{'compare' if name == 'quickstart' else name}")
    command: Callable[[list[str]], int] = getattr(module, name)
    return command


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
