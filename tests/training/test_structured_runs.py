"""Runs on an environment of one's own with Dict observations and a Tuple of actions, as a user types them."""

from __future__ import annotations

from pathlib import Path

import pytest

from imitate.algorithms import ALGORITHMS
from imitate.cli import main
from imitate.nn.stored_policy import load_policy

ENV = ["--env", "structured:Told-tuple-v0"]
EXPERT = "structured:make_knower"


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demos") / "a.h5"
    assert main(["collect", EXPERT, *ENV, "--episodes", "5", "--out", str(path)]) == 0
    return path


def test_collected_learned_and_evaluated_from_the_command_line(
    demos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "bc")
    quick = ["--max-updates", "150", "--learning-rate", "0.003", "--weight-decay", "0"]
    assert main(["train", "bc", *ENV, "--demos", str(demos), "--out", run, *quick, "--no-looks"]) == 0
    capsys.readouterr()
    assert main(["evaluate", run, *ENV, "--episodes", "3"]) == 0
    assert "return 20.00" in capsys.readouterr().out
    assert load_policy(run).action_space.shape == (2,)
    quick = ["--budget", "100", "--iterations", "2", "--updates-per-iteration", "5", "--final-updates", "5"]
    run = str(tmp_path / "dagger")
    assert main(["train", "dagger", *ENV, "--expert", EXPERT, "--out", run, *quick]) == 0


@pytest.mark.parametrize("name", [name for name, one in ALGORITHMS.items() if not one.structured])
def test_other_learners_refuse_by_name(
    name: str, demos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    algorithm = ALGORITHMS[name]
    given = ["--demos", str(demos)] if "demos" in algorithm.needs else []
    given += ["--expert", EXPERT] if "expert" in algorithm.needs else []
    capsys.readouterr()
    assert main(["train", name, *ENV, *given, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert f"{algorithm.title} does not take Dict or Tuple observations" in said
    assert "choose bc or dagger" in said
    assert not (tmp_path / "run").exists()
