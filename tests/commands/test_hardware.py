"""A robot: one connection at a time, nothing moves unasked, and what was labelled stays when it fails."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from imitate.cli import main
from imitate.datasets import DemoReader

ROBOT = """
import os

import gymnasium as gym
import numpy as np
from gymnasium import spaces

OPEN, LOG = [], []


class Stopped(BaseException):
    pass


class Robot(gym.Env):
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        if OPEN:
            raise OSError("port busy: another connection is open")
        OPEN.append(self)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        LOG.append("reset")
        kind, after = os.environ.get("ROBOT", ":0").split(":")
        if kind == "reset" and LOG.count("reset") > int(after):
            raise ConnectionError("no home position")
        if kind == "halted" and LOG.count("reset") > int(after):
            raise KeyboardInterrupt
        return self.place.copy(), {}

    def step(self, action):
        assert np.abs(action).max() <= 1, action
        LOG.append("step")
        kind, after = os.environ.get("ROBOT", ":0").split(":")
        late = LOG.count("step") > int(after)
        if kind == "exit" and late:
            raise SystemExit(3)
        if kind == "stopped" and late:
            raise Stopped("the red button was pressed")
        if kind == "generator" and late:
            raise GeneratorExit
        if kind == "close" and late:
            raise OSError("unplugged")
        if kind == "interrupt" and late:
            raise KeyboardInterrupt
        self.place = (self.place + 0.1 * action).astype(np.float32)
        reward = float(-np.abs(self.place).sum())
        seen = self.place * np.nan if kind == "nan" and late else self.place.copy()
        return seen, float("nan") if kind == "reward" and late else reward, False, False, {}

    def render(self):
        LOG.append("picture")
        return np.zeros((32, 32, 3), np.uint8)

    def close(self):
        if self in OPEN:
            OPEN.remove(self)
        kind, _ = os.environ.get("ROBOT", ":0").split(":")
        if kind == "stuck" or (kind == "close" and "step" in LOG):
            raise OSError("unplugged")


class Controller:
    def act(self, obs):
        gain = float(os.environ.get("GAIN", "1"))
        return np.clip(-2 * obs, -1, 1) * gain


def make_expert():
    return Controller()


gym.register("Robot-v0", entry_point=Robot, max_episode_steps=20)
"""


@pytest.fixture
def robot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a new module with the robot and its controller, in the current folder."""
    name = f"robot_{tmp_path.name}_{os.getpid()}"
    (tmp_path / f"{name}.py").write_text(ROBOT)
    monkeypatch.chdir(tmp_path)
    yield name
    gym.registry.pop("Robot-v0", None)


def _log(robot: str) -> list[str]:
    log: list[str] = importlib.import_module(robot).LOG
    return log


def _collect(robot: str, episodes: int, *more: str) -> list[str]:
    words = ["collect", f"{robot}:make_expert", "--env", f"{robot}:Robot-v0", "--num-envs", "1"]
    return [*words, "--episodes", str(episodes), "--out", "demos.h5", *more]


def _dagger(robot: str, *more: str) -> list[str]:
    words = [
        "train",
        "dagger",
        "--env",
        f"{robot}:Robot-v0",
        "--expert",
        f"{robot}:make_expert",
        "--num-envs",
        "1",
    ]
    quiet = ["--no-measure", "--no-looks", "--eval-every", "0"]
    return [
        *words,
        *quiet,
        "--budget",
        "200",
        "--iterations",
        "2",
        "--updates-per-iteration",
        "5",
        "--final-updates",
        "5",
        "--out",
        "run",
        *more,
    ]


def test_a_robot_with_one_connection_is_recorded_without_a_step_before(robot: str) -> None:
    assert main(_collect(robot, 3, "--no-measure")) == 0
    log = _log(robot)
    assert log.count("step") == 60, "only the three recorded episodes were played"
    with DemoReader("demos.h5") as demos:
        assert demos.num_steps == 60
        assert demos.info.expert_return is None


def test_a_measurement_opens_no_more_environments_than_the_recording(robot: str) -> None:
    assert main(_collect(robot, 1)) == 0
    assert _log(robot).count("step") == 20 * (20 + 20 + 1)


