"""Speeds of learners on a GPU, with and without CUDA graphs, on this machine's processors, and beside SB3.

    python benchmarks/gpu.py [CASE ...] --out benchmarks/results/gpu.json

A case is a learner and its settings; each measurement has a process of its own, alone on the machine: environment steps
a second by the clock, the median of the iterations of `--seconds` after a warm-up. Pong and Breakout have the presets'
settings; those of HalfCheetah are CleanRL's, for which LeanRL published its speeds (github.com/pytorch-labs/LeanRL).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from imitate.algorithms import find
from imitate.compare.machine import provenance
from imitate.envs.vectorize import make_vec
from imitate.files import read_json, versions, write_json
from imitate.nn.graphed import Graphed
from imitate.training.settings import make_config, tuned

ATARI = {"repeat_action_probability": 0.0}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ppo-pong": ("ppo", "ALE/Pong-v5", {}),
    "dqn-breakout": ("dqn", "ALE/Breakout-v5", {"learning_starts": 2_000, "replay_size": 20_000}),
    "ppo-halfcheetah": (
        "ppo",
        "HalfCheetah-v5",
        {"num_envs": 1, "num_steps": 2048, "batch_size": 64, "num_epochs": 10, "hidden": (64, 64)},
    ),
    "sac-halfcheetah": (
        "sac",
        "HalfCheetah-v5",
        {
            **{"num_envs": 1, "batch_size": 256, "hidden": (256, 256), "learning_starts": 500},
            **{"updates_per_step": 1.0, "rounds_per_iteration": 256},
        },
    ),
}
"""Algorithm, environment, and what differs from its preset."""
ON = ("cpu", "eager", "graphs", "sb3")
LEANRL = {"ppo-pong": 6809, "ppo-halfcheetah": 1774, "sac-halfcheetah": 725}


def ours(case: str, on: str, seconds: float) -> list[float]:
    """Rates of the iterations of one of our learners."""
    algorithm, env_id, more = CASES[case]
    found = find(algorithm)
    preset = tuned(algorithm, env_id) | more | {"total_steps": 10_000_000}
    names = {field.name for field in dataclasses.fields(found.config)}
    config = make_config(algorithm, {name: value for name, value in preset.items() if name in names})
    games = {name: preset.get(name, False) for name in ("episodic_life", "clip_rewards")}
    kwargs: dict[str, Any] = {"env_kwargs": ATARI, **games} if env_id.startswith("ALE") else {}
    if on == "eager":
        Graphed.__call__ = lambda graphed, batch: graphed.step(batch)  # type: ignore[method-assign]
    backend = "ale" if env_id.startswith("ALE") else "gymnasium"
    with closing(make_vec(env_id, preset["num_envs"], backend=backend, **kwargs)) as envs:
        device = "cpu" if on == "cpu" else "cuda"
        learner = found.learner(config, envs=envs, seed=0, device=device)
        while learner.updates < 2:  # it has learned, and recorded what it replays
            learner.step()
        return rates(lambda: learner.env_steps, learner.step, seconds)


def sb3(case: str, seconds: float) -> list[float]:
    """Rates of Stable-Baselines3's learner with the same settings, on the GPU."""
    import ale_py
    import stable_baselines3
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env

    algorithm, env_id, more = CASES[case]
    preset = tuned(algorithm, env_id) | more
    games = env_id.startswith("ALE")
    if games:
        gym.register_envs(ale_py)
        name = env_id.removeprefix("ALE/").removesuffix("-v5") + "NoFrameskip-v4"
        envs: Any = stable_baselines3.common.vec_env.VecFrameStack(
            make_atari_env(name, preset["num_envs"], seed=0), 4
        )
    else:
        envs = make_vec_env(env_id, preset["num_envs"], seed=0)
    settings: dict[str, Any] = {"batch_size": preset["batch_size"], "device": "cuda"}
    if algorithm == "ppo":
        settings |= {"n_steps": preset["num_steps"], "n_epochs": preset["num_epochs"]}
    else:
        settings |= {"learning_starts": preset["learning_starts"], "buffer_size": 20_000}
    if algorithm == "dqn":
        settings |= {"train_freq": 1, "gradient_steps": preset["num_updates"]}
    make = getattr(stable_baselines3, algorithm.upper())
    model = make("CnnPolicy" if games else "MlpPolicy", envs, **settings)
    each = preset["num_envs"] * preset["num_steps"] if algorithm == "ppo" else 512
    model.learn(4 * each if algorithm == "ppo" else preset["learning_starts"] + each)
    return rates(lambda: model.num_timesteps, lambda: model.learn(each, reset_num_timesteps=False), seconds)


def rates(steps: Callable[[], int], learn: Callable[[], object], seconds: float) -> list[float]:
    """Steps a second of each iteration, until so many seconds are over."""
    found = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        before, at = steps(), time.perf_counter()
        learn()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        found.append((steps() - before) / (time.perf_counter() - at))
    return found


def measured(case: str, on: str, seconds: float) -> dict[str, Any]:
    """A measurement in a process of its own; what it printed if it failed."""
    words = [sys.executable, __file__, case, "--on", on, "--seconds", str(seconds)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-5:]}
    each = json.loads(done.stdout.splitlines()[-1])
    return {"steps_per_second": statistics.median(each), "iterations": len(each)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"by default all: {', '.join(CASES)}")
    parser.add_argument("--on", choices=ON, action="append", help="by default all")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument(
        "--out",
        type=Path,
        help="the record, which keeps the other cases; without it one measurement is printed",
    )
    given = parser.parse_args()
    cases = given.cases or list(CASES)
    if unknown := [case for case in cases if case not in CASES]:
        parser.error(f"no case {', '.join(unknown)}; they are {', '.join(CASES)}")
    if given.out is None:
        if len(given.cases) != 1 or len(given.on or []) > 1:
            parser.error("without --out give one CASE, and one --on")
        case, on = cases[0], (given.on or ["graphs"])[0]
        print(json.dumps(sb3(case, given.seconds) if on == "sb3" else ours(case, on, given.seconds)))
        return
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    record: dict[str, Any] = read_json(given.out, dict[str, Any]) if given.out.exists() else {}
    record |= {"machine": provenance(), "gpu": gpu, "versions": versions(), "leanrl": LEANRL}
    for case in cases:
        record.setdefault(case, {})
        for on in given.on or ON:
            record[case][on] = measured(case, on, given.seconds)
            print(case, on, record[case][on], flush=True)
            write_json(given.out, record)


if __name__ == "__main__":
    main()
