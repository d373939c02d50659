"""Training as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from imitate.cli import main

PPO = ("train", "ppo", "--env", "CartPole-v1", "--num-steps", "16", "--num-epochs", "1", "--eval-every", "0")


def config(run: str) -> dict[str, object]:
    read: dict[str, object] = json.loads(Path(run, "config.json").read_text())
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
