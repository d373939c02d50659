"""`imitate improve` as a user types it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from imitate.cli import main
from imitate.files import lock
from imitate.improvement.episodes import Played
from imitate.improvement.journal import Journal, Snapshot
from imitate.improvement.task import Task

CARTPOLE = ("improve", "CartPole-v1", "--env", "CartPole-v1", "--budget", "30000", "--out", "better")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def replaced(**options: str) -> list[str]:
    words = list(CARTPOLE)
    for name, value in options.items():
        words[1 if name == "expert" else words.index(f"--{name}") + 1] = value
    return words


def refused(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """The one line that a mistake is answered with."""
    capsys.readouterr()
    assert main(list(command)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["improve", *CARTPOLE[2:]], "EXPERT"),
        (replaced(env="CartPol-v1"), "did you mean"),
        (replaced(expert="CartPol-v1"), "no expert 'CartPol-v1'"),
        (replaced(expert="human"), "a person can't be asked for so many episodes"),
        (replaced(env="Pendulum-v1"), "CartPole-v1 is not for Pendulum-v1"),
        (replaced(budget="0"), "budget must be at least 1, got 0"),
        (
            replaced(budget="1000"),
            "3 episodes of the expert take more; give a larger --budget, or end episodes",
        ),
        (replaced(budget="9000"), "an episode of the expert takes 500 steps"),
        ([*CARTPOLE, "--bugdet", "9"], "did you mean '--budget'"),
        ([*CARTPOLE, "--env-kwargs", "no"], "not JSON"),
    ],
)
def test_mistakes_are_answered_in_a_line(
    capsys: pytest.CaptureFixture[str], command: list[str], reason: str
) -> None:
    assert reason in refused(capsys, *command)
    assert not Path("better").exists()


def test_a_folder_in_use_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with lock(Path("better"), "somebody"):
        (Path("better") / "journal.json").unlink(missing_ok=True)
        answer = refused(capsys, *CARTPOLE)
    assert "better" in answer
    assert "choose another --out" in answer


def test_ctrl_c_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> bool:
        return False

    monkeypatch.setattr("imitate.improvement.learning.execute", interrupted)
    assert main(list(CARTPOLE)) == 130
    said = capsys.readouterr().err
    assert (
        "go on with `imitate improve CartPole-v1 --env CartPole-v1 --budget 30000 --out better --seed 0`"
        in said
    )


def test_ctrl_c_sets_the_best_policy_so_far_beside_the_expert(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(task: Task, out: Path) -> None:
        (out / "policy").mkdir(parents=True)
        expert, weak = (Played([1, 2, 3], [score] * 3, [500] * 3, 1_500) for score in (490.0, 110.0))
        Journal(task, expert, snapshots=[Snapshot("bc", 1.0, 2_000, 0, 1.0, weak)]).write(out)
        raise KeyboardInterrupt

    monkeypatch.setattr("imitate.improvement.search.search", interrupted)
    assert main(list(CARTPOLE)) == 130
    best = Path("better") / "policy"
    assert f"{best}: it makes 110 in validation, the expert 490; go on with" in capsys.readouterr().err
