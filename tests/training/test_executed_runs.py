"""Runs of every algorithm: killed and resumed ones end in the same bytes as others, and budgets hold."""

from __future__ import annotations

import hashlib
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from forked import run
from tiny import record

from imitate.algorithms import find
from imitate.cli import main
from imitate.datasets import DemoReader, DemoWriter
from imitate.errors import InputError
from imitate.training.checkpoint import Checkpoint
from imitate.training.execute import as_begun, execute
from imitate.training.experiment import Experiment
from imitate.training.settings import tuned

VALIDATED: dict[str, Any] = {"eval_every": 700, "eval_episodes": 2, "checkpoint_every": 300}
FEW = {"updates_per_iteration": 4, "final_updates": 4}
RUNS: dict[str, dict[str, Any]] = {
    "ppo": VALIDATED | {"budget": 4_000, "hyperparameters": {"num_steps": 16}},
    "dagger": VALIDATED
    | {"budget": 5_000, "expert": "CartPole-v1:ppo", "num_envs": 1, "hyperparameters": FEW},
    "aggrevated": VALIDATED
    | {
        "budget": 440,
        "eval_every": 140,
        "checkpoint_every": 60,
        "num_envs": 1,
        "env_kwargs": {"max_episode_steps": 40},
        "expert": "CartPole-v1:ppo",
        "hyperparameters": FEW
        | {"iterations": 10, "fqe_updates": 4, "hidden": (16,), "fqe": {"hidden": (16,)}},
    },
    "a2c": VALIDATED | {"budget": 2_000, "hyperparameters": {"rounds_per_iteration": 2}},
    "reinforce": VALIDATED | {"budget": 4_000, "hyperparameters": {"num_episodes": 4}},
    "dqn": VALIDATED
    | {
        "budget": 1_200,
        "hyperparameters": {
            "num_steps": 1,
            "num_updates": 1,
            "learning_starts": 100,
            "rounds_per_iteration": 10,
        },
    },
}
SCRIPT = """
import os, signal, sys, threading
from pathlib import Path
from imitate.training.execute import as_begun, execute
from imitate.training.experiment import Experiment

out, iterations = Path(sys.argv[2]), 0

def kill(_spent, _metrics):
    global iterations
    iterations += (out / "checkpoint.safetensors").exists()
    if iterations == 2:
        threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGKILL)).start()

execute(Experiment.read(Path(sys.argv[1])), out, resume=True, progress=kill)
"""
"""Dies soon after its second iteration with a checkpoint, wherever it is then."""


def digest(run: Path) -> dict[str, str]:
    names = (
        "policy/policy.safetensors",
        "last_policy/policy.safetensors",
        "metrics.jsonl",
        "evaluations.jsonl",
    )
    return {name: hashlib.sha256((run / name).read_bytes()).hexdigest() for name in names}


ODD: dict[str, dict[str, Any]] = {
    "dagger": {
        "expert": "CartPole-v1:ppo",
        "hyperparameters": {"updates_per_iteration": 3, "final_updates": 3},
    },
    "aggrevated": {
        "expert": "CartPole-v1:ppo",
        "hyperparameters": {"updates_per_iteration": 3, "final_updates": 3, "fqe_updates": 3},
    },
    "loki": {
        "expert": "CartPole-v1:ppo",
        "hyperparameters": {
            "aggrevated": {
                "iterations": 6,
                "updates_per_iteration": 3,
                "final_updates": 3,
                "fqe_updates": 3,
            }
        },
    },
    "gail": {"demos": "demos.h5", "hyperparameters": {"bc_updates": 5}},
    "ppo": {},
    "rpo": {},
    "dqn": {"hyperparameters": {"num_updates": 1, "learning_starts": 8}},
    "reinforce": {},
    "a2c": {},
    "qdagger": {
        "expert": "CartPole-v1:ppo",
        "hyperparameters": {"learning_starts": 8, "offline_updates": 4, "num_updates": 1},
    },
    "sqil": {"demos": "demos.h5", "hyperparameters": {"dqn": {"learning_starts": 8, "num_updates": 1}}},
    "iq": {"demos": "demos.h5", "hyperparameters": {"dqn": {"learning_starts": 8, "num_updates": 1}}},
}


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demos") / "demos.h5"
    main(["collect", "CartPole-v1:ppo", "--episodes", "1", "--out", str(path)])
    return path


