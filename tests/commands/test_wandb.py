"""`train --wandb` sends TensorBoard's curves to Weights & Biases; here to its files, without a network."""

from __future__ import annotations

import builtins
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typed import PPO, refused

from imitate.cli import main

pytestmark = pytest.mark.usefixtures("in_a_folder")


def test_the_run_is_described_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: dict[str, Any] = {}
    ended: list[int] = []

    def init(**given: Any) -> Any:
        begun.update(given)
        return SimpleNamespace(finish=lambda exit_code=0: ended.append(exit_code))

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    assert main([*PPO, "--budget", "300", "--wandb", "--out", "runs/first"]) == 0
    assert (begun["project"], begun["name"], begun["sync_tensorboard"]) == ("imitate", "first", True)
    assert begun["config"]["hyperparameters"]["num_steps"] == 16
    assert main([*PPO, "--budget", "3", "--wandb", "--out", "runs/second"]) == 2  # too small for an update
    assert ended == [0, 1]


def test_without_the_extra_it_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name == "wandb":
            raise ImportError
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    assert 'pip install -c constraints.txt -e ".[wandb]"' in refused(capsys, *PPO, "--wandb", "--out", "run")
    assert not Path("run").exists()


@pytest.mark.skipif(find_spec("wandb") is None, reason="the extra wandb is not installed")
def test_all_scalars_arrive(tmp_path: Path) -> None:
    """In a process of its own, since wandb starts another and patches TensorBoard."""
    import os
    import subprocess

    command = [sys.executable, "-m", "imitate.cli", *PPO, "--budget", "600", "--wandb", "--out", "runs/first"]
    environment = os.environ | {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    (file,) = tmp_path.glob("runs/wandb/offline-run-*/run-*.wandb")
    written = file.read_bytes()
    for name in (b"train/policy_loss", b"train/train_return", b"num_steps"):
        assert name in written, name
