"""Environment steps per second of every vector backend and of gymnasium's, with random actions and no learner.

    python benchmarks/speed/envs.py            -> benchmarks/results/envs.json

Each figure is the median of repetitions, which take turns so that all meet the same disturbances. `cpu` counts all
threads of the process; `wall` is the time that a learner waits. Ratios use CPU time, because a busy machine distorts
wall time. Random actions end CartPole's episodes after 22 steps, so its figures measure resets too, which we seed and
gymnasium doesn't.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results" / "envs.json"
BACKENDS = {
    "gymnasium.vector.SyncVectorEnv": "gymnasium's",
    "gymnasium": "SyncVecEnv of ours",
    "envpool": "EnvPool, 1 thread",
    "envpool, 2 threads": "EnvPool, 2 threads",
    "ale": "ALE's vector environment",
}
ROWS = {
    "CartPole-v1": (4_000, ("gymnasium.vector.SyncVectorEnv", "gymnasium", "envpool")),
    "BipedalWalker-v3": (
        600,
        ("gymnasium.vector.SyncVectorEnv", "gymnasium", "envpool", "envpool, 2 threads"),
    ),
    "BreakoutNoFrameskip-v4": (150, ("gymnasium.vector.SyncVectorEnv", "gymnasium", "ale")),
}


def measure(env_id: str, backend: str, num_envs: int, count: int) -> dict[str, float]:
    """Steps per second, summed over the environments, after a warm-up of a tenth as many."""
    import numpy as np
    from gymnasium.vector import SyncVectorEnv

    from imitate.envs import make_vec
    from imitate.envs.backends.envpool import EnvPool
    from imitate.envs.backends.pool import PoolVecEnv
    from imitate.envs.make import make_env
    from imitate.envs.seeds import episode_seeds

    envs: Any
    if backend == "gymnasium.vector.SyncVectorEnv":
        envs = SyncVectorEnv([lambda: make_env(env_id)] * num_envs)
        envs.reset(seed=0)
    else:
        if backend.startswith("envpool"):
            envs = PoolVecEnv(
                EnvPool(env_id, num_envs, num_threads=2 if backend.endswith("2 threads") else 1)
            )
        else:
            envs = make_vec(env_id, num_envs, backend=backend)
        envs.reset(episode_seeds(0))
    space = envs.single_action_space
    space.seed(0)
    actions = [np.stack([space.sample() for _ in range(num_envs)]) for _ in range(64)]
    for step in range(count // 10):
        envs.step(actions[step % 64])
    wall, cpu = time.perf_counter(), time.process_time()
    for step in range(count):
        envs.step(actions[step % 64])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    envs.close()
    return {"wall": count * num_envs / wall, "cpu": count * num_envs / cpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    record: dict[str, Any] = {"cores": os.cpu_count(), "rows": {}}
    for env_id, (count, backends) in ROWS.items():
        for num_envs in (8, 16):
            rates: dict[str, list[dict[str, float]]] = {backend: [] for backend in backends}
            for _ in range(arguments.repetitions):
                for backend in backends:
                    rates[backend].append(measure(env_id, backend, num_envs, count))
            row = {}
            for backend, found in rates.items():
                ratios = [a["cpu"] / b["cpu"] for a, b in zip(found, rates[backends[0]], strict=True)]
                row[backend] = {
                    key: statistics.median(rate[key] for rate in found) for key in ("wall", "cpu")
                }
                row[backend]["ratio"] = statistics.median(ratios)
                print(
                    f"{env_id:24} {num_envs:3} envs  {BACKENDS[backend]:28} {row[backend]['wall']:9,.0f} steps/s, "
                    f"{row[backend]['cpu']:9,.0f} a CPU second  {row[backend]['ratio']:5.2f}x",
                    flush=True,
                )
            record["rows"][f"{env_id}, {num_envs} envs"] = {"medians": row, "rates": rates}
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
