"""benchmarks/frozen.py on a plan of seconds, in a repository of its own: BC on CartPole with the bundled expert."""

from __future__ import annotations

import importlib
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from imitate.datasets.evaluation import evaluate
from imitate.envs.seeds import TEST_SEED
from imitate.experts import load_expert

ROOT = Path(__file__).parent.parent
PLAN = """
seeds = [100, 101]
episodes = 4
test_seed = 30_000
curve_episodes = 2
[tasks.cartpole]
env = "CartPole-v1"
expert = "CartPole-v1"
env_kwargs = { max_episode_steps = 50 }
steps = 200
demos = 1
[learners.bc]
algorithm = "bc"
demos = "demos"
hyperparameters = { max_updates = 20 }
[learners.dagger]
algorithm = "dagger"
budget = "steps"
hyperparameters = { iterations = 2, updates_per_iteration = 5, final_updates = 5 }
seeds = 1
[learners.broken]
algorithm = "bc"
demos = "demos"
hyperparameters = { demo_pairs = 100_000 }
seeds = 1
"""


def git(repository: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    command = ["git", "-C", str(repository), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working tree's packages with a small plan, committed."""
    folder = tmp_path_factory.mktemp("frozen") / "repository"
    folder.mkdir()
    for name in ("imitate", "datasets", "experts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "benchmarks").mkdir()
    for path in (ROOT / "benchmarks").glob("frozen*.py"):
        shutil.copy(path, folder / "benchmarks")
    (folder / "benchmarks" / "frozen.toml").write_text(PLAN)
    (folder / ".gitignore").write_text("__pycache__/\n")
    shutil.copy(ROOT / "pyproject.toml", folder)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "measured")
    return folder


def start(repository: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(repository / "benchmarks" / "frozen.py"), "--out", str(out), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def measure(repository: Path, out: Path, *options: str) -> tuple[int, str]:
    process = start(repository, out, *options)
    said, _ = process.communicate(timeout=240)
    return process.returncode, said


def keep(repository: Path, out: Path) -> int:
    """--keep in this process, which has imported torch already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repository / "benchmarks"))
        script = runpy.run_path(str(repository / "benchmarks" / "frozen.py"))
        status: int = script["main"](["--out", str(out), "--keep"])
    return status


def record(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "record.json").read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def measured(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A measurement that was killed after its first result and finished by a second command, and that first result."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "linked").mkdir()
    (folder / "link").symlink_to("linked")
    out = folder / "link" / "out"
    process = start(repository, out)
    first = out / "runs" / "bc-cartpole" / "100.json"
    until = time.monotonic() + 120
    while not first.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    before = {str(path): path.read_bytes() for path in (out / "runs").rglob("*.json")}
    assert len(before) < 4, "killed too late to show anything"
    status, said = measure(repository, out, "--jobs", "2")
    assert status == 0, said
    assert "bc-cartpole seed 100" not in said  # it had ended
    return out, before


@pytest.mark.slow
def test_a_killed_measurement_goes_on_and_repeats_no_run(measured: tuple[Path, dict[str, bytes]]) -> None:
    out, before = measured
    assert before
    assert all(Path(path).read_bytes() == content for path, content in before.items())
    assert record(out)["missing_runs"] == 0


@pytest.mark.slow
def test_the_record_has_every_episode_of_learner_and_teacher(
    measured: tuple[Path, dict[str, bytes]], repository: Path
) -> None:
    found = record(measured[0])
    assert found["commit"] == git(repository, "rev-parse", "HEAD")
    assert found["machine"]["commit"] == found["commit"][:12]  # what ran was the worktree's code
    task = found["references"]["cartpole"]
    assert task["teacher"]["returns"] == [50.0] * 4
    assert len(task["random"]["returns"]) == 4
    bc, dagger = found["rows"]["bc-cartpole"]["seeds"], found["rows"]["dagger-cartpole"]["seeds"]
    assert list(bc) == ["100", "101"]
    for run in (*bc.values(), *dagger.values()):
        assert run["returns"] == run["lengths"]  # a step of CartPole earns 1
        assert len(run["returns"]) == 4
        assert run["cpu_seconds"] > 0
    assert bc["100"]["demo_steps"] == bc["100"]["expert_queries"] == 50
    assert dagger["100"]["env_steps"] == 200
    assert [point["steps"] for point in dagger["100"]["curve"]][-1] == 200
    assert all(len(point["returns"]) == 2 for point in dagger["100"]["curve"])


@pytest.mark.slow
def test_a_failure_is_not_tried_again_and_a_committed_record_carries_the_measurement_to_another_machine(
    measured: tuple[Path, dict[str, bytes]], repository: Path, tmp_path: Path
) -> None:
    out, _ = measured
    result = out / "runs" / "broken-cartpole" / "100.json"
    before = result.read_bytes()
    assert "100000 pairs were asked for" in json.loads(before)["failed"]
    committed = repository / "benchmarks" / "results" / "frozen.json"
    assert keep(repository, out) == 0
    assert result.read_bytes() == before
    assert record(out)["rows"]["broken-cartpole"]["seeds"]["100"] == json.loads(before)
    assert str(measured[0].parent) not in committed.read_text("utf-8")
    found = json.loads(committed.read_text("utf-8"))
    assert found["rows"]["bc-cartpole"]["seeds"]["100"]["config"]["demos"] == "demos.h5"
    del found["rows"]["bc-cartpole"]["seeds"]["101"]
    found["versions"]["numpy"] = "1.0"  # of that machine
    first = found["rows"]["bc-cartpole"]["seeds"]["100"]
    assert first["machine"]["cpu"]
    assert first["config"]["versions"]["numpy"]
    committed.write_text(json.dumps(found))
    try:
        status, said = measure(repository, tmp_path / "out", "--list")
        assert (status, "bc-cartpole: 1 of 2 seeds" in said, "broken-cartpole: 1 of 1" in said) == (
            0,
            True,
            True,
        )
        status, said = measure(repository, tmp_path / "out")
        assert (status, said.count(" seed ")) == (0, 1), said
        again = record(tmp_path / "out")
        assert again["missing_runs"] == 0
        assert again["rows"]["bc-cartpole"]["seeds"]["100"] == first
        assert again["references"] == found["references"]
        committed.write_text(json.dumps(found | {"commit": "0" * 40}))
        assert "bc-cartpole: 0 of 2 seeds" in measure(repository, tmp_path / "other", "--list")[1]
    finally:
        shutil.rmtree(committed.parent)


@pytest.mark.slow
def test_a_tree_with_changes_is_refused(measured: tuple[Path, dict[str, bytes]], repository: Path) -> None:
    out, _ = measured
    changed = out / "tree" / "imitate" / "imitators" / "bc.py"
    text = changed.read_text("utf-8")
    changed.write_text(text + "\n")
    try:
        status, said = measure(repository, out)
    finally:
        changed.write_text(text)
    assert status == 2
    assert "imitate/imitators/bc.py" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_changed_packages_are_refused(measured: tuple[Path, dict[str, bytes]], repository: Path) -> None:
    path = measured[0] / "versions.json"
    then = path.read_text("utf-8")
    path.write_text(json.dumps(json.loads(then) | {"numpy": "1.0"}))
    try:
        status, said = measure(repository, measured[0])
    finally:
        path.write_text(then)
    assert (status, "numpy 1.0 ->" in said) == (2, True)


def test_learner_and_teacher_play_the_same_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The teacher, measured as a learner is, does in each episode what it did as the teacher."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    rows, runs = importlib.import_module("frozen_rows"), importlib.import_module("frozen_run")
    task = rows.Task(env="Pendulum-v1", expert="Pendulum-v1", steps=1, demos=1)
    plan = rows.Plan(
        seeds=[0], episodes=3, test_seed=30_000, curve_episodes=2, tasks={"it": task}, learners={}
    )
    found = runs.references(plan, "it")
    teacher = found["teacher"]
    as_learner = runs.tested(load_expert("Pendulum-v1"), plan, "Pendulum-v1", {})
    assert as_learner["returns"] == teacher["returns"]
    assert len({*teacher["returns"], *teacher["curve"]}) == 5  # no episode twice, the curves' are others
    assert teacher["returns"] != found["random"]["returns"]
    usual = evaluate(load_expert("Pendulum-v1"), "Pendulum-v1", episodes=3, seed=TEST_SEED).returns
    assert not {*usual.tolist()} & {*teacher["returns"]}  # tuning has seen those


def test_the_real_plan_names_every_pair_and_every_learner(tmp_path: Path) -> None:
    status, said = measure(ROOT, tmp_path, "--list")
    assert status == 0
    for task in ("halfcheetah-sac", "walker2d-ppo", "hopper-ppo", "ant-trpo", "hardcore-ppo", "pendulum-sac"):
        for learner, seeds in (
            ("bc", 5),
            ("dagger", 5),
            ("aggrevated", 5),
            ("gail", 3),
            ("loki", 3),
            ("gail-clone", 5),
        ):
            assert f"{learner}-{task}: 0 of {seeds} seeds" in said
    assert "ppo-1m-hopper-v5: 0 of 3" in said
    assert "core-hours to go" in said
