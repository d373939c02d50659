"""Measure the processor time of AggreVaTeD's trial against DAgger, with and without it (`--trial 0`), in turn.

    IMITATE_ZOO_DIR=... python benchmarks/trial_cost.py [--seeds 3]

The trial trains DAgger's policy beside AggreVaTeD's for the first 60 % of the steps. Writes results/trial-cost.json.
"""

from __future__ import annotations

import json
import shlex
import statistics
import subprocess
import tempfile
from pathlib import Path

import tyro

from imitate.files import machine, versions, write_json

RECORD = Path(__file__).parent / "results" / "trial-cost.json"
TASKS = {
    "Acrobot-v1": "train aggrevated --env Acrobot-v1 --expert zoo:dqn/Acrobot-v1 --budget 5000",
    "Pendulum-v1": "train aggrevated --env Pendulum-v1 --expert zoo:sac/Pendulum-v1 --budget 5000",
    "LunarLander-v3": "train aggrevated --env LunarLander-v3 --expert zoo:ppo/LunarLander-v2 --budget 10000",
}


def cpu_seconds(command: str, out: Path) -> float:
    subprocess.run(
        ["imitate", *shlex.split(command), "--out", str(out)], check=True, capture_output=True, timeout=3_600
    )
    return float(json.loads((out / "timing.json").read_text("utf-8"))["cpu_seconds"])


def main(seeds: int = 3) -> None:
    found = {}
    for env_id, command in TASKS.items():
        runs: dict[str, list[float]] = {"with": [], "without": []}
        for seed in range(10, 10 + seeds):
            with tempfile.TemporaryDirectory() as folder:
                for name, option in (("with", ""), ("without", " --trial 0")):
                    runs[name].append(
                        cpu_seconds(f"{command} --seed {seed}{option}", Path(folder) / f"{name}{seed}")
                    )
        more = statistics.fmean(runs["with"]) / statistics.fmean(runs["without"]) - 1
        found[env_id] = {"command": f"imitate {command}", **runs, "more": round(more, 3)}
        print(env_id, found[env_id], flush=True)
    write_json(RECORD, {"tasks": found, "machine": machine(), "versions": versions()})


if __name__ == "__main__":
    tyro.cli(main)
