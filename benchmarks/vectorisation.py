"""Environment steps per second of Stable-Baselines3's DummyVecEnv and SubprocVecEnv, with random actions.

    python benchmarks/vectorisation.py         -> benchmarks/results/vectorisation.json

Both step the same four environments in turns, so that they meet the same disturbances. Each figure is the median of the
repetitions. `wall` is the time that a learner waits; `cpu` counts the processes of the environments too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import numpy as np
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from imitate.compare.machine import provenance
from imitate.files import versions, write_json

RESULTS = Path(__file__).parent / "results" / "vectorisation.json"
ENVIRONMENTS = {"CartPole-v1": 1_000, "BipedalWalker-v3": 400}  # rounds of a repetition
KINDS: dict[str, type[VecEnv]] = {"DummyVecEnv": DummyVecEnv, "SubprocVecEnv": SubprocVecEnv}
NUM_ENVS = 4


def cpu_seconds(envs: VecEnv) -> float:
    """CPU seconds of this process and of the environments' processes, from Linux's /proc."""
    processes = ["self", *(process.pid for process in getattr(envs, "processes", ()))]
    return sum(int(Path(f"/proc/{each}/schedstat").read_text("utf-8").split()[0]) for each in processes) / 1e9


def measure(env_id: str, kind: type[VecEnv], rounds: int) -> dict[str, float]:
    """Steps per second over `rounds` steps of all environments; making and resetting them is not counted."""
    envs = make_vec_env(env_id, NUM_ENVS, seed=0, vec_env_cls=kind)  # type: ignore[arg-type]
    envs.reset()
    actions = [np.array([envs.action_space.sample() for _ in range(NUM_ENVS)]) for _ in range(rounds)]
    begin, cpu_begin = time.perf_counter(), cpu_seconds(envs)
    for each in actions:
        envs.step(each)
    wall, cpu = time.perf_counter() - begin, cpu_seconds(envs) - cpu_begin
    envs.close()
    return {"wall": rounds * NUM_ENVS / wall, "cpu": rounds * NUM_ENVS / cpu}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for env_id, rounds in ENVIRONMENTS.items():
        of_env = found[env_id] = {name: [] for name in KINDS}
        for _ in range(arguments.repetitions):
            for name, kind in KINDS.items():
                of_env[name].append(measure(env_id, kind, rounds))
    medians = {
        env_id: {
            name: {which: statistics.median(each[which] for each in times) for which in ("wall", "cpu")}
            for name, times in of_env.items()
        }
        for env_id, of_env in found.items()
    }
    record = {"num_envs": NUM_ENVS, "steps_per_second": medians, "repetitions": found}
    load = os.getloadavg()[0]
    write_json(arguments.out, record | {"load": load, "machine": provenance(), "versions": versions()})
    print(json.dumps(medians, indent=1))


if __name__ == "__main__":
    main()
