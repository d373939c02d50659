"""`imitate train` on a terminal and without one: help, lines, bars."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import signal
import sys
from pathlib import Path

import pytest
from forked import COMMAND, Script
from typed import PPO, help_of

from imitate.cli import main
from imitate.commands.progress import chosen, progress_of
from imitate.training.execute import execute
from imitate.training.experiment import Experiment

if sys.platform != "win32":
    import termios

pytestmark = pytest.mark.usefixtures("in_a_folder")


def test_help_shows_the_preset_and_the_learner_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of(capsys, "train", "dqn", "--env", "LunarLander-v3")
    assert "validation together (default: 400000)" in shown
    assert "environments side by side (default: 8)" in shown
    assert "--backend" not in shown
    everything = help_of(capsys, "train", "dqn", "--env", "LunarLander-v3", "--help-all")
    assert "--backend {auto,gymnasium,async,envpool,ale} what steps the environments" in everything
    assert "(default: gymnasium)" in everything
    gail = help_of(capsys, "train", "gail", "--env", "CartPole-v1", "--help-all")
    assert "--ppo.gamma" in gail
    assert "--a2c.gamma" not in gail
    other = help_of(capsys, "train", "gail", "--learner", "reinforce", "--help-all")
    assert "--reinforce.gamma" in other
    assert "--ppo.gamma" not in other


def test_without_a_terminal_there_is_a_line_for_every_tenth(caplog: pytest.LogCaptureFixture) -> None:
    assert main([*PPO, "--budget", "1280", "--out", "run"]) == 0  # 10 iterations of 128 steps
    *tenths, last = caplog.messages
    assert [line.split(" of 1280 steps")[0] for line in tenths] == [str(128 * n) for n in range(1, 11)]
    assert last == "at the end: " + tenths[-1].split(": ")[1]


def test_a_line_before_an_episode_has_ended_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Ten iterations of 8 steps, while an episode of CartPole takes at least 8."""
    short = [option if option != "16" else "2" for option in PPO]
    assert main([*short, "--num-envs", "4", "--budget", "80", "--out", "run"]) == 0
    assert caplog.messages[0] == "8 of 80 steps: no episode has ended yet"


def test_an_offline_learner_of_ones_own_shows_its_first_metrics(caplog: pytest.LogCaptureFixture) -> None:
    """A line once said that no episode had ended yet."""
    caplog.set_level("INFO")
    with progress_of(Experiment.preset("bc", "CartPole-v1")) as progress:
        progress(0, {"iteration": 1, "energy": 1.5, "a": 1.0, "b": 2.0, "c": 3.0, "progress": 1.0})
    assert caplog.messages[0] == "iteration 1 (100%): energy 1.5, a 1, b 2"


def test_an_offline_learner_that_goes_on_counts_the_iterations_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once the first line after the interruption said `iteration 1`."""
    caplog.set_level("INFO")
    assert main(["collect", "CartPole-v1", "--episodes", "1", "--out", "demos.h5"]) == 0
    clone = Experiment.create("bc", "CartPole-v1", demos="demos.h5", hyperparameters={"max_epochs": 5})
    calls = itertools.count(1)

    def interrupt(_spent: int, _metrics: dict[str, float]) -> None:
        if next(calls) == 3:
            signal.raise_signal(signal.SIGINT)

    assert not execute(clone, "bc", progress=interrupt)
    caplog.clear()
    assert main(["train", "--resume", "bc"]) == 0
    assert [line.split(" ")[1] for line in caplog.messages if line.startswith("iteration")] == ["4"]


def terminal(*arguments: str) -> str:
    """The output of a command on a terminal of 100 columns."""
    primary, secondary = os.openpty()
    termios.tcsetwinsize(secondary, (30, 100))
    with Script(COMMAND, *arguments, terminal=secondary) as process:
        os.close(secondary)
        written = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while piece := os.read(primary, 4096):
                written += piece
        assert process.wait() == 0, written.decode()
    os.close(primary)
    return written.decode()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_of_a_learner_without_environments_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["collect", "CartPole-v1", "--episodes", "1", "--out", "demos.h5"]) == 0
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", screen := Terminal())
        clone = ["train", "bc", "--env", "CartPole-v1", "--demos", "demos.h5", "--max-epochs", "3"]
        assert main([*clone, "--out", "bc"]) == 0
        assert main(["evaluate", "bc", "--episodes", "2"]) == 0
    assert "bc: 100%|" in screen.getvalue()
    assert screen.getvalue().count("it returns ") == 1
    assert "0/2 [" in screen.getvalue()  # of the evaluation


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_a_bar_reaches_its_end_and_messages_do_not_break_it() -> None:
    """8 environments take 160 of 163 steps."""
    few = ("--iterations", "2", "--updates-per-iteration", "3", "--final-updates", "3", "--fqe-updates", "3")
    expert = ("--env", "CartPole-v1", "--expert", "random", "--budget", "163", "--trial", "0")
    said = terminal("train", "aggrevated", *expert, *few, "--out", "run")
    assert "aggrevated: 100%|" in said
    (message,) = (line for line in said.splitlines() if "is learned online by fitted Q evaluation" in line)
    assert message.lstrip("\r").startswith("imitate: Q* of ")


@pytest.mark.parametrize("text", ["{", "5", "{}", "\0\0", '{"best": true}', "[" * 100_000, "\xff"])
def test_damaged_validations_of_a_resumed_run_are_left_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "evaluations.jsonl").write_text(f"{text}\n", "latin-1")
    assert chosen(tmp_path) == ""


def test_validations_larger_than_any_run_writes_are_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A sparse file of a stranger would fill the memory."""
    with (tmp_path / "evaluations.jsonl").open("wb") as file:
        file.truncate(1 << 28)
    assert chosen(tmp_path) == ""
    assert "has 268435456 bytes, over the limit" in caplog.text
