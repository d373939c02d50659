"""The `imitate` command: a table of subcommands that are imported only when called, so that help is instant."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module, metadata

from imitate.algorithms import ALGORITHMS

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
    errno.EACCES, errno.EDQUOT, errno.EEXIST, errno.EFBIG, errno.EISDIR, errno.ENOENT, errno.ENOSPC, errno.ENOTDIR,
    errno.EPERM, errno.EROFS,
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; the caller's mistakes are one line on standard error and status 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"imitate-rl {metadata.version('imitate-rl')}")
        return 0
    # Before torch starts its threads: networks as small as these are slower on several.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from imitate.envs.trust import trust
    from imitate.errors import InputError

    for option, value in zip(arguments, [*arguments[1:], ""], strict=True):
        if option == "--env" or option.startswith("--env="):
            trust(option.removeprefix("--env=") if "=" in option else value)

    logging.basicConfig(format="imitate: %(message)s", level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("imitate").setLevel(logging.INFO)
    try:
        try:
            return _command(arguments)(arguments[1:])
        finally:
            sys.stdout.flush()  # here, where it is caught that nobody reads
    except InputError as error:
        print(f"imitate: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output, `head` perhaps, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is flushed at exit goes nowhere
        return 141
    except OSError as error:
        if error.errno not in FILE_ERRORS:
            raise
        print(
            f"imitate: can't use {error.filename or 'the output'}: {os.strerror(error.errno)}",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print("imitate: interrupted", file=sys.stderr)
        return 130


def _command(arguments: list[str]) -> Callable[[list[str]], int]:
    from imitate.errors import InputError, did_you_mean

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
