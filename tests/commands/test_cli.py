"""The command line as a user types it, and what it prints."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import run
from typed import in_work, work  # noqa: F401

from imitate.cli import main

pytestmark = pytest.mark.usefixtures("in_work")


def report(capsys: pytest.CaptureFixture[str], *command: str) -> Any:
    capsys.readouterr()
    assert main([*command, "--json"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_evaluate_reports_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    result = report(capsys, "evaluate", "bc", "--episodes", "5")
    assert set(result) == {"mean", "std", "iqm", "ci95", "returns", "lengths"}
    assert len(result["returns"]) == 5
    assert result["mean"] == pytest.approx(np.mean(result["returns"]))
    assert result["returns"] == result["lengths"]  # CartPole pays 1 a step


def test_the_same_evaluation_twice_and_with_other_environments_side_by_side(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = [
        report(capsys, "evaluate", "bc", "--episodes", "4", "--num-envs", n)["returns"] for n in ("1", "4")
    ]
    assert runs[0] == runs[1]


def test_an_expert_is_evaluated_filmed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    short = ("--env", "CartPole-v1", "--env-kwargs", '{"max_episode_steps": 50}')
    filmed = ("--episodes", "2", "--video", "film.mp4")
    assert report(capsys, "evaluate", "CartPole-v1:ppo", *short, *filmed)["mean"] == 50
    assert Path("film.mp4").read_bytes()[4:8] == b"ftyp"
    facts = report(capsys, "expert", "show", "CartPole-v1:ppo")
    assert facts["measured_return"]["mean"] == 500
    assert len(facts["sha256"]) == 64
    assert "CartPole-v1" in report(capsys, "expert", "list")


def test_experts_are_measured_beside_what_was_published(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zoo with one damaged archive: its row says so, and the others are there."""
    (tmp_path / "zoo/ppo/CartPole-v1_1").mkdir(parents=True)
    (tmp_path / "zoo/ppo/CartPole-v1_1/CartPole-v1.zip").write_bytes(b"no archive")
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(tmp_path / "zoo"))
    monkeypatch.setattr("imitate.experts.known_experts", lambda: ["CartPole-v1:ppo", "zoo:ppo/CartPole-v1"])
    good, damaged = report(capsys, "expert", "list", "--measure", "--episodes", "2")
    assert (good["env_id"], good["mean"], good["published"], good["episodes"]) == ("CartPole-v1", 500, 500, 2)
    assert good["random_mean"] < 100
    assert "zip" in damaged["problem"]
    assert main(["expert", "list", "--measure", "--episodes", "2"]) == 0
    head, row, problem = capsys.readouterr().out.splitlines()
    assert head.split() == ["expert", "measured", "std", "published", "environment"]
    assert row.split() == ["CartPole-v1:ppo", "500.0", "+-", "0.0", "500.0", "CartPole-v1"]
    assert problem.startswith("zoo:ppo/CartPole-v1  ")


def test_demonstrations_are_described_and_valid(capsys: pytest.CaptureFixture[str]) -> None:
    facts = report(capsys, "data", "info", "demos.h5")
    assert (facts["episodes"], facts["steps"], facts["returns"]["mean"]) == (3, 1500, 500)
    assert report(capsys, "data", "validate", "demos.h5") == {"valid": True, "problems": []}


def test_a_recording_ends_with_six_lines_and_a_command_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "CartPole-v1:ppo", "--episodes", "2", "--out", "two.h5"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert list(lines) == ["file", "episodes", "steps", "return", "expert", "next"]
    assert lines["episodes"] == "2 (0 terminated, 2 truncated)"
    assert (lines["steps"], lines["return"]) == ("1,000", "500 on average, 500 to 500")
    assert lines["expert"] == "CartPole-v1:ppo: 500 measured over 20 episodes, 500 published"
    _, *command = shlex.split(lines["next"])
    assert main([*command, "--max-epochs", "1"]) == 0


def test_hyperparameters_come_from_the_preset_and_the_command_line() -> None:
    assert (
        main(
            [
                "train",
                "ppo",
                "--env",
                "CartPole-v1",
                "--out",
                "ppo",
                "--budget",
                "600",
                "--gamma",
                "0.9",
                "--eval-every",
                "0",
            ]
        )
        == 0
    )
    config = json.loads(Path("ppo/config.json").read_text("utf-8"))
    assert config["hyperparameters"]["gamma"] == 0.9
    assert config["hyperparameters"]["num_steps"] == 32  # the preset's
    assert config["hyperparameters"]["total_steps"] == config["budget"] == 600
    assert main(["train", "--config", "ppo/config.json", "--out", "again"]) == 0
    assert (
        Path("ppo/policy/policy.safetensors").read_bytes()
        == Path("again/policy/policy.safetensors").read_bytes()
    )


def test_environments_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_envs.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Heavy(CartPoleEnv):\n"
        "    def __init__(self, gravity=9.8, **kwargs):\n"
        "        super().__init__(**kwargs)\n"
        "        self.gravity = gravity\n"
        "gym.register('Heavy-v0', Heavy, max_episode_steps=50)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    command = [
        "train",
        "ppo",
        "--env",
        "my_envs:Heavy-v0",
        "--env-kwargs",
        '{"gravity": 20}',
        "--num-steps",
        "16",
    ]
    assert main([*command, "--budget", "300", "--eval-every", "0", "--out", "heavy"]) == 0
    assert main(["evaluate", "heavy", "--episodes", "2"]) == 0


@pytest.mark.parametrize("command", [["expert", "list"], ["train", "ppo", "--help"]])
def test_a_reader_that_has_enough_is_no_error(command: list[str]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    script = f"import sys; from imitate.cli import main; sys.exit(main({command!r}))"
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=write_end, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_full_disk_is_one_line_and_status_2() -> None:
    """A limit on the size of files stands in for the disk: writing past it fails in the same way."""
    script = (
        "import resource, signal, sys; from imitate.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))\n"
        "sys.exit(main(['collect', 'CartPole-v1:ppo', '--episodes', '200', '--out', 'full.h5']))"
    )
    done = run(script)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "full.h5" in done.stderr.splitlines()[-1]


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "imitate", "trian"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "imitate: unknown command 'trian'; did you mean 'train'?; see `imitate --help`\n"


def test_a_reward_is_that_of_a_run_and_not_of_an_expert(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["reward", "--help"])
    assert capsys.readouterr().out.startswith("usage: imitate reward [-h] RUN --demos FILE ...")
