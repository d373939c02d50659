"""AggreVaTeD, its other forms, BC, DAgger and PPO side by side: one comparison per environment, then a table.

    python benchmarks/aggrevated.py [ENV ...] [--seeds 3] [--out aggrevated-suite]

All learners have the same budget, including validation, and are tested on the same 50 episodes. The reports go to the
output folder, and the figures to benchmarks/results/aggrevated-suite.json. The experts come from the zoo, so set
IMITATE_ZOO_DIR.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from imitate.compare import Comparison, compare
from imitate.compare.statistics.finished_runs import read_outcome
from imitate.files import machine, versions, write_json

RECORD = Path(__file__).parent / "results" / "aggrevated-suite.json"
FORMS = ("aggrevated", "aggrevated:aggrevate", "aggrevated:notebook-a", "aggrevated:notebook-b")
OTHERS = ("bc", "dagger", "ppo")
SUITE = {
    "CartPole-v1": ("zoo:dqn/CartPole-v1", 8_000, (*FORMS, *OTHERS)),
    "Acrobot-v1": ("zoo:dqn/Acrobot-v1", 5_000, (*FORMS, *OTHERS)),
    "LunarLander-v3": ("zoo:dqn/LunarLander-v2", 20_000, (*FORMS, *OTHERS)),
    "BipedalWalker-v3": (
        "zoo:ppo/BipedalWalker-v3",
        60_000,
        ("aggrevated", "aggrevated:beta-0", "aggrevated:notebook-a", "aggrevated:notebook-b", *OTHERS),
    ),
}


def run(env_id: str, seeds: int, out: Path, workers: int | None) -> dict[str, Any]:
    """The comparison of one environment as plain data; continues one that was interrupted."""
    expert, budget, algorithms = SUITE[env_id]
    comparison = Comparison(
        env_id,
        algorithms,
        expert=expert,
        seeds=seeds,
        budget=budget,
        episodes=50,
    )
    compare(comparison, out / env_id, workers=workers)
    outcome = read_outcome(out / env_id)
    learners = {
        learner.algorithm: {
            "means": [result.mean for result in learner.results],
            "steps_to_95_percent": outcome.to_reach(learner, 0.95),
            "cpu_seconds": [result.cpu_seconds for result in learner.results],
        }
        for learner in outcome.learners
    }
    return {
        "expert": expert,
        "budget": budget,
        "expert_mean": outcome.expert_mean,
        "random": outcome.random_mean,
        "learners": learners,
    }


def keep(env_id: str, record: dict[str, Any]) -> None:
    """Write one environment to the record, with the machine that measured it."""
    known = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    write_json(RECORD, known | {env_id: record | {"machine": machine(), "versions": versions()}})


def show(env_id: str, record: dict[str, Any]) -> None:
    print(
        f"\n{env_id}, {record['budget']} steps; expert {record['expert_mean']:.1f}, random {record['random']:.1f}\n"
    )
    print("| learner | final | each seed | steps to 95 % of the range |\n|---|---|---|---|")
    for name, row in record["learners"].items():
        each = ", ".join(f"{mean:.0f}" for mean in row["means"])
        steps = ", ".join("never" if at is None else str(at) for at in row["steps_to_95_percent"])
        print(f"| {name} | {np.mean(row['means']):.1f} | {each} | {steps} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("env", nargs="*", default=list(SUITE), metavar="ENV")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--out", type=Path, default=Path("aggrevated-suite"))
    arguments = parser.parse_args()
    for name in arguments.env:
        record = run(name, arguments.seeds, arguments.out, arguments.workers)
        keep(name, record)
        show(name, record)
