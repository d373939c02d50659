"""Measure AggreVaTeD and DAgger with a half-trained teacher: our own PPO on BipedalWalker-v3, stopped early.

    python benchmarks/half_trained.py [--seeds 0 1 2]

Each learner gets 50,000 steps, its preset's settings and the same 50 test episodes. Writes results/half-trained.json.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from imitate.files import read_json, versions, write_json

RESULTS = Path(__file__).parent / "results" / "half-trained.json"
WALKER, STEPS, HALF = "BipedalWalker-v3", 50_000, 150.0
BUDGETS = range(150_000, 300_000, 20_000)  # of the teacher: the first that makes it at least HALF good


def imitate(command: str, folder: Path) -> str:
    """The output of `imitate COMMAND`, run in `folder`. Raises CalledProcessError if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "imitate.cli", *shlex.split(command)],
        cwd=folder,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    return done.stdout.decode()


def mean_return(run: str, folder: Path, options: str = "--episodes 50") -> float:
    return float(json.loads(imitate(f"evaluate {run} {options} --json", folder))["mean"])


def half_trained(seed: int, folder: Path) -> str:
    """The folder of the teacher's run, which is trained from scratch with each budget until one suffices."""
    for budget in BUDGETS:
        run = f"teacher-{budget}"
        imitate(
            f"train ppo --env {WALKER} --seed {seed} --budget {budget} --eval-every 0 --out {run}", folder
        )
        if mean_return(run, folder, "--episodes 20 --seed 1") >= HALF:  # other episodes than the test's
            return run
    raise SystemExit(
        f"half_trained.py: no PPO of {BUDGETS[-1]} steps or fewer makes {HALF:g} with seed {seed}"
    )


def measure(seed: int, folder: Path) -> dict[str, float]:
    """Mean returns of the teacher and of its learners."""
    teacher = half_trained(seed, folder)
    returns = {"teacher": mean_return(teacher, folder)}
    for name in ("aggrevated", "dagger"):
        command = (
            f"train {name} --env {WALKER} --expert {teacher} --seed {seed} --budget {STEPS} --out {name}"
        )
        imitate(command, folder)
        returns[name] = mean_return(name, folder)
        print(seed, returns, file=sys.stderr, flush=True)
    return returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    record: dict[str, Any] = read_json(RESULTS, dict[str, Any]) | {"versions": versions()}
    for seed in parser.parse_args().seeds:
        with tempfile.TemporaryDirectory() as folder:
            record["returns"][str(seed)] = measure(seed, Path(folder))
        write_json(RESULTS, record)
