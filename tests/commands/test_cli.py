"""The command line as a user types it: reports, and what each mistake is answered with."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from forked import run

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


@pytest.fixture(autouse=True)
def in_work(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)


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
    assert (
        report(capsys, "evaluate", "CartPole-v1:ppo", "--episodes", "2", "--video", "film.mp4")["mean"] == 500
    )
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
    config = json.loads(Path("ppo/config.json").read_text())
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


def _damage(path: str, change: Any) -> str:
    shutil.copy("demos.h5", path)
    change(Path(path))
    return path


def _nan(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["obs"][7] = np.nan


MISTAKES: dict[str, tuple[list[str], str]] = {
    "command": (["colect"], "did you mean 'collect'"),
    "subcommand": (["data", "inof", "x"], "did you mean 'info'"),
    "environment": (["train", "ppo", "--env", "CartPol-v1", "--out", "o"], "did you mean 'CartPole-v1'"),
    "module": (["train", "ppo", "--env", "nowhere:X-v0", "--out", "o"], "module 'nowhere'"),
    "environment keywords": (
        ["train", "ppo", "--env", "CartPole-v1", "--env-kwargs", '{"mass": 1}', "--out", "o"],
        "does not take",
    ),
    "algorithm": (["train", "pppo", "--env", "CartPole-v1", "--out", "o"], "did you mean 'ppo'"),
    "no algorithm": (["train", "--env", "CartPole-v1"], "which algorithm"),
    "expert": (["collect", "CartPole-v7", "--episodes", "1", "--out", "o.h5"], "did you mean 'CartPole-v1"),
    "no amount": (["collect", "CartPole-v1:ppo", "--out", "o.h5"], "either --episodes N or --steps N"),
    "noise": (
        ["collect", "CartPole-v1:ppo", "--episodes", "1", "--noise", "gaussian:1", "--out", "o.h5"],
        "use random:P",
    ),
    "output exists": (["collect", "CartPole-v1:ppo", "--episodes", "1", "--out", "demos.h5"], "exists"),
    "run exists": (["train", "ppo", "--env", "CartPole-v1", "--out", "bc"], "finished run"),
    "no demos": (["train", "bc", "--env", "CartPole-v1", "--out", "o"], "--demos FILE"),
    "no expert": (["train", "dagger", "--env", "CartPole-v1", "--out", "o"], "--expert SPEC"),
    "demos of another environment": (
        ["train", "bc", "--env", "Acrobot-v1", "--demos", "demos.h5", "--out", "o"],
        "are of CartPole-v1, not of Acrobot-v1",
    ),
    "expert of another environment": (
        ["train", "dagger", "--env", "Acrobot-v1", "--expert", "CartPole-v1:ppo", "--out", "o"],
        "CartPole-v1:ppo is not for Acrobot-v1",
    ),
    "truncated HDF5": (["data", "info", "truncated.h5"], "truncated.h5"),
    "foreign HDF5": (
        ["train", "bc", "--env", "CartPole-v1", "--demos", "foreign.h5", "--out", "o"],
        "foreign.h5",
    ),
    "not HDF5": (["data", "validate", "text.h5"], "text.h5"),
    "missing file": (["data", "info", "absent.h5"], "absent.h5"),
    "NaN in demonstrations": (
        ["train", "bc", "--env", "CartPole-v1", "--demos", "nan.h5", "--out", "o"],
        "NaN",
    ),
    "foreign zip": (["evaluate", "foreign.zip"], "foreign.zip"),
    "truncated zip": (["evaluate", "truncated.zip"], "truncated.zip"),
    "a person as expert": (
        ["train", "aggrevated", "--env", "CartPole-v1", "--expert", "human", "--out", "o"],
        "--expert human is for dagger",
    ),
    "not a run": (["evaluate", "nothing"], "no expert 'nothing'"),
    "not a run to start from": (
        ["train", "ppo", "--env", "CartPole-v1", "--init", "nothing", "--out", "o"],
        "no folder nothing",
    ),
    "start for BC": (
        ["train", "bc", "--env", "CartPole-v1", "--demos", "demos.h5", "--init", "bc", "--out", "o"],
        "--init is for gail, ppo, rpo",
    ),
    "unsupported space": (["train", "ppo", "--env", "Blackjack-v1", "--out", "o"], "Tuple"),
    "hyperparameter out of range": (
        ["train", "ppo", "--env", "CartPole-v1", "--gamma", "1.5", "--out", "o"],
        "gamma",
    ),
    "compared algorithm": (
        ["compare", "--env", "CartPole-v1", "--algorithms", "bcc", "--out", "o"],
        "did you mean 'bc'",
    ),
    "no environments": (["evaluate", "bc", "--num-envs", "0"], "num_envs"),
    "seed": (["evaluate", "bc", "--seed", "-1"], "at least 0, got -1"),
    "evaluated elsewhere": (["evaluate", "bc", "--env", "Acrobot-v1"], "observation_space"),
    "not a number": (
        [
            "train",
            "bc",
            "--env",
            "CartPole-v1",
            "--demos",
            "demos.h5",
            "--learning-rate",
            "nan",
            "--out",
            "o",
        ],
        "learning_rate must be at least 0, got nan",
    ),
    "no such choice": (
        ["train", "gail", "--env", "CartPole-v1", "--reward", "vail", "--out", "o"],
        "'plus_one', 'minus_one'); see `imitate train gail --help`",
    ),
    "not a whole number": (
        ["evaluate", "bc", "--episodes", "x"],
        "not a whole number, such as 20000, 20k or 1e5: 'x'; wanted --episodes INT episodes to play",
    ),
    "width": (["train", "ppo", "--env", "CartPole-v1", "--hidden", "0", "--out", "o"], "width of at least 1"),
    "unused option": (
        ["train", "ppo", "--env", "CartPole-v1", "--demos", "demos.h5", "--out", "o"],
        "makes no use of --demos",
    ),
    "budget": (
        ["train", "bc", "--env", "CartPole-v1", "--demos", "demos.h5", "--budget", "100", "--out", "o"],
        "a budget of 100 steps is too small for the demonstrations 1500: give at least --budget 1500",
    ),
    "file as a folder": (["train", "ppo", "--env", "CartPole-v1", "--out", "demos.h5/x"], "demos.h5/x"),
    "file as a run": (
        ["train", "ppo", "--env", "CartPole-v1", "--init", "demos.h5", "--out", "o"],
        "is not a run",
    ),
    "no folder": (
        ["collect", "CartPole-v1:ppo", "--episodes", "1", "--out", "no/such.h5"],
        "create it first",
    ),
    "seed of a collection": (
        ["collect", "CartPole-v1:ppo", "--episodes", "1", "--seed", "-1", "--out", "o"],
        "imitate: a seed must be at least 0, got -1",
    ),
    "number": (
        ["collect", "CartPole-v1:ppo", "--episodes", "two", "--out", "o"],
        "imitate: Error parsing --episodes: not a whole number, such as 20000, 20k or 1e5: 'two'; wanted",
    ),
    "keyword arguments": (
        ["collect", "CartPole-v1:ppo", "--episodes", "1", "--env-kwargs", "[1]", "--out", "o"],
        "imitate: Error parsing --env-kwargs: wanted a JSON object such as",
    ),
    "suite": (["compare", "clasic", "--out", "o"], "did you mean 'classic'"),
    "too large a seed": (
        ["collect", "CartPole-v1:ppo", "--episodes", "1", "--seed", "1e30", "--out", "o"],
        "above 9007199254740992: 1e30",
    ),
    "nested without end": (
        ["evaluate", "bc", "--env-kwargs", '{"a":' * 9_999],
        "Error parsing --env-kwargs: not JSON",
    ),
    "probes": (
        ["expert", "check", "BipedalWalker-v3", "--probes", "-1"],
        "probes must be at least 0, got -1",
    ),
    "no episode to film": (
        ["data", "video", "demos.h5", "--out", "o.mp4", "--episodes"],
        "no episode to film: give --episodes N",
    ),
    "films without actions": (
        ["data", "video", "unknown.h5", "--out", "o.mp4", "--episodes", "0"],
        "the actions of these demonstrations are unknown",
    ),
    "not a share": (
        ["data", "split", "demos.h5", "--train", "o", "--held-out", "p", "--holdout", "nan"],
        "can't hold out nan",
    ),
    "an option as a hyperparameter": (
        ["expert", "train", "--algo", "ppo", "--env", "X", "--hyperparameters", '{"steps": 1}', "--out", "o"],
        "steps is no hyperparameter: give it as an option of its own",
    ),
    "experts measured in no episode": (
        ["expert", "list", "--measure", "--episodes", "0"],
        "episodes must be at least 1, got 0",
    ),
    "statistics for a policy of ours": (
        ["evaluate", "bc/policy", "--env", "CartPole-v1", "--vecnormalize", "x.pkl"],
        "--vecnormalize is for experts in SB3's zips",
    ),
    "environments of a collection": (
        ["collect", "CartPole-v1:ppo", "--episodes", "1", "--num-envs", "-3", "--out", "o"],
        "--num-envs must be in [1,",
    ),
    "empty name": (
        ["train", "bc", "--env", "CartPole-v1", "--demos", "demos.h5", "--out", ""],
        "an empty name",
    ),
    "audit of what has none": (["train", "--resume", "bc", "--audit"], "--audit is for gail"),
    "workers": (
        ["compare", "--env", "CartPole-v1", "--workers", "0", "--out", "o"],
        "workers must be at least 1",
    ),
    "overrides": (
        ["compare", "--env", "CartPole-v1", "--hyperparameters", '{"ppo": 3}', "--out", "o"],
        "Expected `object`, got `int`",
    ),
    "expert's actions": (
        ["expert", "train", "--algo", "sac", "--env", "CartPole-v1", "--out", "o"],
        "can't be set up",
    ),
    "trained expert": (
        ["expert", "train", "--algo", "sca", "--env", "CartPole-v1", "--out", "o"],
        "did you mean 'sac'",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_status_2(mistake: str, capsys: pytest.CaptureFixture[str]) -> None:
    _damage("truncated.h5", lambda path: path.write_bytes(path.read_bytes()[:2_000]))
    _damage("nan.h5", _nan)
    Path("text.h5").write_text("not HDF5")
    Path("foreign.zip").write_text("not a zip")
    Path("truncated.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    with h5py.File("foreign.h5", "w") as file:
        file["data"] = [1, 2, 3]
    command, wanted = MISTAKES[mistake]
    capsys.readouterr()
    assert main(command) == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if "expert" in mistake or "measured" not in line]
    assert wanted in lines[-1]
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert not Path("o").exists()
    assert not Path("o.h5").exists()


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
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "sys.exit(main(['collect', 'CartPole-v1:ppo', '--episodes', '200', '--out', 'full.h5']))"
    )
    done = run(script)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "full.h5" in done.stderr.splitlines()[-1]
