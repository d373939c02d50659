"""Named jobs in a pool of processes: they report progress, fail one by one, and save and stop together."""

from __future__ import annotations

import _thread
import logging
import multiprocessing as mp
import os
import queue
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch

from imitate.errors import InputError
from imitate.files import read_json, write_json

__all__ = ["Processes"]

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.2

Report = Callable[[int], None]


class Processes:
    """Worker processes. A job is a function and its arguments, called with `progress=`; it raises, or
    returns. What went wrong with `part/job` is left in `out`/part/errors, with `job` in `out`/errors.

    On leaving the context by Ctrl-C, jobs under way are interrupted once, so that they save what they have,
    and are waited for; a second Ctrl-C kills them. Workers end with this process, however that ends.
    """

    def __init__(self, workers: int, out: Path) -> None:
        # Spawned, not forked: torch's and HDF5's threads and locks do not survive a fork.
        context = mp.get_context("spawn")
        self._out = out
        self._messages: mp.Queue[tuple[str, int]] = context.Queue()
        self._stop = context.Event()
        self._executor = ProcessPoolExecutor(workers, context, _begin, (self._messages, self._stop))
        self.running: dict[Future[None], str] = {}
        self.alive: dict[str, None] = {}
        """Names of the jobs that have begun, in that order."""

    def submit(self, name: str, job: Callable[..., Any], *args: Any) -> None:
        self._error_file(name).unlink(missing_ok=True)  # of an earlier try
        self.running[self._executor.submit(_perform, name, self._error_file(name), job, args)] = name

    def ended(self) -> Iterator[str]:
        """Wait a moment; the names of jobs that have ended, well or not (`failed`)."""
        done, _ = wait(self.running, POLL_SECONDS, FIRST_COMPLETED)
        for future in done:
            name = self.running.pop(future)
            self.alive.pop(name, None)
            if error := future.exception():  # of the process: a job's own are recorded where it runs
                self.fail(
                    name, f"its process died ({error}); was it killed, or the memory full? Run it again"
                )
            yield name

    def news(self) -> Iterator[tuple[str, int]]:
        """Reported since the last call: (name, progress)."""
        while True:
            try:
                name, position = self._messages.get_nowait()
            except queue.Empty:
                return
            if name in self.running.values():
                self.alive[name] = None
            yield name, position

    def failed(self, name: str) -> str | None:
        """What went wrong with a job, in one line."""
        path = self._error_file(name)
        return read_json(path, dict[str, str])["error"] if path.is_file() else None

    def fail(self, name: str, reason: str) -> None:
        job = name.rpartition("/")[2]
        write_json(self._error_file(name), {"error": f"{job}: {reason}", "traceback": ""})

    def _error_file(self, name: str) -> Path:
        folder, _, job = name.rpartition("/")
        return self._out / folder / "errors" / f"{job.replace(' ', '-').replace(':', '-')}.json"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._stop.set()
            logger.info("stopping: jobs under way save what they have")
        try:
            self._executor.shutdown(cancel_futures=True)
        except KeyboardInterrupt:
            for process in mp.active_children():
                process.kill()
            raise


_messages: mp.Queue[tuple[str, int]]
_stop: Any


def _begin(messages: mp.Queue[tuple[str, int]], stop: Any) -> None:
    """In a worker, first. Its own process group: the terminal's Ctrl-C reaches only the main process, which
    tells the workers through `stop`."""
    global _messages, _stop
    _messages, _stop = messages, stop
    if hasattr(os, "setpgrp"):
        os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("imitate").setLevel(logging.ERROR)  # notices are the main process's: said once
    threading.Thread(target=_watch, args=(stop,), daemon=True).start()


def _watch(stop: Any) -> None:
    """Interrupt this worker's job when all are to stop; leave when the main process is gone."""
    parent = mp.parent_process()
    while parent is not None and parent.is_alive():
        if stop.wait(POLL_SECONDS):
            if os.name == "nt":  # where os.kill would end the process at once
                _thread.interrupt_main()
            else:
                os.kill(os.getpid(), signal.SIGINT)
            return
    os._exit(1)


def _perform(name: str, error_file: Path, job: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """In a worker: one job. An error is left in `error_file`; Ctrl-C is not an error."""
    if _stop.is_set():
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        job(*args, progress=_reporter(name))
    except KeyboardInterrupt:
        pass
    except Exception as error:
        line = " ".join(str(error).split())
        line = line if isinstance(error, InputError) else f"{type(error).__name__}: {line}"
        short = name.rpartition("/")[2]
        write_json(error_file, {"error": f"{short}: {line}", "traceback": traceback.format_exc()})
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _reporter(name: str) -> Report:
    due = 0.0

    def report(position: int) -> None:
        nonlocal due
        if time.monotonic() >= due:  # not every iteration: the bar is for people
            due = time.monotonic() + POLL_SECONDS
            _messages.put((name, position))

    report(0)
    return report