@pytest.mark.parametrize("budget", [100, 1_000, pytest.param(2_500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("algorithm", ODD)
def test_a_budget_is_never_exceeded_and_spent_to_within_an_iteration(
    tmp_path: Path, demos: Path, algorithm: str, budget: int
) -> None:
    given = ODD[algorithm] | ({"demos": demos} if "demos" in ODD[algorithm] else {})
    env_id = "ContinuousIdentity-v0" if algorithm == "rpo" else "CartPole-v1"
    experiment = Experiment.create(
        algorithm, env_id, budget=budget, eval_every=budget // 3, eval_episodes=3, **given
    )
    if "demos" in given and budget < 600:
        with pytest.raises(InputError, match=r"too small for the demonstrations \(500\)"):
            execute(experiment, tmp_path / "run")
        assert not (tmp_path / "run").exists()
        return
    execute(experiment, tmp_path / "run")
    totals = json.loads((tmp_path / "run" / "finished.json").read_text("utf-8"))
    spent = totals["env_steps"] + totals["demo_steps"] + totals["validation_steps"]
    lines = (tmp_path / "run" / "evaluations.jsonl").read_text("utf-8").splitlines()
    dearest = max((json.loads(line)["steps"] for line in lines), default=0)
    # What is left would not pay for a step of each of the 8 environments and a validation after it.
    assert budget - dearest - 8 < spent <= budget


@pytest.mark.parametrize(
    "algorithm",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("dagger", "ppo", "reinforce")))
        for name in RUNS
    ],
)
def test_a_killed_and_resumed_run_ends_in_the_same_bytes(tmp_path: Path, algorithm: str) -> None:
    experiment = Experiment.create(algorithm, "CartPole-v1", **RUNS[algorithm])
    execute(experiment, tmp_path / "whole")
    experiment.write(tmp_path / "config.json")
    killed = tmp_path / "killed"
    for _ in range(2):  # killed, and resumed, and killed again
        assert run(SCRIPT, str(tmp_path / "config.json"), str(killed)).returncode == -signal.SIGKILL
    assert Checkpoint.read(killed) is not None
    execute(experiment, killed, resume=True)
    assert digest(killed) == digest(tmp_path / "whole")


def test_a_run_goes_on_with_the_demonstrations_that_it_began_with(tmp_path: Path, demos: Path) -> None:
    """Beside an offline learner a comparison records more episodes, in another file."""
    more = tmp_path / "more.h5"
    more.write_bytes(demos.read_bytes())
    few: dict[str, Any] = {"bc_updates": 5, "ppo": {"num_steps": 16}}
    given: dict[str, Any] = {"budget": 2_000, "hyperparameters": few}
    begun = Experiment.create("gail", "CartPole-v1", demos=demos, **given)
    execute(begun, tmp_path / "run", until=1_000)
    later = as_begun(
        Experiment.create("gail", "CartPole-v1", demos=more, demo_episodes=1, **given), tmp_path / "run"
    )
    assert (later.demos, later.demo_episodes) == (begun.demos, None)
    assert execute(later, tmp_path / "run", resume=True)


def test_a_run_is_repeated_from_its_config(tmp_path: Path) -> None:
    experiment = Experiment.create(
        "ppo", "Identity-v0", budget=1_500, seed=3, hyperparameters={"num_steps": 16}
    )
    execute(experiment, tmp_path / "a")
    execute(Experiment.read(tmp_path / "a" / "config.json"), tmp_path / "b")
    assert digest(tmp_path / "a") == digest(tmp_path / "b")


PAUSED: dict[str, Any] = {"num_envs": 2, "hyperparameters": {"num_steps": 16}}


@pytest.mark.parametrize(
    ("algorithm", "changes", "said"),
    [
        ("ppo", {"seed": 5}, "seed 0, got 5"),
        ("ppo", {"env_kwargs": {"continuous": False}}, "env_kwargs.continuous None, got False"),
        ("ppo", {"hyperparameters": {"num_steps": 8}}, "hyperparameters.num_steps 16, got 8"),
        ("a2c", {"hyperparameters": {}}, "algorithm 'ppo', got 'a2c'"),
    ],
)
def test_another_run_is_not_taken_for_the_one_that_is_resumed(
    tmp_path: Path, algorithm: str, changes: dict[str, Any], said: str
) -> None:
    execute(Experiment.create("ppo", "Identity-v0", budget=400, **PAUSED), tmp_path / "run", until=200)
    before = (tmp_path / "run" / "config.json").read_bytes()
    with pytest.raises(InputError, match=rf"is a run with {said}: go on with Experiment.read\("):
        execute(
            Experiment.create(algorithm, "Identity-v0", budget=400, **PAUSED | changes),
            tmp_path / "run",
            resume=True,
        )
    assert (tmp_path / "run" / "config.json").read_bytes() == before


