"""Ray clusters of several nodes on this machine, one of which is killed: results are those of the process pool."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tasks import count

from imitate.compare import Comparison
from imitate.compare.backends import Task
from imitate.compare.execute.carry_out import carry_out
from imitate.datasets import DemoReader

ray = pytest.importorskip("ray", reason="the extra ray is not installed")

from ray._private.state import available_resources_per_node  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

from imitate.cli import main  # noqa: E402
from imitate.compare.backends.ray import Ray  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STORE = 200 << 20
HERE = str(Path(__file__).parent)


@contextmanager
def cluster(monkeypatch: pytest.MonkeyPatch, *cpus: int) -> Iterator[tuple[Any, list[Any]]]:
    """A head with cpus[0] processors, and a node for each other number; the main process is on the head."""
    monkeypatch.setenv("PYTHONPATH", HERE)
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    options = {"object_store_memory": STORE}
    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": cpus[0], "include_dashboard": False} | options
    )
    try:
        nodes = [made.add_node(num_cpus=number, **options) for number in cpus[1:]]
        made.wait_for_nodes()
        ray.init(made.address, log_to_driver=False, logging_level="ERROR")
        yield made, nodes
    finally:
        ray.shutdown()
        made.shutdown()


@contextmanager
def killed(made: Any, nodes: list[Any], when: Callable[[], bool]) -> Iterator[None]:
    """Kills a node that is at work as soon as `when()`, which has to come within the block."""
    over = threading.Event()
    kills: list[float] = []

    def watch() -> None:
        while not over.wait(0.02):
            if when():
                free = available_resources_per_node()
                at_work = [node for node in nodes if not free[node.node_id].get("CPU")]
                made.remove_node(at_work[0], allow_graceful=False)
                kills.append(time.monotonic())
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert kills, "the block ended before the node was killed"


def results(out: Path) -> dict[str, Any]:
    """The files that runs have left, by name: their contents without times and the machine."""
    found: dict[str, Any] = {}
    for path in sorted(out.rglob("*")):
        if not path.is_file() or path.name.startswith(("events.", "timing.", ".")):
            continue
        name = path.relative_to(out).as_posix()
        if not name.startswith(("runs/", "demos/")):
            continue
        if path.name == "result.json":
            result = json.loads(path.read_text("utf-8"))
            for point in result["curve"]:
                del point["cpu_seconds"]
            found[name] = {
                key: value for key, value in result.items() if key not in ("cpu_seconds", "machine")
            }
        elif path.suffix == ".json" and name.startswith("demos/"):
            found[name] = {
                key: value
                for key, value in json.loads(path.read_text("utf-8")).items()
                if key != "cpu_seconds"
            }
        else:
            found[name] = path.read_bytes()
    return found


def test_two_nodes_compare_as_one_machine_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Demonstrations travel from the node that recorded them to those that learn from them."""
    wanted = Comparison(
        "CartPole-v1",
        ("bc", "dagger", "ppo"),
        expert="CartPole-v1:ppo",
        seeds=1,
        budget=2_000,
        episodes=3,
        curve_episodes=2,
        hyperparameters={"bc": {"max_epochs": 2}, "dagger": {"updates_per_iteration": 20}},
    )
    carry_out(wanted, tmp_path / "here", workers=2)
    with cluster(monkeypatch, 1, 1):
        carry_out(wanted, tmp_path / "there", backend=Ray())
    assert not (tmp_path / "there" / "errors").exists()
    here, there = results(tmp_path / "here"), results(tmp_path / "there")
    assert list(there) == list(here)
    assert [name for name in here if here[name] != there[name]] == []
    assert sorted(path.name for path in (tmp_path / "there" / "videos").iterdir()) == sorted(
        path.name for path in (tmp_path / "here" / "videos").iterdir()
    )


def test_a_run_goes_on_from_its_checkpoint_when_its_node_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = Comparison("CartPole-v1", ("ppo",), seeds=1, budget=150_000, episodes=3, curve_episodes=2)
    carry_out(wanted, tmp_path / "here", workers=1)
    out = tmp_path / "there"

    def it_is_saved() -> bool:
        return len(list(out.glob("runs/*/checkpoint.safetensors"))) == 1

    with cluster(monkeypatch, 0, 1, 1) as (made, nodes), killed(made, nodes, it_is_saved):
        carry_out(wanted, out, backend=Ray())
    (said,) = [message for message in caplog.messages if "lost its worker" in message]
    assert "node" in said
    assert len(said) < 200
    here, there = results(tmp_path / "here"), results(out)
    assert list(there) == list(here)
    assert [name for name in here if here[name] != there[name]] == []


def test_a_task_goes_on_from_its_checkpoint_when_its_node_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields: dict[str, Any] = {"root": tmp_path, "writes": (Path("out"),), "checkpoint": Path("out/count")}
    reached = tmp_path / "out" / "count"
    with cluster(monkeypatch, 0, 1) as (made, nodes), Ray() as backend:
        backend.submit(Task("job", count, (300, 0.02), **fields))
        while not (reached.exists() and int(reached.read_text("utf-8")) >= 50):
            assert not list(backend.ended())
        made.add_node(num_cpus=1, object_store_memory=STORE)
        made.remove_node(nodes[0], allow_graceful=False)
        while not (ended := list(backend.ended())):
            pass
    assert ended == [("job", None)]
    lines = [line.split() for line in (tmp_path / "out" / "log").read_text("utf-8").splitlines()]
    assert [int(number) for number, _ in lines] == list(range(1, 301))
    assert len({process for _, process in lines}) == 2


def test_shards_are_recorded_on_while_a_node_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collect = ["collect", "CartPole-v1:ppo", "--num-envs", "2", "--shards", "4", "--episodes", "240"]
    assert main([*collect, "--workers", "2", "--out", str(tmp_path / "here")]) == 0
    out = tmp_path / "there"

    def two_have_begun() -> bool:
        return len(list(out.glob("*.h5"))) >= 2

    with cluster(monkeypatch, 0, 1, 1) as (made, nodes), killed(made, nodes, two_have_begun):
        assert main([*collect, "--backend", "ray", "--out", str(out)]) == 0
    assert [path.name for path in sorted(out.iterdir())] == [f"{n:05}-of-00004.h5" for n in range(4)]
    with DemoReader(tmp_path / "here") as here, DemoReader(out) as there:
        assert len(there) == len(here) == 240
        place = {int(seed): n for n, seed in enumerate(there.table["seed"])}
        for trajectory in here:
            twin = there[place[trajectory.info["seed"]]]
            for name in ("obs", "actions", "rewards"):
                assert getattr(trajectory, name).tobytes() == getattr(twin, name).tobytes()
