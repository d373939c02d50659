"""CPU time to a return of 250 on BipedalWalker-v3: our PPO preset and Stable-Baselines3 with the zoo's hyperparameters.

    python benchmarks/speed/walker.py                     # 10 minutes, most of them the peer's
    python benchmarks/speed/walker.py --seeds 0 1 2 --who ours

Each measurement runs in its own process on one thread. It counts CPU time from the creation of the environments,
without the evaluations. Every 50,000 steps 20 deterministic episodes are played on gymnasium, the same for both, and
the first mean of 250 or more ends the measurement. The environments are part of the comparison: ours are EnvPool's, as
in our preset, SB3's are gymnasium's, as `make_vec_env` makes them. Curves go to results/walker.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from imitate.algorithms import find
from imitate.datasets.evaluation import evaluate
from imitate.datasets.trajectory import Policy
from imitate.envs import make_vec
from imitate.envs.spaces import Array
from imitate.files import versions
from imitate.training.experiment import Experiment

RESULTS = Path(__file__).parent.parent / "results" / "walker.json"
WALKER, GOAL, EVERY, EPISODES = "BipedalWalker-v3", 250.0, 50_000, 20
MOST_STEPS = 2_000_000


def ours(seed: int) -> dict[str, Any]:
    experiment = Experiment.create("ppo", WALKER, seed=seed)
    begin = time.process_time()
    envs = make_vec(WALKER, experiment.num_envs, backend=experiment.backend)
    algorithm = find("ppo")
    config = algorithm.config(**experiment.hyperparameters)
    learner = algorithm.learner(config, envs=envs, seed=seed)

    def learn() -> int:
        learner.step()
        return learner.env_steps

    settings = experiment.hyperparameters | {"num_envs": experiment.num_envs, "backend": experiment.backend}
    return {"settings": settings} | measure(learn, learner.policy, begin)


def sb3(seed: int) -> dict[str, Any]:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    # rl-baselines3-zoo, hyperparams/ppo.yml; its other settings are SB3's defaults.
    settings: dict[str, Any] = {"n_steps": 2048, "batch_size": 64, "n_epochs": 10, "gamma": 0.999}
    settings |= {"gae_lambda": 0.95, "learning_rate": 3e-4, "clip_range": 0.18}
    begin = time.process_time()
    envs = VecNormalize(make_vec_env(WALKER, 16, seed=seed), gamma=0.999)
    model = PPO("MlpPolicy", envs, seed=seed, device="cpu", **settings)

    class Normalised:
        def act(self, obs: Array, *, deterministic: bool = True) -> Array:
            actions: Array = model.predict(envs.normalize_obs(obs), deterministic=deterministic)[0]
            return actions

    def learn() -> int:
        model.learn(16 * 2048, reset_num_timesteps=False)
        return int(model.num_timesteps)

    return {"settings": settings | {"num_envs": 16}} | measure(learn, Normalised(), begin)


def measure(learn: Callable[[], int], policy: Policy, begin: float) -> dict[str, Any]:
    """Learn until an evaluation reaches the goal; `learn` runs one iteration and returns all steps so far."""
    curve: list[tuple[int, float, float]] = []
    evaluating, steps = 0.0, 0
    while steps < MOST_STEPS:
        steps = learn()
        if steps // EVERY == (curve[-1][0] if curve else 0) // EVERY:
            continue
        now = time.process_time()
        mean = evaluate(policy, WALKER, episodes=EPISODES, num_envs=EPISODES).mean
        curve.append((steps, now - begin - evaluating, mean))
        evaluating += time.process_time() - now
        print(f"{steps:9,} steps {curve[-1][1]:6.1f} s {mean:7.1f}", file=sys.stderr, flush=True)
        if mean >= GOAL:
            break
    reached = curve[-1][2] >= GOAL
    return {"steps": steps, "cpu_seconds": curve[-1][1], "reached": reached, "curve": curve}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--who", nargs="*", choices=["ours", "sb3"], default=["ours", "sb3"])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--measure", choices=["ours", "sb3"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        torch.set_num_threads(1)
        print(json.dumps(globals()[arguments.measure](arguments.seeds[0])))
        return
    # Earlier measurements stay, unless they are measured again.
    record: dict[str, Any] = json.loads(arguments.out.read_text("utf-8")) if arguments.out.exists() else {}
    record["versions"] = versions()
    for seed in arguments.seeds:  # in turn, so that both meet the same disturbances
        for who in arguments.who:
            command = [sys.executable, __file__, "--measure", who, "--seeds", str(seed)]
            environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
            record.setdefault(who, {})[str(seed)] = json.loads(done.stdout.splitlines()[-1])
            arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    seconds = {
        who: statistics.median(run["cpu_seconds"] for run in record[who].values() if run["reached"])
        for who in ("ours", "sb3")
        if any(run["reached"] for run in record.get(who, {}).values())
    }
    if len(seconds) == 2:
        record["share"] = seconds["ours"] / seconds["sb3"]
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    print(seconds, record.get("share"))


if __name__ == "__main__":
    main()
