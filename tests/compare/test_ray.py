"""Tasks on a real Ray of one node."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tasks import count, die, double, total

from imitate.cli import main
from imitate.compare.backends import Failure, Task
from imitate.datasets import DemoReader

ray = pytest.importorskip("ray", reason="the extra ray is not installed")

from imitate.compare.backends.ray import Ray  # noqa: E402

HERE = str(Path(__file__).parent)
STORE = 200 << 20


def drain(backend: Any, tasks: int) -> dict[str, Failure | None]:
    ended: dict[str, Failure | None] = {}
    deadline = time.monotonic() + 120
    while len(ended) < tasks:
        assert time.monotonic() < deadline, ended
        ended |= dict(backend.ended())
    return ended


@pytest.fixture(scope="module")
def node() -> Iterator[None]:
    """A Ray of one processor, and so of one process that imports torch; its workers find the module `tasks`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", HERE)
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray.init(
            "local",
            num_cpus=1,
            include_dashboard=False,
            object_store_memory=STORE,
            log_to_driver=False,
            logging_level="ERROR",
        )
        try:
            yield
        finally:
            ray.shutdown()


pytestmark = pytest.mark.usefixtures("node")


def test_tasks_travel_with_their_files(tmp_path: Path) -> None:
    with Ray() as backend:
        for value in (1, 3, -1, 99):
            task = Task(f"job {value}", double, (value,), root=tmp_path, writes=(Path(str(value)),))
            backend.submit(task)
        ended = drain(backend, 4)
        task = Task(
            "sum", total, ("1", "3"), root=tmp_path, reads=(Path("1"), Path("3")), writes=(Path("total"),)
        )
        backend.submit(task)
        assert drain(backend, 1) == {"sum": None}
    assert (ended["job 1"], ended["job 3"]) == (None, None)
    assert ended["job -1"] == Failure("a negative value")
    assert ended["job 99"] is not None
    assert ended["job 99"].error == "RuntimeError: two lines"
    assert "Traceback" in ended["job 99"].traceback
    assert {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()} == {
        "1": "2",
        "3": "6",
        "total": "8",
    }


def test_amounts_are_in_good_grammar(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), Ray():
        pass
    with caplog.at_level("WARNING"), Ray(cpus=3, gpus=0.5):
        pass
    assert "Ray: 1 node with 1 CPU; a run takes 1 CPU" in caplog.messages
    assert "no node has 3 CPUs and 0.5 GPUs yet: runs wait until one joins" in caplog.messages


@pytest.mark.slow
def test_a_task_that_kills_its_workers_fails_in_the_end(tmp_path: Path) -> None:
    with Ray() as backend:
        backend.submit(Task("job", die, root=tmp_path))
        failure = drain(backend, 1)["job"]
    assert failure is not None
    assert failure.error.startswith("lost its worker 5 times")
    assert "\n" not in failure.error


def interrupted(backend: Any, tasks: list[Task], position: int) -> None:
    """Leaves the block as by Ctrl-C once a task has reported `position`."""
    deadline = time.monotonic() + 120
    with backend:
        for task in tasks:
            backend.submit(task)
        while max([reported for _, reported in backend.news()], default=0) < position:
            assert time.monotonic() < deadline
            assert not list(backend.ended())
        raise KeyboardInterrupt


def test_leaving_by_ctrl_c_brings_back_what_was_done(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"root": tmp_path, "writes": (Path("out"),), "checkpoint": Path("out/count")}
    backend = Ray(most=1)
    tasks = [
        Task("long", count, (10_000, 0.05), **fields),
        Task("waiting", double, (1,), root=tmp_path, writes=(Path("1"),)),
    ]
    with pytest.raises(KeyboardInterrupt):
        interrupted(backend, tasks, 10)
    reached = int((tmp_path / "out" / "count").read_text("utf-8"))
    assert reached >= 10
    assert not (tmp_path / "1").exists()
    with backend:  # and on from there
        backend.submit(Task("long", count, (reached + 2, 0.0), **fields))
        assert drain(backend, 1) == {"long": None}
    numbers = [int(line.split()[0]) for line in (tmp_path / "out" / "log").read_text("utf-8").splitlines()]
    assert list(dict.fromkeys(numbers)) == list(range(1, reached + 3))
    assert len(numbers) <= reached + 3  # Ctrl-C may come between a line and its checkpoint


@pytest.mark.slow
@pytest.mark.parametrize("by", ["ray", "the system"])
def test_the_mailbox_may_be_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture, by: str) -> None:
    """Progress and files go on coming, and Ctrl-C is heard."""
    fields: dict[str, Any] = {"root": tmp_path, "writes": (Path("out"),), "checkpoint": Path("out/count")}
    reached = tmp_path / "out" / "count"
    backend = Ray()

    def lost_and_interrupted() -> None:
        backend.submit(Task("long", count, (10_000, 0.05), **fields))
        deadline = time.monotonic() + 120
        while not reached.exists():
            assert time.monotonic() < deadline
            assert not list(backend.ended())
        if by == "ray":
            ray.kill(backend.mailbox)
        else:
            os.kill(ray.get(backend.mailbox.__ray_call__.remote(lambda _: os.getpid())), signal.SIGKILL)
        shutil.rmtree(tmp_path / "out")  # as if it had been in the mailbox
        while not reached.exists():
            assert time.monotonic() < deadline
            assert not list(backend.ended())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), backend:
        lost_and_interrupted()
    assert any("mailbox of the workers was lost" in message for message in caplog.messages)
    numbers = [int(line.split()[0]) for line in (tmp_path / "out" / "log").read_text("utf-8").splitlines()]
    counted = int(reached.read_text("utf-8"))
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) - counted in (0, 1)  # Ctrl-C may come between the log and the checkpoint


@pytest.mark.slow
def test_a_package_of_the_current_folder_travels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It imports a module of its own as late as it can, for each shard."""
    package = tmp_path / "here" / "nomads"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "def make_expert():\n    from nomads.actions import left\n    return left\n"
    )
    (package / "actions.py").write_text("def left(obs):\n    return (obs[:, 0] * 0).astype(int)\n")
    monkeypatch.chdir(tmp_path / "here")
    arguments = ["--env", "CartPole-v1", "--episodes", "4", "--num-envs", "1", "--shards", "2"]
    for backend in ("ray", "processes"):
        options = ["--backend", backend, "--workers", "1", "--out", str(tmp_path / backend)]
        assert main(["collect", "nomads:make_expert", *arguments, *options]) == 0
    with DemoReader(tmp_path / "ray") as there, DemoReader(tmp_path / "processes") as here:
        assert there.table.tolist() == here.table.tolist()
