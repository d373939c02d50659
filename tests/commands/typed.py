"""Commands as a user types them, and a folder to try them in."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from imitate.cli import main

PPO = ("train", "ppo", "--env", "CartPole-v1", "--num-steps", "16", "--num-epochs", "1", "--eval-every", "0")


def config(run: str) -> dict[str, object]:
    read: dict[str, object] = json.loads(Path(run, "config.json").read_text("utf-8"))
    return read


def help_of(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def refused(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """The one line that a mistake is answered with."""
    capsys.readouterr()
    assert main(list(command)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()[-1]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with demonstrations and a cloned policy, made by the commands themselves."""
    folder = tmp_path_factory.mktemp("cli")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["collect", "CartPole-v1:ppo", "--episodes", "3", "--out", "demos.h5"]) == 0
        assert main(["data", "convert", "demos.h5", "unknown.h5", "--no-actions"]) == 0
        clone = "train bc --env CartPole-v1 --demos demos.h5 --out bc --max-epochs 3"
        assert main(clone.split()) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def in_work(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
