"""`imitate evaluate` and `imitate collect`: what they answer where something is missing or breaks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from imitate.cli import main
from imitate.datasets.storage.reader import DemoReader

EXPERT = "CartPole-v1:ppo"


class Heavy(CartPoleEnv):
    """Takes no render_mode; breaks in the step that the class says."""

    broken_after = 10**9
    steps = 0

    def __init__(self, gravity: float = 9.8) -> None:
        super().__init__()
        self.gravity = gravity

    def step(self, action: Any) -> Any:
        Heavy.steps += 1
        if Heavy.steps > self.broken_after:
            raise ZeroDivisionError("the simulator broke")
        return super().step(action)


gym.register("HeavyPole-v0", Heavy, max_episode_steps=50)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "ppo"
    command = ["train", "ppo", "--env", "CartPole-v1", "--budget", "600", "--eval-every", "0"]
    assert main([*command, "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    """The last line on standard error of a command that ends with status 2."""

    def mistake(*command: object) -> str:
        capsys.readouterr()
        assert main([str(word) for word in command]) == 2
        return capsys.readouterr().err.splitlines()[-1]

    return mistake


def test_a_run_without_a_policy(run: Path, tmp_path: Path, said: Any) -> None:
    shutil.copytree(run, tmp_path / "young")
    shutil.rmtree(tmp_path / "young" / "policy")
    answer = said("evaluate", tmp_path / "young")
    assert f"has no policy yet: go on with `imitate train --resume {tmp_path / 'young'}`" in answer


def test_a_run_measured_on_its_own_environment_remembers_it(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    command = ["evaluate", str(tmp_path / "run"), "--episodes", "2", "--env"]
    assert main([*command, "HeavyPole-v0"]) == 0
    assert main([*command, "CartPole-v1", "--stochastic"]) == 0
    assert not (tmp_path / "run" / "evaluation.json").exists()
    assert main([*command, "CartPole-v1"]) == 0
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text("utf-8"))["env_id"] == "CartPole-v1"


def test_an_older_version_that_runs_as_the_runs_own_is_its_own(tmp_path: Path) -> None:
    out = ["--env", "Pendulum-v1", "--budget", "400", "--no-looks", "--out", str(tmp_path / "run")]
    assert main(["train", "a2c", *out]) == 0
    assert main(["evaluate", str(tmp_path / "run"), "--env", "Pendulum-v0", "--episodes", "2"]) == 0
    assert (tmp_path / "run" / "evaluation.json").exists()


def test_a_policys_folder_is_measured(run: Path, said: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is a policy, of no environment in particular: name one with --env" in said(
        "evaluate", run / "policy"
    )
    assert main(["evaluate", str(run / "policy"), "--env", "CartPole-v1", "--episodes", "2", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["returns"]) == 2


def test_a_recording_is_not_named_as_another_format(tmp_path: Path, said: Any) -> None:
    answer = said("collect", EXPERT, "--episodes", "1", "--out", tmp_path / "demos.csv")
    assert "name it demos.h5; `imitate data convert` writes .csv" in answer


def test_a_folder_of_runs(run: Path, said: Any) -> None:
    answer = said("evaluate", run.parent)
    assert f"is a folder of 1 runs: evaluate one, such as {run}" in answer


def test_a_result_is_printed_before_it_can_not_be_stored(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "evaluation.json").mkdir()  # nothing can be written in its place
    assert main(["evaluate", str(tmp_path / "run"), "--episodes", "2", "--json"]) == 2
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["returns"]) == 2
    assert "the result can't be stored in" in captured.err


def test_what_can_not_be_filmed_is_said_before_anything_is_played(
    tmp_path: Path, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imitate.datasets.evaluation.evaluate", lambda *_, **__: pytest.fail("played"))
    film = tmp_path / "film.mp4"
    assert "takes no render_mode" in said("evaluate", EXPERT, "--env", "HeavyPole-v0", "--video", film)
    assert "written as .mp4" in said("evaluate", EXPERT, "--video", tmp_path / "film.gif")
    # What is wrong with the environment is said as such.
    wrong = ("--env", "HeavyPole-v0", "--env-kwargs", '{"mass": 1}')
    assert "does not take {'mass': 1}" in said("evaluate", EXPERT, *wrong, "--video", film)
    assert list(tmp_path.iterdir()) == []


def test_another_environment_is_collected_and_recorded_as_such(tmp_path: Path) -> None:
    out = tmp_path / "demos.h5"
    options = ["--env", "HeavyPole-v0", "--env-kwargs", '{"gravity": 5}', "--episodes", "2"]
    assert main(["collect", EXPERT, *options, "--out", str(out)]) == 0
    with DemoReader(out) as demos:
        assert (demos.info.env_id, demos.info.env_kwargs) == ("HeavyPole-v0", {"gravity": 5})
        assert demos.info.expert_return == 50  # measured there: the limit is 50 steps
        assert set(demos.lengths) == {50}


def test_a_zip_that_does_not_say_its_environment(tmp_path: Path, zoo: Path, said: Any) -> None:
    agent = tmp_path / "agent.zip"
    shutil.copy(zoo / "ppo" / "CartPole-v1_1" / "CartPole-v1.zip", agent)
    assert "which environment it is for" in said("evaluate", agent)
    assert main(["evaluate", str(agent), "--env", "CartPole-v1", "--episodes", "2"]) == 0
    out = tmp_path / "demos.h5"
    assert main(["collect", str(agent), "--env", "CartPole-v1", "--episodes", "1", "--out", str(out)]) == 0
    with DemoReader(out) as demos:
        assert demos.info.env_id == "CartPole-v1"


@pytest.mark.parametrize(
    ("amount", "wanted"),
    [
        ([], "got neither"),
        (["--steps", "5", "--episodes", "5"], "got both"),
        (["--steps", "-5"], "--steps must be at least 1, got -5"),
        (["--episodes", "0"], "--episodes must be at least 1, got 0"),
    ],
)
def test_how_much_is_collected(amount: list[str], wanted: str, tmp_path: Path, said: Any) -> None:
    assert wanted in said("collect", EXPERT, "--out", tmp_path / "demos.h5", *amount)
    assert list(tmp_path.iterdir()) == []


def test_an_environment_that_breaks_keeps_what_was_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "demos.h5"
    command = ["collect", EXPERT, "--env", "HeavyPole-v0", "--out", str(out), "--episodes", "20"]
    with monkeypatch.context() as patch:
        patch.setattr("imitate.experts.expert.Expert.measure", lambda *_, **__: None)
        patch.setattr(Heavy, "steps", 0)
        patch.setattr(Heavy, "broken_after", 700)
        assert main(command) == 2
    said = capsys.readouterr().err.splitlines()
    assert "the environment HeavyPole-v0 raised ZeroDivisionError: the simulator broke (" in said[-1]
    assert f"the episodes that had ended are in {out}; the same command with --resume goes on" in said[-1]
    with DemoReader(out) as demos:
        assert len(demos) == 8  # of 8 side by side, 50 steps each; the ninth to sixteenth were under way
    assert main([*command, "--resume"]) == 0
    with DemoReader(out) as demos:
        assert len(demos) == 20
