"""A folder to try commands in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imitate.cli import main


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with demonstrations and a cloned policy, made by the commands themselves."""
    folder = tmp_path_factory.mktemp("cli")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["collect", "CartPole-v1:ppo", "--episodes", "3", "--out", "demos.h5"]) == 0
        assert main(["data", "convert", "demos.h5", "unknown.h5", "--no-actions"]) == 0
        assert (
            main(
                [
                    "train",
                    "bc",
                    "--env",
                    "CartPole-v1",
                    "--demos",
                    "demos.h5",
                    "--out",
                    "bc",
                    "--max-epochs",
                    "3",
                ]
            )
            == 0
        )
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def in_work(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
