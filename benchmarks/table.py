"""The README's results table: the commands of each row, run for three seeds (or more), and what came out.

    python benchmarks/table.py [ROW ...] [--seeds 3]

Each row's record goes to benchmarks/results/ROW.json: commands, returns of every test episode, steps, seconds,
versions. Rows take from seconds to half an hour, Pong two hours, Breakout days; without arguments all are run.
Returns are of 50 deterministic episodes whose seeds are the same for learners, expert and random actions, and served
to choose nothing.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from imitate.datasets import make_env
from imitate.datasets.evaluation import evaluate
from imitate.datasets.play import RandomPolicy
from imitate.experts import load_expert
from imitate.files import versions

RESULTS = Path(__file__).parent / "results"
EPISODES = 50

# Environment, expert or None, and the commands; {seed} is 0, 1, 2 and the last --out is what is measured.
BC = (
    "imitate collect {expert} --episodes {episodes} --seed {seed} --out demos.h5",
    ("imitate train bc --env {env} --demos demos.h5 --seed {seed} --out run"),
)
DAGGER = ("imitate train dagger --env {env} --expert {expert} --seed {seed} --out run",)

GAIL = (BC[0], "imitate train gail --env {env} --demos demos.h5 --seed {seed} --out run")
AGGREVATED = ("imitate train aggrevated --env {env} --expert {expert} --seed {seed} --out run",)
BETA_0 = ("imitate train aggrevated:beta-0 --env {env} --expert {expert} --seed {seed} --out run",)
# CartPole without its time limit of 500 steps, or nearly: validation is one long episode.
LONG = (
    "imitate train dqn --env {env} --env-kwargs '{{\"max_episode_steps\": 10000}}' --budget 160000 "
    "--total-steps 60000 --eval-episodes 1 --seed {seed} --out run",
)


def rl(algorithm: str) -> tuple[str, ...]:
    return (f"imitate train {algorithm} --env {{env}} --seed {{seed}} --out run",)


ROWS: dict[str, tuple[str, str | None, tuple[str, ...], int]] = {
    "bc-cartpole-1-episode": ("CartPole-v1", "CartPole-v1", BC, 1),
    "dagger-cartpole": ("CartPole-v1", "CartPole-v1", DAGGER, 0),
    "ppo-cartpole": ("CartPole-v1", None, rl("ppo"), 0),
    "a2c-cartpole": ("CartPole-v1", None, rl("a2c"), 0),
    "reinforce-cartpole": ("CartPole-v1", None, rl("reinforce"), 0),
    "dqn-cartpole": ("CartPole-v1", None, rl("dqn"), 0),
    "dqn-cartpole-10000-steps": ("CartPole-v1", None, LONG, 0),
    "dqn-lunarlander": ("LunarLander-v3", None, rl("dqn"), 0),
    "dqn-pixel-cartpole": ("imitate/PixelCartPole-v0", None, rl("dqn"), 0),
    "bc-pendulum-50-episodes": ("Pendulum-v1", "Pendulum-v1", BC, 50),
    "dagger-pendulum": ("Pendulum-v1", "Pendulum-v1", DAGGER, 0),
    "bc-lunarlander-dqn-50-episodes": ("LunarLander-v3", "LunarLander-v3", BC, 50),
    "bc-lunarlander-ppo-50-episodes": ("LunarLander-v3", "LunarLander-v3:ppo", BC, 50),
    "dagger-lunarlander-dqn": ("LunarLander-v3", "LunarLander-v3", DAGGER, 0),
    "dagger-lunarlander-ppo": ("LunarLander-v3", "LunarLander-v3:ppo", DAGGER, 0),
    "dagger-bipedalwalker": ("BipedalWalker-v3", "BipedalWalker-v3", DAGGER, 0),
    "bc-bipedalwalker-20-episodes": ("BipedalWalker-v3", "BipedalWalker-v3", BC, 20),
    "gail-cartpole-1-episode": ("CartPole-v1", "CartPole-v1", GAIL, 1),
    "gail-cartpole-30-pairs": ("CartPole-v1", "CartPole-v1", (GAIL[0], f"{GAIL[1]} --demo-pairs 30"), 1),
    "gail-lunarlander-20-episodes": ("LunarLander-v3", "zoo:ppo/LunarLander-v2", GAIL, 20),
    "gail-bipedalwalker-10-episodes": ("BipedalWalker-v3", "zoo:a2c/BipedalWalker-v3", GAIL, 10),
    "ppo-bipedalwalker": ("BipedalWalker-v3", None, rl("ppo"), 0),
    "rpo-bipedalwalker": ("BipedalWalker-v3", None, rl("rpo"), 0),
    "reinforce-bipedalwalker": ("BipedalWalker-v3", None, rl("reinforce"), 0),
    "ppo-acrobot": ("Acrobot-v1", None, rl("ppo"), 0),
    "ppo-lunarlander": ("LunarLander-v3", None, rl("ppo"), 0),
    "ppo-pendulum": ("Pendulum-v1", None, rl("ppo"), 0),
    "rpo-pendulum": ("Pendulum-v1", None, rl("rpo"), 0),
    "ppo-pong": ("ALE/Pong-v5", None, rl("ppo"), 0),
    "dqn-breakout": ("ALE/Breakout-v5", None, rl("dqn"), 0),
    "bullet-cartpole-reinforce": ("imitate/BulletCartPole-v0", None, rl("reinforce"), 0),
    "balancing-plate-dqn": ("imitate/BalancingPlate-v0", None, rl("dqn"), 0),
    "aggrevated-cartpole-dqn": ("CartPole-v1", "zoo:dqn/CartPole-v1", AGGREVATED, 0),
    "aggrevated-cartpole-ppo": ("CartPole-v1", "zoo:ppo/CartPole-v1", AGGREVATED, 0),
    "aggrevated-acrobot-dqn": ("Acrobot-v1", "zoo:dqn/Acrobot-v1", AGGREVATED, 0),
    "aggrevated-acrobot-ppo": ("Acrobot-v1", "zoo:ppo/Acrobot-v1", AGGREVATED, 0),
    "aggrevated-lunarlander-dqn": ("LunarLander-v3", "zoo:dqn/LunarLander-v2", AGGREVATED, 0),
    "aggrevated-lunarlander-ppo": ("LunarLander-v3", "zoo:ppo/LunarLander-v2", AGGREVATED, 0),
    "aggrevated-bipedalwalker-ppo": ("BipedalWalker-v3", "zoo:ppo/BipedalWalker-v3", AGGREVATED, 0),
    "dagger-bipedalwalker-ppo": ("BipedalWalker-v3", "zoo:ppo/BipedalWalker-v3", DAGGER, 0),
    "aggrevated-bipedalwalker-a2c": ("BipedalWalker-v3", "zoo:a2c/BipedalWalker-v3", AGGREVATED, 0),
    "aggrevated-bipedalwalker-tqc": ("BipedalWalker-v3", "BipedalWalker-v3", AGGREVATED, 0),
    "aggrevated-pendulum-sac": ("Pendulum-v1", "zoo:sac/Pendulum-v1", AGGREVATED, 0),
    "dagger-pendulum-sac": ("Pendulum-v1", "zoo:sac/Pendulum-v1", DAGGER, 0),
    "aggrevated-lunarlandercontinuous-ddpg": (
        "LunarLanderContinuous-v3",
        "zoo:ddpg/LunarLanderContinuous-v2",
        AGGREVATED,
        0,
    ),
    "dagger-lunarlandercontinuous-ddpg": (
        "LunarLanderContinuous-v3",
        "zoo:ddpg/LunarLanderContinuous-v2",
        DAGGER,
        0,
    ),
    "aggrevated-mountaincarcontinuous-sac": (
        "MountainCarContinuous-v0",
        "zoo:sac/MountainCarContinuous-v0",
        AGGREVATED,
        0,
    ),
    "beta-0-bipedalwalker-tqc": ("BipedalWalker-v3", "BipedalWalker-v3", BETA_0, 0),
    "beta-0-pendulum-sac": ("Pendulum-v1", "zoo:sac/Pendulum-v1", BETA_0, 0),
    "beta-0-lunarlandercontinuous-ddpg": (
        "LunarLanderContinuous-v3",
        "zoo:ddpg/LunarLanderContinuous-v2",
        BETA_0,
        0,
    ),
    "beta-0-mountaincarcontinuous-sac": (
        "MountainCarContinuous-v0",
        "zoo:sac/MountainCarContinuous-v0",
        BETA_0,
        0,
    ),
    "aggrevated-bipedalwalkerhardcore-ppo": (
        "BipedalWalkerHardcore-v3",
        "zoo:ppo/BipedalWalkerHardcore-v3",
        AGGREVATED,
        0,
    ),
}


def run_row(name: str, seeds: int = 3) -> dict[str, Any]:
    env_id, spec, commands, episodes = ROWS[name]
    random = evaluate(RandomPolicy(make_env(env_id).action_space), env_id, episodes=EPISODES)
    expert = None if spec is None else evaluate(load_expert(spec), env_id, episodes=EPISODES)
    record: dict[str, Any] = {"row": name, "env": env_id, "expert": spec, "versions": versions()}
    record |= {"random": random.mean, "expert_mean": None if expert is None else expert.mean, "seeds": []}
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            filled = [c.format(env=env_id, expert=spec, seed=seed, episodes=episodes) for c in commands]
            for command in filled:
                subprocess.run(shlex.split(command), cwd=folder, check=True, stderr=subprocess.DEVNULL)
            seconds = time.monotonic() - begin
            measuring = f"imitate evaluate run --episodes {EPISODES} --json"
            result = json.loads(
                subprocess.check_output(shlex.split(measuring), cwd=folder, stderr=subprocess.DEVNULL)
            )
            run = Path(folder) / "run"
            totals = json.loads((run / "finished.json").read_text())
            validations = map(json.loads, (run / "evaluations.jsonl").read_text().splitlines())
            curve = [(row["env_steps"], row["mean_return"]) for row in validations]
            record["seeds"].append(
                {"commands": [*filled, measuring], "seconds": seconds, "curve": curve} | totals | result
            )
            print(f"{name} seed {seed}: {result['mean']:.1f} +- {result['std']:.1f}", file=sys.stderr)
    mean = float(np.mean([row["mean"] for row in record["seeds"]]))
    record["mean"] = mean
    if expert is not None:
        record["share_of_range"] = (mean - random.mean) / (expert.mean - random.mean)
    return record


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", metavar="ROW", default=list(ROWS))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    for row in arguments.rows:
        record = run_row(row, arguments.seeds)
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{row}.json").write_text(json.dumps(record, indent=1) + "\n")
        share = f", {record['share_of_range']:.1%} of the range" if "share_of_range" in record else ""
        print(
            f"{row}: {record['mean']:.1f} (expert {record['expert_mean']}, random {record['random']:.1f}){share}"
        )
