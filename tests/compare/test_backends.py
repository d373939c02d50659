"""Backends before they have begun: what the command line says of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tasks import double

from imitate.cli import main
from imitate.compare.backends import Task
from imitate.files import versions

COMPARE = ["compare", "--env", "CartPole-v1", "--algorithms", "ppo"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--backend", "ray", "--cpus-per-run", "0"], "wanted more than 0 CPUs"),
        (["--backend", "ray", "--workers", "0"], "at least 1 task at a time"),
        (["--backend", "ray", "--device", "cuda"], "add --gpus-per-run, such as 0.25"),
        (["--gpus-per-run", "1"], "--gpus-per-run is for clusters: add --backend ray, or leave it out"),
        (["--workers", "0"], "--workers must be at least 1, got 0"),
        (["--backend", "slurm"], "slurm"),
    ],
)
def test_options_that_do_not_go_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    if "ray" in options:
        pytest.importorskip("ray", reason="the extra ray is not installed")
    assert main([*COMPARE, *options, "--out", str(tmp_path / "out")]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert message in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "ray://127.0.0.1:10001"])
def test_a_cluster_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    arguments = ["--backend", "ray", "--address", address, "--shards", "1", "--episodes", "1"]
    assert main(["collect", "CartPole-v1:ppo", *arguments, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"imitate: no Ray cluster at {address}: ")
    assert "--address HOST:PORT" in said
    assert not (tmp_path / "out").exists()


def test_without_ray_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "imitate.compare.backends.ray", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main([*COMPARE, "--backend", "ray", "--out", str(tmp_path / "out")]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said == 'imitate: --backend ray needs Ray: pip install -c constraints.txt -e ".[ray]"'
    assert not (tmp_path / "out").exists()


def test_a_node_with_other_versions_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    from imitate.compare.backends.ray_worker import Parcel, carry_out

    task = Task("job", double, (1,), root=tmp_path, writes=(Path("1"),))
    wanted = versions() | {"torch": "0.4.1"}
    failure, files = carry_out(Parcel("job #0", "session", task, {}, {}, wanted))
    assert failure is not None
    assert failure.error == (
        f"a node of the cluster has torch {versions()['torch']}, wanted torch 0.4.1: install the same on every node"
    )
    assert files is None  # what is on the main process's machine stays
