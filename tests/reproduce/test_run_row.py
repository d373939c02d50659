"""A row's seed: what is timed, what is noted, and how an interrupted command goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from imitate.files import write_json
from imitate.reproduce import run_row

COMMANDS = [
    "imitate collect CartPole-v1 --episodes 2 --out demos.h5",
    "imitate train bc --env CartPole-v1 --demos demos.h5 --out run",
    "imitate evaluate run --episodes 50 --json",
]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that were run. Each takes ten seconds and four of a processor; that of `train` leaves a run."""
    commands: list[str] = []
    monkeypatch.setattr(run_row, "time", SimpleNamespace(monotonic=lambda: 7.0 + 10.0 * len(commands)))
    monkeypatch.setattr(run_row, "_cpu_seconds", lambda: 100.0 + 4.0 * len(commands))

    def run(words: list[str], cwd: Path, **_: Any) -> bytes:
        commands.append(" ".join(words[3:]))
        if "train" in words:
            (cwd / "run").mkdir(exist_ok=True)
            lines = [
                {"best": True, "env_steps": 100, "mean_return": 9.0},
                {"best": False, "env_steps": 200, "mean_return": 7.0},
            ]
            (cwd / "run" / "evaluations.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
            write_json(cwd / "run" / "finished.json", {"env_steps": 200})
            write_json(cwd / "run" / "timing.json", {"updates": 1.5})
            write_json(cwd / "run" / "config.json", {"algorithm": "bc"})
        return b'{"mean": 8.0, "returns": [8.0]}' if "evaluate" in words else b""

    monkeypatch.setattr(run_row, "_run", run)
    return commands


def test_the_measurement_is_not_timed(ran: list[str], tmp_path: Path) -> None:
    found = run_row.run_seed(COMMANDS, tmp_path)
    assert ran == [command.removeprefix("imitate ") for command in COMMANDS]
    assert (found["seconds"], found["cpu_seconds"]) == (20.0, 8.0)
    assert found["curve"] == [(100, 9.0), (200, 7.0)]
    assert (found["env_steps"], found["updates"], found["config"]) == (200, 1.5, {"algorithm": "bc"})
    assert (found["mean"], found["returns"], found["commands"]) == (8.0, [8.0], COMMANDS)


def test_an_expert_is_measured_once_and_that_is_timed(ran: list[str], tmp_path: Path) -> None:
    found = run_row.run_seed(["imitate evaluate CartPole-v1 --json"], tmp_path)
    assert ran == ["evaluate CartPole-v1 --json"]
    assert (found["seconds"], found["mean"], found["curve"]) == (10.0, 8.0, [])


@pytest.mark.parametrize(
    ("command", "there", "left"),
    [
        ("imitate train bc --out run", [], "imitate train bc --out run"),
        ("imitate train bc --out run", ["run/config.json"], "imitate train --resume run"),
        ("imitate train bc --out run", ["run/config.json", "run/finished.json"], None),
        ("imitate expert train --algo dqn --out run", ["run/x"], "imitate expert train --algo dqn --out run --resume"),
        ("imitate expert train --algo dqn --out run", ["run/expert.json"], None),
        ("imitate collect expert --out demos.h5", ["run/config.json"], "imitate collect expert --out demos.h5"),
        ("imitate evaluate run --json", ["run/finished.json"], "imitate evaluate run --json"),
    ],
)  # fmt: skip
def test_only_what_is_left_is_run(command: str, there: list[str], left: str | None, tmp_path: Path) -> None:
    for name in there:
        write_json(tmp_path / name, {})
    assert run_row._left_of(command, tmp_path) == left


SAVING = """
import pathlib, signal, sys, time
got = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: got.append(signal.Signals(number).name))
pathlib.Path("begun").touch()
while not got:
    time.sleep(0.01)
time.sleep(0.6)
pathlib.Path("saved").write_text(" ".join(got))
"""


class Ended(KeyboardInterrupt):
    """Of the command line: SIGTERM has come."""

    number = signal.SIGTERM


@pytest.mark.parametrize(("came", "told"), [(KeyboardInterrupt, "SIGTERM"), (Ended, "SIGINT")])
def test_an_interrupted_command_saves_what_it_has(
    came: type[KeyboardInterrupt], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes longer than the quarter of a second after which `subprocess.run` would kill it."""

    monkeypatch.setattr(run_row, "_GRACE", 0.2)

    def interrupt(*_: object) -> None:
        raise came

    before = signal.signal(signal.SIGUSR1, interrupt)

    def once_begun() -> None:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGUSR1)

    try:
        threading.Thread(target=once_begun).start()
        with pytest.raises(came):
            run_row._run([sys.executable, "-c", SAVING], cwd=tmp_path, env=dict(os.environ))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (tmp_path / "saved").read_text() == told


def test_a_command_that_ends_by_itself_gets_no_other_signal(tmp_path: Path) -> None:
    """The signal went to both, as a terminal's does: a second one could interrupt the save of an expert."""
    program = SAVING.replace("while not got:", "while False:").replace("time.sleep(0.6)", "time.sleep(1)")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(KeyboardInterrupt):
            run_row._run([sys.executable, "-c", program], cwd=tmp_path, env=dict(os.environ))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert (tmp_path / "saved").read_text() == ""


def test_a_command_that_fails_is_one_with_its_words(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "import sys; print('so far'); sys.exit('imitate: no')"]
    with pytest.raises(subprocess.CalledProcessError) as error:
        run_row._run(words, cwd=tmp_path, env=dict(os.environ))
    assert (error.value.returncode, error.value.stdout, error.value.stderr) == (
        1,
        b"so far\n",
        b"imitate: no\n",
    )
