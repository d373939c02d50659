"""Improve on twelve experts, good and bad, and measure what was handed over on episodes that no search has seen.

    python benchmarks/improve_experts.py [--only 'pendulum-*'] [--seed 101] [--work FOLDER]

Each expert gets one search, on seed 100, with its own budget. Student and expert then play the same 100 episodes. The
same command goes on with an interrupted search, and measures no expert twice. Writes results/improve-experts.json, or
with another seed results/improve-other-seeds.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

from imitate.compare.machine import provenance
from imitate.compare.statistics.intervals import difference
from imitate.envs.spaces import Array
from imitate.files import versions

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "improve-experts.json"
OTHER_SEEDS = HERE / "results" / "improve-other-seeds.json"
SEED, EPISODES = 100, 100

# The task, the expert and the budget in environment steps.
EXPERTS = {
    "cartpole-ars": ("CartPole-v1", "zoo:ars/CartPole-v1", 30_000),
    "cartpole-half": ("CartPole-v1", "improve_experts:make_leaner", 30_000),
    "acrobot-ppo": ("Acrobot-v1", "zoo:ppo/Acrobot-v1", 50_000),
    "mountaincar-dqn": ("MountainCar-v0", "zoo:dqn/MountainCar-v0", 50_000),
    "lunarlander-dqn": ("LunarLander-v3", "zoo:dqn/LunarLander-v2", 100_000),
    "lunarlander-ppo": ("LunarLander-v3", "zoo:ppo/LunarLander-v2", 100_000),
    "pendulum-pid": ("Pendulum-v1", "improve_experts:make_pid", 30_000),
    "pendulum-ppo": ("Pendulum-v1", "zoo:ppo/Pendulum-v1", 30_000),
    "lunarlandercontinuous-ddpg": ("LunarLanderContinuous-v3", "zoo:ddpg/LunarLanderContinuous-v2", 100_000),
    "bipedalwalker-a2c": ("BipedalWalker-v3", "zoo:a2c/BipedalWalker-v3", 100_000),
    "halfcheetah-ars": ("HalfCheetah-v5", "zoo:ars/HalfCheetah-v3", 100_000),
    "hopper-ppo": ("Hopper-v5", "zoo:ppo/Hopper-v3", 100_000),
}


class Pid:
    """Swings a pendulum up by its energy, and holds it by a PD controller, whose integral part is 0."""

    def act(self, obs: Array) -> Array:
        cos, sin, speed = obs.T
        angle = np.arctan2(sin, cos)
        lacking = 30.0 * (1.0 - cos) - speed**2  # to twice the energy at the top
        swing = np.where(np.abs(speed) < 0.1, 2.0, np.sign(speed) * np.sign(lacking) * 2.0)
        torque = np.where(cos > 0.8, -10.0 * angle - 2.0 * speed, swing)
        clipped: Array = torque.clip(-2.0, 2.0)[:, None].astype(np.float32)
        return clipped


class Leaner:
    """Moves the cart to where its pole leans, and forgets the speeds."""

    def act(self, obs: Array) -> Array:
        return (obs[:, 2] > 0).astype(np.int64)


make_pid, make_leaner = Pid, Leaner


def imitate(command: str) -> str:
    """The output of `imitate COMMAND`. Raises CalledProcessError if it fails."""
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    arguments = [sys.executable, "-m", "imitate.cli", *shlex.split(command)]
    done = subprocess.run(
        arguments, env=os.environ | {"PYTHONPATH": path}, check=True, stdout=subprocess.PIPE
    )
    return done.stdout.decode()


def returns(policy: str, env: str) -> list[float]:
    told = imitate(f"evaluate {policy} --env {env} --episodes {EPISODES} --json")
    found: list[float] = json.loads(told)["returns"]
    return found


def measure(name: str, seed: int, out: Path) -> dict[str, Any]:
    """The verdict of a search, and the paired returns of student and expert."""
    env, expert, budget = EXPERTS[name]
    search = f"improve {expert} --env {env} --budget {budget} --seed {seed}"
    sentence = imitate(f"{search} --out {shlex.quote(str(out))}").strip()
    result = json.loads((out / "verdict.json").read_text("utf-8"))
    best = out / "snapshots" / result["verdict"]["policy"]  # which is handed over, unless it is worse
    student, teacher = returns(shlex.quote(str(best)), env), returns(expert, env)
    found = difference(np.array(student), np.array(teacher))
    return {
        "command": f"imitate {search}",
        "sentence": sentence,
        "verdict": result["verdict"],
        "costs": result["costs"],
        "student": student,
        "expert": teacher,
        "gain": {"mean": found.mean, "low": found.low, "high": found.high},
        "versions": versions(),
        "machine": provenance(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="*", metavar="PATTERN", help="experts, such as 'pendulum-*'")
    parser.add_argument("--seed", type=int, default=SEED, help="of the search")
    parser.add_argument("--work", type=Path, default=Path("improved"), help="folder of the searches")
    arguments = parser.parse_args()
    seed, results = arguments.seed, RESULTS if arguments.seed == SEED else OTHER_SEEDS
    record = json.loads(results.read_text("utf-8")) if results.exists() else {}
    for name in EXPERTS:
        key = name if seed == SEED else f"{name}-{seed}"
        if fnmatch(name, arguments.only) and key not in record:
            record[key] = measure(name, seed, arguments.work / key)
            results.write_text(json.dumps(record, indent=1) + "\n")
            print(f"{key}: {record[key]['sentence']}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