def test_a_resumed_run_may_have_another_budget_an_older_config_and_moved_files(
    tmp_path: Path, demos: Path
) -> None:
    few: dict[str, Any] = {"bc_updates": 5, "ppo": {"num_steps": 16}}
    settings: dict[str, Any] = {"num_envs": 2, "eval_every": 0, "hyperparameters": few}
    run, other = tmp_path / "run", tmp_path / demos.name
    execute(Experiment.create("gail", "CartPole-v1", demos=demos, budget=700, **settings), run, until=600)
    stored = json.loads((run / "config.json").read_text("utf-8"))
    del stored["reward_sha256"], stored["hyperparameters"]["bc_updates"]
    (run / "config.json").write_text(json.dumps(stored))
    other.write_bytes(demos.read_bytes())
    longer = Experiment.create("gail", "CartPole-v1", demos=other, budget=800, **settings)
    assert execute(longer, run, resume=True)


def some(demos: Path, out: Path, *episodes: int) -> None:
    out.unlink(missing_ok=True)
    with DemoReader(demos) as reader, DemoWriter(out, reader.info) as writer:
        for episode in episodes:
            writer.append(reader[episode])


def test_demonstrations_that_have_changed_are_refused(tmp_path: Path) -> None:
    """Of the same file further episodes may come, if the run has its number of them."""
    few: dict[str, Any] = {"bc_updates": 5, "ppo": {"num_steps": 16}}
    settings: dict[str, Any] = {"num_envs": 2, "eval_every": 0, "hyperparameters": few}
    demos, mine = record(tmp_path, "CartPole-v1"), tmp_path / "mine.h5"
    some(demos, mine, 0)
    run = Experiment.create("gail", "CartPole-v1", demos=mine, demo_episodes=1, budget=1_500, **settings)
    execute(run, tmp_path / "run", until=1_200)
    some(demos, mine, 1)
    with pytest.raises(
        InputError, match=r"mine.h5 has changed since the run in .* began: restore it, or choose"
    ):
        execute(run, tmp_path / "run", resume=True)
    some(demos, mine, 0, 1)
    assert execute(run, tmp_path / "run", resume=True)


@pytest.mark.slow
def test_ppo_starts_from_a_cloned_policy_and_keeps_its_skill(tmp_path: Path) -> None:
    execute(
        Experiment.create(
            "dagger",
            "CartPole-v1",
            expert="CartPole-v1:ppo",
            budget=4_000,
            hyperparameters={"iterations": 8, "final_updates": 1_000},
        ),
        tmp_path / "clone",
    )
    tuned = Experiment.create(
        "ppo", "CartPole-v1", budget=3_000, eval_every=1_000, eval_episodes=2, init=str(tmp_path / "clone")
    )
    execute(tuned, tmp_path / "tuned")
    first = json.loads((tmp_path / "tuned" / "evaluations.jsonl").read_text("utf-8").splitlines()[0])
    assert first["mean_return"] > 400  # from scratch: about 50 after 1,000 steps


def test_inputs_that_do_not_fit_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^execute takes an Experiment, got str: make one"):
        execute("ppo", tmp_path / "run")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="did you mean 'dagger'"):
        Experiment.create("daggr", "CartPole-v1")
    with pytest.raises(InputError, match="did you mean 'gamma'"):
        Experiment.create("ppo", "CartPole-v1", hyperparameters={"gama": 0.9})
    with pytest.raises(InputError, match="give --expert"):
        Experiment.create("dagger", "CartPole-v1")
    wrong = Experiment.create("dagger", "Acrobot-v1", expert="CartPole-v1:ppo")
    with pytest.raises(InputError, match=r"CartPole-v1:ppo is not for Acrobot-v1"):
        execute(wrong, tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()


def test_a_variant_is_known_by_its_algorithm_and_its_presets() -> None:
    assert find("ppo:sparse").title == "PPO (sparse)"
    assert find("ppo:sparse").learner is find("ppo").learner
    with pytest.raises(InputError, match="ppo has no variant 'sparse'"):
        tuned("ppo:sparse", "CartPole-v1")


def test_settings_that_a_learner_refuses_leave_no_folder(tmp_path: Path) -> None:
    chosen = Experiment.create(
        "aggrevated:natural", "CartPole-v1", expert="CartPole-v1", hyperparameters={"estimator": "target"}
    )
    with pytest.raises(InputError, match="does not fit discrete actions"):
        execute(chosen, tmp_path / "run")
    assert not (tmp_path / "run").exists()
