"""Runs: killed and resumed ones end in the same bytes as others, budgets hold, the best policy is kept."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imitate.algorithms import find
from imitate.datasets.evaluation import Evaluation
from imitate.errors import InputError
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import load_policy
from imitate.training.experiment import Experiment, execute, preset
from imitate.training.run import train

VALIDATED: dict[str, Any] = {"eval_every": 3_000, "eval_episodes": 2}
RUNS: dict[str, dict[str, Any]] = {
    "ppo": VALIDATED | {"budget": 12_000, "checkpoint_every": 1_024},
    "dagger": VALIDATED | {"budget": 6_000, "checkpoint_every": 900, "expert": "CartPole-v1:ppo"},
    "aggrevated": VALIDATED
    | {
        "budget": 4_000,
        "checkpoint_every": 500,
        "expert": "CartPole-v1:ppo",
        "hyperparameters": {"updates_per_iteration": 30, "final_updates": 30, "fqe_updates": 30},
    },
    "a2c": VALIDATED
    | {"budget": 20_000, "checkpoint_every": 1_500, "hyperparameters": {"rounds_per_iteration": 4}},
    "reinforce": VALIDATED
    | {"budget": 20_000, "checkpoint_every": 1_500, "hyperparameters": {"num_episodes": 4}},
    "dqn": VALIDATED
    | {
        "budget": 10_000,
        "checkpoint_every": 1_500,
        "hyperparameters": {"num_steps": 1, "num_updates": 2, "rounds_per_iteration": 50},
    },
}

SCRIPT = """
import sys
from pathlib import Path
from imitate.training.experiment import Experiment, execute, preset
execute(Experiment.read(Path(sys.argv[1])), Path(sys.argv[2]), resume=True)
"""


def digest(run: Path) -> dict[str, str]:
    names = (
        "policy/policy.safetensors",
        "last_policy/policy.safetensors",
        "metrics.jsonl",
        "evaluations.jsonl",
    )
    return {name: hashlib.sha256((run / name).read_bytes()).hexdigest() for name in names}


@pytest.mark.parametrize("algorithm", RUNS)
def test_a_killed_and_resumed_run_ends_in_the_same_bytes(tmp_path: Path, algorithm: str) -> None:
    experiment = Experiment.create(algorithm, "CartPole-v1", **RUNS[algorithm])
    execute(experiment, tmp_path / "whole")
    experiment.write(tmp_path / "config.json")
    killed = tmp_path / "killed"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "config.json"), str(killed)]
    kills = 0
    for rows in (3, 6):  # iterations after which it is killed
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and _lines(killed / "metrics.jsonl") < rows:
                time.sleep(0.005)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
    assert kills == 2, "the run was over before it could be killed"
    execute(experiment, killed, resume=True)
    assert digest(killed) == digest(tmp_path / "whole")


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_run_is_repeated_from_its_config(tmp_path: Path) -> None:
    experiment = Experiment.create(
        "ppo", "Identity-v0", budget=4_000, seed=3, hyperparameters={"num_steps": 16}
    )
    execute(experiment, tmp_path / "a")
    execute(Experiment.read(tmp_path / "a" / "config.json"), tmp_path / "b")
    assert digest(tmp_path / "a") == digest(tmp_path / "b")


class Counter:
    """Ten steps an iteration; its policy is a network whose bias says how far it has come."""

    expert_queries = 0
    done = False

    def __init__(self, policy: ActorPolicy) -> None:
        self.policy, self.env_steps = policy, 0

    def step(self) -> dict[str, float]:
        self.env_steps += 10
        self.policy.output.bias.data.fill_(self.env_steps)
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {"env_steps": self.env_steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.env_steps = state["env_steps"]


def _policy() -> ActorPolicy:
    from gymnasium import spaces

    return ActorPolicy(spaces.Discrete(2), spaces.Discrete(2))


def test_demonstrations_training_and_validation_share_the_budget_and_the_best_policy_is_kept(
    tmp_path: Path,
) -> None:
    learner = Counter(_policy())

    def validate(policy: ActorPolicy) -> Evaluation:  # 7 steps; best at 40 steps of training
        progress = policy.output.bias[0].item()
        return Evaluation(np.array([-abs(progress - 40)]), np.array([7]))

    assert train(learner, tmp_path, budget=150, demo_steps=20, validate=validate, eval_every=20)
    totals = json.loads((tmp_path / "finished.json").read_text())
    # 20 + 10 * 9 + 7 * 5 = 145: one more step of 10 and its validation of 7 would pass 150
    assert totals == {"env_steps": 90, "demo_steps": 20, "validation_steps": 35, "expert_queries": 0}
    assert load_policy(tmp_path).output.bias[0].item() == 40
    assert load_policy(tmp_path / "last_policy").output.bias[0].item() == 90
    rows = [json.loads(line) for line in (tmp_path / "evaluations.jsonl").read_text().splitlines()]
    assert [row["budget_steps"] for row in rows] == [47, 74, 101, 128, 145]
    assert [row["best"] for row in rows] == [True, True, False, False, False]


def test_ctrl_c_saves_and_resuming_finishes(tmp_path: Path) -> None:
    learner = Counter(_policy())

    def interrupt(_spent: int, _metrics: dict[str, float]) -> None:
        if learner.env_steps == 30:
            os.kill(os.getpid(), signal.SIGINT)

    assert not train(learner, tmp_path, budget=100, progress=interrupt)
    fresh = Counter(_policy())
    assert train(fresh, tmp_path, budget=100, resume=True)
    assert fresh.env_steps == 100
    assert [
        json.loads(line)["env_steps"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()
    ] == list(range(10, 101, 10))


def test_ppo_starts_from_a_cloned_policy_and_keeps_its_skill(tmp_path: Path) -> None:
    execute(
        Experiment.create("dagger", "CartPole-v1", expert="CartPole-v1:ppo", budget=4_000), tmp_path / "clone"
    )
    tuned = Experiment.create(
        "ppo", "CartPole-v1", budget=6_000, eval_every=1_000, eval_episodes=2, init=str(tmp_path / "clone")
    )
    execute(tuned, tmp_path / "tuned")
    first = json.loads((tmp_path / "tuned" / "evaluations.jsonl").read_text().splitlines()[0])
    assert first["mean_return"] > 400  # from scratch: about 50 after 1,000 steps


def test_inputs_that_do_not_fit_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'dagger'"):
        Experiment.create("daggr", "CartPole-v1")
    with pytest.raises(InputError, match="did you mean 'gamma'"):
        Experiment.create("ppo", "CartPole-v1", hyperparameters={"gama": 0.9})
    with pytest.raises(InputError, match="give --expert"):
        Experiment.create("dagger", "CartPole-v1")
    wrong = Experiment.create("dagger", "Acrobot-v1", expert="CartPole-v1:ppo")
    with pytest.raises(
        InputError, match=r"has observation_space Box\(4,\) of float32, that of Acrobot-v1 is Box\(6,\)"
    ):
        execute(wrong, tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()


def test_a_variant_is_known_by_its_algorithm_and_its_presets() -> None:
    assert find("ppo:sparse").title == "PPO (sparse)"
    assert find("ppo:sparse").learner is find("ppo").learner
    with pytest.raises(InputError, match="ppo has no variant 'sparse'"):
        preset("ppo:sparse", "CartPole-v1")


def test_settings_that_a_learner_refuses_leave_no_folder(tmp_path: Path) -> None:
    chosen = Experiment.create(
        "aggrevated", "CartPole-v1", expert="CartPole-v1", hyperparameters={"estimator": "target"}
    )
    with pytest.raises(InputError, match="does not fit action space"):
        execute(chosen, tmp_path / "run")
    assert not (tmp_path / "run").exists()
