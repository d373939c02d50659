"""Tasks in processes of this machine."""

from __future__ import annotations

import _thread
import logging
import multiprocessing as mp
import os
import queue
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from types import TracebackType
from typing import Self

from imitate.compare.backends import Failure, Task, now_and_then, perform, settle
from imitate.training.process import interruptions

__all__ = ["Processes", "environment"]

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.2
_MOST_ON_WINDOWS = 61  # it waits for 64 objects at most, and the executor needs three of its own


class Processes:
    """A `Backend` of `workers` processes, at most 61 on Windows. They end when this process ends, however that happens.

    To stop them, it writes to a pipe that they look at and nobody reads. Setting an `Event` would wait for ever for a
    worker that was killed while it waited for the event.
    """

    def __init__(self, workers: int) -> None:
        self._workers = min(workers, _MOST_ON_WINDOWS) if sys.platform == "win32" else workers
        self._waiting: deque[Task] = deque()
        self._running: dict[Future[Failure | None], str] = {}
        self._processes: Callable[[], ProcessPoolExecutor]
        self._executor: ProcessPoolExecutor

    def submit(self, task: Task) -> None:
        self._waiting.append(task)
        self._fill()

    def _fill(self) -> None:
        """Begin as many waiting tasks as there are workers. A worker that dies takes all tasks with it that have
        begun."""
        while self._waiting and len(self._running) < self._workers:
            task = self._waiting.popleft()
            with _uninterrupted():
                try:
                    future = self._executor.submit(_perform, task)
                except BrokenProcessPool:  # this one has new processes
                    self._executor.shutdown(wait=False)
                    self._executor = self._processes()
                    future = self._executor.submit(_perform, task)
            self._running[future] = task.name

    def ended(self) -> Iterator[tuple[str, Failure | None]]:
        done, _ = wait(self._running, POLL_SECONDS, FIRST_COMPLETED)
        for future in done:
            name = self._running.pop(future)
            if error := future.exception():  # the process failed; a task's own errors come as a Failure
                died = f"its process died ({error}); was it killed, or the memory full? Run it again"
                yield name, Failure(died)
            else:
                yield name, future.result()
        self._fill()

    def news(self) -> Iterator[tuple[str, int]]:
        while True:
            try:
                yield self._messages.get_nowait()
            except queue.Empty:
                return

    def __enter__(self) -> Self:
        context = _context()
        self._messages: mp.Queue[tuple[str, int]] = context.Queue()
        stop, self._stop = context.Pipe(duplex=False)
        given = self._messages, stop, dict(os.environ)
        self._processes = partial(ProcessPoolExecutor, self._workers, context, _begin, given)
        self._executor = self._processes()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._stop.send(True)
            logger.info("stopping: tasks under way save what they have")
        try:
            self._executor.shutdown(cancel_futures=True)
        except KeyboardInterrupt:
            for process in mp.active_children():
                process.kill()
            raise
        finally:
            self._waiting.clear()
            self._running.clear()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP wait until the executor knows the worker that it starts: one that it doesn't know
    outlives this process, and ends with a traceback."""
    if threading.current_thread() is not threading.main_thread():  # signals interrupt only that
        yield
        return
    came: list[int] = []
    before = {each: signal.signal(each, lambda number, _: came.append(number)) for each in interruptions()}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in sorted(set(came), key=came.index):
            signal.raise_signal(number)


def _context() -> BaseContext:
    """Workers are not forked from this process: torch's and HDF5's threads and locks do not survive a fork. On Linux
    they are forked from a server that has imported torch and runs nothing, as the import takes seconds."""
    if sys.platform != "linux":
        return mp.get_context("spawn")
    from multiprocessing import forkserver, resource_tracker

    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["imitate.compare.execute.worker"])
    with environment("PYTHONSAFEPATH", "1"):  # the server imports nothing that lies in the current folder
        # Batch systems send SIGTERM to every process of a job, and a terminal that closes SIGHUP. Without the server
        # nobody waits for workers to save.
        both = {signal.SIGTERM, signal.SIGHUP}
        signals = signal.pthread_sigmask(signal.SIG_BLOCK, both)
        try:
            resource_tracker.ensure_running()
            signal.pthread_sigmask(signal.SIG_BLOCK, both)  # starting the tracker unblocks SIGTERM
            forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    return context


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """Set a variable of this process's environment, which its children inherit, for as long as the context lasts."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


_messages: mp.Queue[tuple[str, int]]
_stop: Connection
_working = threading.Lock()
"""Held while this worker carries out a task."""


def _begin(messages: mp.Queue[tuple[str, int]], stop: Connection, environment: Mapping[str, str]) -> None:
    """Prepare a worker. It gets its own process group, so the terminal's Ctrl-C reaches only the main process, which
    tells the workers through `stop`."""
    global _messages, _stop
    _messages, _stop = messages, stop
    os.environ.clear()  # a server has that of the time when it was started
    os.environ.update(environment)
    if hasattr(os, "setpgrp"):
        os.setpgrp()
    settle()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGHUP})
    threading.Thread(target=_watch, args=(stop,), daemon=True).start()


def _watch(stop: Connection) -> None:
    """Interrupt this worker's task if the main process says so, and then wait for the task. Exit when the main process
    is gone."""
    parent = mp.parent_process()
    assert parent is not None
    while not stop.poll(POLL_SECONDS) and parent.is_alive():
        pass
    if parent.is_alive():
        if os.name == "nt":  # os.kill would end the process at once here
            _thread.interrupt_main()
        else:
            os.kill(os.getpid(), signal.SIGINT)
        parent.join()
        _working.acquire()
    os._exit(1)


def _perform(task: Task) -> Failure | None:
    """Run one task in a worker."""
    with _working:
        if _stop.poll():
            return None
        # Not at every iteration, since only people read the bar.
        report = now_and_then(lambda position: _messages.put((task.name, position)), POLL_SECONDS)
        report(0)
        return perform(task, task.root, report)
