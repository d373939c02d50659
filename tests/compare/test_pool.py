"""Jobs in parallel fail alone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
from tasks import die, double, save_at_the_end, show

from imitate.compare.backends import Task
from imitate.compare.backends.pool import Pool
from imitate.compare.backends.processes import Processes


@pytest.fixture(scope="module", autouse=True)
def server() -> None:
    """The server of processes is one that `Processes` has started."""
    if sys.platform == "linux":
        forkserver._forkserver._stop()  # type: ignore[attr-defined]  # another test's


def test_jobs_fail_alone(tmp_path: Path) -> None:
    with Processes(1) as backend:
        pool = Pool(backend, tmp_path)
        for value in (1, -1, 99, 3):
            pool.submit(Task(f"job {value}", double, (value,), root=tmp_path))
        ended: list[str] = []
        while pool.running:
            ended += pool.ended()
        names = ["job -1", "job 1", "job 3", "job 99"]
        assert sorted(ended) == names
        assert (tmp_path / "1").read_text("utf-8") == "2"
        assert (tmp_path / "3").read_text("utf-8") == "6"
        news: dict[str, int] = {}
        deadline = (
            time.monotonic() + 120
        )  # a worker's queue is emptied by a thread: news may come after the end
        while sorted(news) != names and time.monotonic() < deadline:
            news |= dict(pool.news())
        assert sorted(news) == names
        assert pool.failed("job 1") is None
        assert pool.failed("job -1") == "job -1: a negative value"
        assert pool.failed("job 99") == "job 99: RuntimeError: two lines"
        assert (
            "Traceback" in json.loads((tmp_path / "errors" / "job-99.json").read_text("utf-8"))["traceback"]
        )


def test_a_killed_worker_is_a_failure_of_its_job(tmp_path: Path) -> None:
    with Processes(1) as backend:
        pool = Pool(backend, tmp_path)
        pool.submit(Task("job", die))
        for value in (1, 3):  # these wait, and go on in new processes
            pool.submit(Task(f"job {value}", double, (value,), root=tmp_path))
        while pool.running:
            list(pool.ended())
        assert "its process died" in str(pool.failed("job"))
        assert pool.failed("job 1") is pool.failed("job 3") is None
        assert [(tmp_path / name).read_text("utf-8") for name in ("1", "3")] == ["2", "6"]


def test_a_stop_does_not_wait_for_a_killed_worker(tmp_path: Path) -> None:
    def stop() -> None:
        with contextlib.suppress(ZeroDivisionError), Processes(1) as backend:
            pool = Pool(backend, tmp_path)
            pool.submit(Task("job", die))
            while pool.running:
                list(pool.ended())
            raise ZeroDivisionError

    stopping = threading.Thread(target=stop, daemon=True)
    stopping.start()
    stopping.join(120)
    assert not stopping.is_alive()


@pytest.mark.skipif(sys.platform != "linux", reason="only there is a server of processes")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_task_saves_when_every_process_gets_a_signal(tmp_path: Path, name: str) -> None:
    """SLURM sends SIGTERM when a job is cancelled, preempted or out of time, and a terminal that closes SIGHUP."""
    with contextlib.suppress(KeyboardInterrupt), Processes(1) as backend:
        Pool(backend, tmp_path).submit(Task("job", save_at_the_end, root=tmp_path))
        deadline = time.monotonic() + 120
        while not (tmp_path / "at-work").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
        for process in (int((tmp_path / "at-work").read_text("utf-8")), server):
            os.kill(process, getattr(signal, name))
        raise KeyboardInterrupt  # as the command's own handler
    assert (tmp_path / "saved").read_text("utf-8") == "all"


def test_workers_have_the_environment_of_their_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are forked from a server that may have been started long before."""
    for value in ("first", "second"):
        monkeypatch.setenv("SHOWN", value)
        with Processes(1) as backend:
            pool = Pool(backend, tmp_path)
            pool.submit(Task(value, show, ("SHOWN",), root=tmp_path))
            while pool.running:
                list(pool.ended())
        assert (tmp_path / "SHOWN").read_text("utf-8") == value


def test_ctrl_c_waits_until_the_worker_that_starts_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise nobody waits for this worker, which then finds its queue gone and prints a traceback."""
    known = []

    class Executor:
        def __init__(self, *_: Any) -> None: ...

        def submit(self, _perform: Any, task: Task) -> None:
            os.kill(os.getpid(), signal.SIGINT)  # while the process starts
            time.sleep(0.1)
            known.append(task.name)

        def shutdown(self, **_: bool) -> None: ...

    monkeypatch.setattr("imitate.compare.backends.processes.ProcessPoolExecutor", Executor)
    idle = threading.Event()
    threading.Thread(
        target=idle.wait, daemon=True
    ).start()  # signals may go to another thread, as to one of NumPy's
    with pytest.raises(KeyboardInterrupt), Processes(1) as backend:
        backend.submit(Task("job", double, (1,), root=tmp_path))
    idle.set()
    assert known == ["job"]


def test_windows_gets_no_more_workers_than_its_executor_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with Processes(64):  # the executor raises for more than 61
        pass
