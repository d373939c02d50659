"""AggreVaTeD and DAgger from a teacher that is only half trained: our own PPO on BipedalWalker-v3, stopped early.

    python benchmarks/half_trained.py [--seeds 0 1 2]

50,000 steps each, the presets' settings, the same 50 test episodes. To results/half-trained.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from imitate.algorithms import find
from imitate.datasets.evaluation import evaluate
from imitate.datasets.schema import DemoInfo
from imitate.datasets.writer import DemoWriter
from imitate.envs import make_vec
from imitate.envs.seeds import Stream, draw_seed
from imitate.files import versions
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import as_tuples
from imitate.nn.stored_policy import load_policy
from imitate.training.experiment import Experiment
from imitate.training.run import Run

RESULTS = Path(__file__).parent / "results" / "half-trained.json"
WALKER, STEPS, HALF = "BipedalWalker-v3", 50_000, 150.0
BUDGETS = range(150_000, 300_000, 20_000)  # the teacher's: the first that makes it at least HALF good


def half_trained(seed: int, folder: Path) -> ActorPolicy:
    """Trained from scratch with each budget, until one is enough."""
    for budget in BUDGETS:
        out = folder / f"teacher-{budget}"
        command = (
            f"imitate train ppo --env {WALKER} --seed {seed} --budget {budget} --eval-every 0 --out {out}"
        )
        subprocess.run(command.split(), check=True, stderr=subprocess.DEVNULL)
        teacher = load_policy(out)
        if evaluate(teacher, WALKER, episodes=20, seed=draw_seed(Stream.VALIDATION)).mean >= HALF:
            break
    return teacher


def measure(seed: int, folder: Path) -> dict[str, float]:
    """Mean returns of the teacher and of who learned from it."""
    teacher = half_trained(seed, folder)
    returns = {"teacher": evaluate(teacher, WALKER, episodes=50).mean}
    for name in ("aggrevated", "dagger"):
        experiment = Experiment.create(name, WALKER, expert="the teacher", seed=seed, budget=STEPS)
        envs = make_vec(WALKER, experiment.num_envs)
        spaces = envs.single_observation_space, envs.single_action_space
        algorithm = find(name)
        config = algorithm.config(**as_tuples(experiment.hyperparameters | {"total_steps": STEPS}))
        handed: dict[str, Any] = {"envs": envs, "expert": teacher, "seed": seed}
        (folder / name).mkdir()
        with DemoWriter(folder / f"{name}.h5", DemoInfo(WALKER, *spaces), expert_actions=True) as store:
            learner = algorithm.learner(config, store=store, **handed)
            Run(learner, folder / name, budget=STEPS).finish()
        returns[name] = evaluate(learner.policy, WALKER, episodes=50).mean
        print(seed, returns, file=sys.stderr, flush=True)
    return returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    record: dict[str, Any] = {"versions": versions(), "returns": {}}
    for seed in parser.parse_args().seeds:
        with tempfile.TemporaryDirectory() as folder:
            record["returns"][seed] = measure(seed, Path(folder))
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")
