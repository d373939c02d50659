"""Running one seed of a row, in a folder of its own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from imitate.errors import InputError
from imitate.experts.sources import zoo_folders
from imitate.files import versions, write_json
from imitate.training.log import validations

__all__ = ["run_seed"]


_GRACE = 5.0
"""Seconds that a program has to end by itself: a terminal or a batch system sends its signal to both."""


def run_seed(commands: list[str], folder: Path) -> dict[str, Any]:
    """Run and measure one seed in `folder`: wall and CPU seconds, validations, steps, and the returns of the test
    episodes.

    The last command measures. Seconds are those of the others, if there are any. What an interrupted call has left in
    `folder` is gone on with. Raises CalledProcessError if a command fails, and InputError if what `folder` holds is of
    other commands or versions.
    """
    *training, measure = commands
    _claim(folder, {"commands": commands, "versions": versions()})
    begin, cpu_begin = time.monotonic(), _cpu_seconds()
    for command in training or [measure]:
        left = _left_of(command, folder)
        output = _output(left, folder) if left else ""
    found: dict[str, Any] = {"commands": commands, "seconds": time.monotonic() - begin}
    run = folder / "run"
    curve = [(row.env_steps, row.mean_return) for row in validations(run)]
    found |= {"cpu_seconds": _cpu_seconds() - cpu_begin, "curve": curve}
    for facts in ("finished.json", "timing.json"):
        found |= _json(run / facts)
    if config := _json(run / "config.json"):
        found["config"] = config
    elif expert := _json(run / "expert.json"):  # of Stable-Baselines3
        learned = expert["training"]
        found |= {"config": learned["hyperparameters"], "env_steps": learned["steps"]}
    result: dict[str, Any] = json.loads(_output(measure, folder) if training else output)
    return found | result


def _claim(folder: Path, seed: dict[str, Any]) -> None:
    """Note what is run in the folder. Raises InputError if it holds something else."""
    note = folder / "seed.json"
    if note.exists():
        if _json(note) != seed:
            raise InputError(f"{folder} is of other commands or versions: choose another --out")
    elif folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} holds something else: choose another --out")
    else:
        write_json(note, seed)


def _left_of(command: str, folder: Path) -> str | None:
    """The command, or the one that goes on with what it had begun; None if it had ended."""
    words = shlex.split(command)
    out = words[words.index("--out") + 1] if "--out" in words else None
    if out is None or not (folder / out).exists():
        return command
    if any((folder / out / end).exists() for end in ("finished.json", "expert.json")):
        return None
    return f"imitate train --resume {out}" if words[1] == "train" else f"{command} --resume"


def _json(path: Path) -> dict[str, Any]:
    """The contents of a file that a run wrote; empty if this run has none."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def _cpu_seconds() -> float:
    """Processor time of all commands so far."""
    spent = os.times()
    return spent.children_user + spent.children_system


def _output(command: str, folder: Path) -> str:
    """The standard output of an `imitate` command, run by this Python."""
    words = [sys.executable, "-m", "imitate.cli", *shlex.split(command)[1:]]
    zoo = os.pathsep.join(str(path.resolve()) for path in zoo_folders())  # relative to another folder there
    return _run(words, cwd=folder, env=os.environ | {"IMITATE_ZOO_DIR": zoo}).decode()


def _run(words: list[str], *, cwd: Path, env: dict[str, str]) -> bytes:
    """The standard output of a program, which has the time to save what it has if this one is interrupted."""
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=cwd, env=env, stdout=pipe, stderr=pipe) as process:
        try:
            printed, said = process.communicate()
        except KeyboardInterrupt as error:
            try:
                process.communicate(timeout=_GRACE)
            except subprocess.TimeoutExpired:
                # It did not get the signal, or takes its time. The same signal twice ends it at once: send the other.
                came = getattr(error, "number", signal.SIGINT)
                process.send_signal(signal.SIGTERM if came == signal.SIGINT else signal.SIGINT)
                process.communicate()
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words, printed, said)
    return printed
