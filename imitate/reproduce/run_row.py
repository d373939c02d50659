"""Running one seed of a row, in a folder of its own."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from imitate.reproduce.rows import MEASURE

__all__ = ["run_seed"]


def run_seed(commands: list[str], folder: Path) -> dict[str, Any]:
    """Run and measure one seed in `folder`: wall and CPU seconds, validations, steps, and the returns of the test
    episodes.

    Raises CalledProcessError if a command fails.
    """
    begin = time.monotonic()
    for command in commands:
        _output(command, folder)
    seconds = time.monotonic() - begin
    result: dict[str, Any] = json.loads(_output(MEASURE, folder))
    run = folder / "run"
    validations = map(json.loads, (run / "evaluations.jsonl").read_text().splitlines())
    found: dict[str, Any] = {"commands": [*commands, MEASURE], "seconds": seconds}
    found |= {"curve": [(row["env_steps"], row["mean_return"]) for row in validations]}
    found |= {"config": json.loads((run / "config.json").read_text())}
    for facts in ("finished.json", "timing.json"):
        found |= json.loads((run / facts).read_text())
    return found | result


def _output(command: str, folder: Path) -> str:
    """The standard output of an `imitate` command, run by this Python."""
    words = [sys.executable, "-c", "import sys; from imitate.cli import main; sys.exit(main())"]
    done = subprocess.run(
        [*words, *shlex.split(command)[1:]],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return done.stdout.decode()
