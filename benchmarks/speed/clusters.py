"""Measure the cost of Ray, and the figures from which docs/scale.md estimates its limits.

    python benchmarks/speed/clusters.py        -> benchmarks/results/speed-ray.json

Both backends carry out the same 8 runs on CartPole with two workers, in turns, so that they meet the same disturbances.
Ray has been started on this machine before; workers start anew each time. Times are wall time, since that is what a
user waits for.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.cluster_utils import Cluster

from imitate.compare import Comparison
from imitate.compare.backends import Backend, Task
from imitate.compare.backends.processes import Processes
from imitate.compare.backends.ray import Ray
from imitate.compare.execute.carry_out import carry_out
from imitate.datasets import DemoReader, collect
from imitate.datasets.storage.schema import DemoInfo
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.experts import load_expert
from imitate.files import machine, versions

RESULTS = Path(__file__).parent.parent / "results" / "speed-ray.json"
WORKERS = 2
EXPERTS = ("CartPole-v1:ppo", "LunarLander-v3:ppo", "BipedalWalker-v3")
STORE = 512 << 20


def runs(folder: Path, backend: Backend, budget: int) -> float:
    """Wall seconds of 8 runs of PPO, from the call to the last file."""
    wanted = Comparison("CartPole-v1", ("ppo",), seeds=8, budget=budget, episodes=5, curve_episodes=2)
    begin = time.perf_counter()
    carry_out(wanted, folder, backend=backend)
    return time.perf_counter() - begin


def overhead(folder: Path, there: Callable[[], Backend], pairs: int, budget: int) -> dict[str, Any]:
    found: dict[str, list[float]] = {"processes": [], "ray": []}
    backends: dict[str, Callable[[], Backend]] = {"processes": partial(Processes, WORKERS), "ray": there}
    for pair in range(pairs):
        for name in list(backends) if pair % 2 == 0 else reversed(backends):
            found[name].append(runs(folder / f"{name}-{pair}", backends[name](), budget))
            print(pair, name, round(found[name][-1], 1), file=sys.stderr)
    results = [json.loads(path.read_text("utf-8")) for path in folder.glob("processes-0/runs/*/result.json")]
    sizes = [
        sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
        for run in folder.glob("ray-0/runs/*")
    ]
    ratios = [ours / theirs for ours, theirs in zip(found["ray"], found["processes"], strict=True)]
    return {
        "runs": 8,
        "workers": WORKERS,
        "budget": budget,
        "seconds": found,
        "ratios": ratios,
        "ratio_of_medians": statistics.median(found["ray"]) / statistics.median(found["processes"]),
        "ratio_of_least": min(found["ray"]) / min(found["processes"]),
        "cpu_seconds_per_run": statistics.fmean(result["cpu_seconds"] for result in results),
        "bytes_per_run": statistics.fmean(sizes),
    }


def nothing(root: Path, *, progress: Any) -> None:
    """A task that does nothing."""


def copy(root: Path, *, progress: Any) -> None:  # noqa: ARG001
    shutil.copyfile(root / "in", root / "out")


def carried_out(backend: Backend, tasks: list[Task]) -> float:
    begin = time.perf_counter()
    for task in tasks:
        backend.submit(task)
    left = len(tasks)
    while left:
        for name, failure in backend.ended():
            assert failure is None, (name, failure)
            left -= 1
    return time.perf_counter() - begin


def ray_itself(folder: Path, there: Callable[[], Backend]) -> dict[str, float]:
    """Tasks and megabytes per second, after the workers have begun."""
    size, count = 128 << 20, 200
    np.random.default_rng(0).integers(0, 256, size, np.uint8).tofile(folder / "in")
    there_and_back = Task("copy", copy, root=folder, reads=(Path("in"),), writes=(Path("out"),))
    with there() as backend:
        carried_out(backend, [Task(f"first {n}", nothing) for n in range(2 * WORKERS)])
        many = carried_out(backend, [Task(f"{n}", nothing) for n in range(count)])
        copying = carried_out(backend, [there_and_back])
    assert (folder / "out").read_bytes() == (folder / "in").read_bytes()
    return {"tasks_per_second": count / many, "megabytes_per_second": 2 * size / 1e6 / copying}


def recordings(folder: Path, steps: int) -> dict[str, Any]:
    """Steps per second of processor time and bytes per step of one shard, by expert."""
    found = {}
    for spec in EXPERTS:
        expert = load_expert(spec)
        path = folder / f"{spec.replace(':', '-')}.h5"
        begin = time.process_time()
        with closing(SyncVecEnv([partial(make_env, expert.env_id)] * 8)) as envs:
            info = DemoInfo(
                expert.env_id, envs.single_observation_space, envs.single_action_space, expert=spec, seed=0
            )
            with collect(expert, envs, path, info, steps=steps) as demos:
                recorded, episodes = demos.num_steps, len(demos)
        seconds = time.process_time() - begin
        found[spec] = {
            "steps": recorded,
            "episodes": episodes,
            "steps_per_cpu_second": recorded / seconds,
            "bytes_per_step": path.stat().st_size / recorded,
        }
    return found


def opening(folder: Path, shards: int) -> dict[str, float]:
    """Seconds to open a folder of many shards."""
    (folder / "shards").mkdir()
    for shard in range(shards):
        shutil.copyfile(folder / "CartPole-v1-ppo.h5", folder / "shards" / f"{shard:05}.h5")
    begin = time.perf_counter()
    with DemoReader(folder / "shards") as demos:
        episodes = len(demos)
    return {"shards": shards, "episodes": episodes, "seconds": time.perf_counter() - begin}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--budget", type=int, default=50_000, help="steps of each of the 8 runs")
    parser.add_argument("--steps", type=int, default=40_000, help="of each recording")
    arguments = parser.parse_args()
    logging.disable()
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": WORKERS, "include_dashboard": False, "object_store_memory": STORE},
    )
    there = partial(Ray, cluster.address)
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            record = {
                "machine": machine() | {"load": os.getloadavg()[0]},
                "versions": versions() | {"ray": ray.__version__},
                "overhead": overhead(folder, there, arguments.pairs, arguments.budget),
                "ray": ray_itself(folder, there),
                "recordings": recordings(folder, arguments.steps),
                "opening": opening(folder, 100),
            }
    finally:
        cluster.shutdown()
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