def test_dagger_learns_on_a_robot_with_one_connection(robot: str) -> None:
    assert main(_dagger(robot)) == 0
    assert _log(robot).count("step") == 200
    assert main(["evaluate", "run", "--env", f"{robot}:Robot-v0", "--num-envs", "1", "--episodes", "2"]) == 0


def test_contradicting_options_are_refused(robot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_dagger(robot, "--remeasure")) == 2
    assert "--no-measure and --remeasure contradict" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [
        ("exit", 2, "raised SystemExit: 3"),
        ("stopped", 2, "raised Stopped: the red button was pressed"),
        ("generator", 2, "raised GeneratorExit"),
        ("interrupt", 130, "interrupted"),
        ("nan", 2, "NaN"),
        ("reward", 2, "NaN"),
    ],
)
def test_labels_stay_when_a_robot_fails(
    robot: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    status: int,
    said: str,
) -> None:
    monkeypatch.setenv(
        "ROBOT", f"{kind}:70"
    )  # in the first roll-in, which the expert leads, and in its fourth episode
    assert main(_dagger(robot)) == status
    error = capsys.readouterr().err
    assert said in error
    assert "--no-measure --no-looks`" in error, "what was left out stays left out"
    assert "the labels of" in error
    assert "Traceback" not in error
    with DemoReader("run/aggregated.h5") as kept:
        assert 69 <= kept.num_steps <= 70
        assert np.isfinite(kept[len(kept) - 1].obs).all()


@pytest.mark.parametrize("command", ["evaluate random", "collect random --no-measure --out demos.h5"])
@pytest.mark.parametrize(("kind", "of"), [("nan", "an observation"), ("reward", "a reward")])
def test_nothing_moves_after_nan(
    robot: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    kind: str,
    of: str,
) -> None:
    """Random actions need no observation."""
    monkeypatch.setenv("ROBOT", f"{kind}:45")
    words = ["--env", f"{robot}:Robot-v0", "--episodes", "4", "--num-envs", "1"]
    assert main([*command.split(), *words]) == 2
    said = f"Robot-v0 returned {of} that holds NaN or infinity in step 6, in the episode with seed"
    assert said in capsys.readouterr().err
    assert _log(robot).count("step") == 46


@pytest.mark.parametrize(
    ("kind", "status", "failed"), [("exit", 2, "raised SystemExit: 3"), ("interrupt", 130, "interrupted")]
)
def test_a_failure_loses_no_return_that_was_measured(
    robot: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    status: int,
    failed: str,
) -> None:
    words = ["evaluate", f"{robot}:make_expert", "--env", f"{robot}:Robot-v0", "--num-envs", "1"]
    assert main([*words, "--episodes", "2", "--json"]) == 0
    returns = json.loads(capsys.readouterr().out)["returns"]
    monkeypatch.setenv("ROBOT", f"{kind}:85")
    assert main([*words, "--episodes", "4"]) == status
    error = capsys.readouterr().err
    assert failed in error
    figures = ", ".join(f"{each:.6g}" for each in returns)
    assert f"2 of 4 episodes had ended, with a mean return of {np.mean(returns):.2f}: {figures}" in error


