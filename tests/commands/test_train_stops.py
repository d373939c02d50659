"""Training that stops before its end, and how it goes on."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest
from forked import COMMAND, Script, in_a_process, run
from typed import PPO, refused

from imitate.cli import main
from imitate.errors import InputError
from imitate.files import lock

pytestmark = pytest.mark.usefixtures("in_a_folder")


def test_two_trainings_in_one_folder_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PPO, "--budget", "300", "--out", "run"]) == 0
    Path("run/finished.json").unlink()
    with lock(Path("run"), "a training run"):
        line = refused(capsys, "train", "--resume", "run")
    assert "a training run is at work in run" in line


def test_what_killed_writers_left_is_swept() -> None:
    assert main([*PPO, "--budget", "300", "--out", "run"]) == 0
    Path("run/finished.json").unlink()
    Path("run/.policy.json.1.partial").write_text("half of", "utf-8")
    assert main(["train", "--resume", "run"]) == 0
    assert not list(Path("run").glob(".*"))


def test_a_full_disk_in_a_checkpoint_is_one_line() -> None:
    """A limit on the size of files stands in for the disk: writing past it fails in the same way."""
    script = (
        "import resource, signal, sys; from imitate.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        f"sys.exit(main([*{PPO!r}, '--budget', '3000', '--checkpoint-every', '1000', '--out', 'full']))"
    )
    done = run(script)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "checkpoint.safetensors can't be written" in done.stderr.splitlines()[-1]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")
def test_a_run_under_nohup_outlives_its_terminal() -> None:
    ignoring = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{COMMAND}"
    with Script(ignoring, *PPO, "--budget", "1_000_000", "--out", "run") as process:
        metrics = Path("run/metrics.jsonl")
        while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
            time.sleep(0.01)
        process.send_signal(signal.SIGHUP)
        time.sleep(1)
        assert process.poll() is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to handle")
def test_sigterm_saves_and_ends_with_143() -> None:
    with Script(COMMAND, *PPO, "--budget", "1_000_000", "--out", "run") as process:
        metrics = Path("run/metrics.jsonl")
        while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
        assert process.wait() == 143
    assert "interrupted and saved; go on with `imitate train --resume run`" in said
    assert Path("run/checkpoint.safetensors").exists()


def test_what_a_full_disk_stopped_before_the_first_checkpoint_begins_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*args: object) -> None:  # noqa: ARG001
        raise InputError("checkpoint.safetensors can't be written: No space left on device")

    command = [*PPO, "--budget", "2000", "--checkpoint-every", "100", "--out", "run"]
    with monkeypatch.context() as patched:
        patched.setattr("imitate.training.run.save_state", full)
        said = refused(capsys, *command)
    assert said.endswith("there was no checkpoint yet: `imitate train --resume run` begins anew")
    assert main(["train", "--resume", "run"]) == 0
    assert Path("run/finished.json").exists()


def test_an_environment_that_raises_says_how_to_resume() -> None:
    Path("breaking.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Breaking(CartPoleEnv):\n"
        "    steps = 0\n"
        "    def step(self, action):\n"
        "        Breaking.steps += 1\n"
        "        if Breaking.steps > 600:\n"
        "            raise RuntimeError('worn out')\n"
        "        return super().step(action)\n"
        "gym.register('Breaking-v0', Breaking, max_episode_steps=50)\n",
        encoding="utf-8",
    )
    own = [option if option != "CartPole-v1" else "breaking:Breaking-v0" for option in PPO]
    done = in_a_process(*own, "--checkpoint-every", "300", "--out", "run")
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if "breaking.py" in line]
    assert "the environment Breaking-v0 raised RuntimeError: worn out (breaking.py:8)" in line
    assert line.endswith("go on with `imitate train --resume run --env breaking:Breaking-v0`")
