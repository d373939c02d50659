"""Scripts in processes of their own, forked from one that has imported torch and imitate, which takes two seconds.

A script that needs a fresh interpreter or closed streams is run with `subprocess` instead.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import CompletedProcess
from typing import Self

COMMAND = "import sys; from imitate.cli import main; sys.exit(main(sys.argv[1:]))"

_context = mp.get_context("forkserver")
# One server serves these scripts and the workers of comparisons.
_context.set_forkserver_preload(["imitate.cli", "imitate.compare.execute.worker", "imitate.imitators.dagger"])


class Script:
    """A running script with these arguments, in the folder `cwd`.

    terminal    the descriptor that it writes to, instead of the pipes `stdout` and `stderr`
    """

    def __init__(
        self, script: str, *args: str, cwd: str | Path | None = None, terminal: int | None = None
    ) -> None:
        outputs, ours = [], []
        for _ in range(2):
            reader, writer = mp.Pipe(duplex=False)
            ours.append(os.fdopen(os.dup(reader.fileno())))
            reader.close()
            if terminal is not None:
                writer.close()
                writer = Connection(os.dup(terminal), readable=False)
            outputs.append(writer)
        self.stdout, self.stderr = ours
        self._process = _context.Process(target=_run, args=(script, args, cwd or Path.cwd(), outputs))
        self._process.start()
        for writer in outputs:
            writer.close()

    def poll(self) -> int | None:
        """The status it ended with, minus the signal if one ended it; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._process.pid or 0, number)

    def wait(self, seconds: float = 200) -> int:
        """The status it ends with."""
        self._process.join(seconds)
        assert self._process.exitcode is not None, f"it still runs after {seconds} s"
        return self._process.exitcode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self.stdout.close()
        self.stderr.close()


def run(script: str, *args: str, cwd: str | Path | None = None) -> CompletedProcess[str]:
    """A script that has ended, with a little output."""
    with Script(script, *args, cwd=cwd) as running:
        out, err = running.stdout.read(), running.stderr.read()
        return CompletedProcess(args, running.wait(), out, err)


def in_a_process(*args: str, cwd: str | Path | None = None) -> CompletedProcess[str]:
    """`imitate` with these arguments."""
    return run(COMMAND, *args, cwd=cwd)


def _run(script: str, args: tuple[str, ...], cwd: str | Path, outputs: list[Connection]) -> None:
    if hasattr(signal, "pthread_sigmask"):  # the server blocks these if a comparison has started it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGHUP})
    os.chdir(cwd)
    for number, output in enumerate(outputs, 1):
        os.dup2(output.fileno(), number)
        output.close()
    sys.argv = ["-c", *args]
    sys.dont_write_bytecode = True  # a limit on the size of files would leave half of a module's
    exec(compile(script, "<script>", "exec"), {"__name__": "__main__"})