def test_the_film_is_of_an_episode_that_is_measured(robot: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", f"{robot}:make_expert", "--env", f"{robot}:Robot-v0", "--num-envs", "1"]
    assert main([*words, "--episodes", "3", "--json"]) == 0
    plain = capsys.readouterr().out
    assert main([*words, "--episodes", "3", "--json", "--video", "films/film.mp4"]) == 0
    assert capsys.readouterr().out == plain
    log = _log(robot)
    assert log.count("step") == 120, "no episode was played twice"
    assert log.count("picture") == 21, "of the first episode alone"
    assert Path("films/film.mp4").read_bytes()[4:8] == b"ftyp"


def test_darts_noise_takes_one_connection(robot: str) -> None:
    assert main(_dagger(robot)) == 0
    assert main(_collect(robot, 2, "--no-measure", "--noise", "dart:run")) == 0
    assert _log(robot).count("step") == 200 + 20 * (5 + 2)


def test_an_action_outside_the_bounds_moves_nothing(
    robot: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GAIN", "3")
    assert main(_dagger(robot)) == 2
    assert "which is not in Box(-1.0, 1.0, (2,), float32): clip it" in capsys.readouterr().err
    assert "step" not in _log(robot)


def test_a_policy_that_can_not_be_tried_out_is_kept(
    robot: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert main(_collect(robot, 3, "--no-measure")) == 0
    monkeypatch.setenv("ROBOT", "exit:70")
    train = ["train", "bc", "--env", f"{robot}:Robot-v0", "--demos", "demos.h5", "--max-updates", "20"]
    assert main([*train, "--out", "run"]) == 0
    assert sum("not tried out" in line for line in caplog.messages) == 2, "once on the way, and at the end"
    assert Path("run/finished.json").exists()


def test_an_unwritable_folder_is_refused_before_anything_moves(
    robot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("", "utf-8")
    words = _dagger(robot)
    words[words.index("run")] = "file/run"
    assert main(words) == 2
    assert "can't be written in" in capsys.readouterr().err
    assert not _log(robot)


def test_a_recording_of_another_controller_is_not_resumed(
    robot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = _collect(robot, 1, "--no-measure")
    assert main(words) == 0
    words[1] = "random"
    assert main([*words, "--resume"]) == 2
    assert f"has expert '{robot}:make_expert', not 'random'" in capsys.readouterr().err


def test_a_reset_that_fails_loses_no_finished_episode(
    robot: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROBOT", "reset:2")
    assert main(_collect(robot, 4, "--no-measure")) == 2
    assert "no home position" in capsys.readouterr().err
    with DemoReader("demos.h5") as kept:
        assert kept.lengths.tolist() == [20, 20]
    monkeypatch.setenv("ROBOT", "reset:100")
    assert main(_collect(robot, 4, "--no-measure", "--resume")) == 0
    assert _log(robot).count("step") == 80, "no episode was played twice"


def test_a_reset_that_fails_loses_no_label(robot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBOT", "reset:3")
    assert main(_dagger(robot)) == 2
    with DemoReader("run/aggregated.h5") as kept:
        assert kept.num_steps == 60


def test_a_connection_that_can_not_be_closed_hides_no_failure(
    robot: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("ROBOT", "close:70")
    assert main(_dagger(robot)) == 2
    error = capsys.readouterr().err
    assert "raised OSError: unplugged" in error
    assert "70 steps were taken, and the labels of 70 are kept" in error
    assert any("close() of the environment Robot-v0 raised OSError: unplugged" in m for m in caplog.messages)


@pytest.mark.parametrize("backend", ["gymnasium", "async"])
def test_a_connection_that_can_not_be_closed_is_a_warning(
    robot: str, backend: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ROBOT", "stuck:0")
    assert main(_collect(robot, 1, "--no-measure")) == 0
    assert main([*_dagger(robot), "--backend", backend]) == 0
    assert main(["evaluate", "run", "--episodes", "1", "--num-envs", "1"]) == 0
    assert any("close() of the environment Robot-v0 raised OSError: unplugged" in m for m in caplog.messages)


@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize(
    ("kind", "status", "reason"), [("reset", 2, "no home position"), ("halted", 130, "interrupted")]
)
def test_a_resumed_run_whose_first_reset_fails_is_as_it_was(
    robot: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    measured: bool,
    kind: str,
    status: int,
    reason: str,
) -> None:
    monkeypatch.setenv("ROBOT", "reset:3")
    assert main(_dagger(robot)) == 2
    checkpoint = Path("run/checkpoint.safetensors").read_bytes()
    names = ["--env", f"{robot}:Robot-v0", "--expert", f"{robot}:make_expert"]
    quiet = ["--no-looks"] if measured else ["--no-measure", "--no-looks"]
    capsys.readouterr()
    monkeypatch.setenv("ROBOT", f"{kind}:3")
    assert main(["train", "--resume", "run", *names, *quiet]) == status
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert reason in line
    said = " ".join(["imitate train --resume run", *names, *quiet])
    assert line.endswith(f"; run is as it was: go on with `{said}`")
    assert Path("run/checkpoint.safetensors").read_bytes() == checkpoint
    with DemoReader("run/aggregated.h5") as kept:
        assert kept.num_steps == 60
