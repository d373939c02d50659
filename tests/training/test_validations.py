"""Validations of a run: when they come, which policy they keep, and which episodes they are of."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
from counter import counter

from imitate.datasets import DemoInfo, DemoWriter, Trajectory
from imitate.datasets.evaluation import Evaluation, evaluate
from imitate.envs.make import make_env
from imitate.envs.seeds import Stream, draw_seed
from imitate.nn.policy import ActorPolicy
from imitate.training.experiment import Experiment
from imitate.training.inputs import open_inputs
from imitate.training.run import Run
from imitate.training.validation import validation_of

ENV = "ContinuousIdentity-v0"


def seven_steps(_policy: ActorPolicy, _max_steps: int) -> Evaluation:
    return Evaluation(np.array([1.0]), np.array([7]))


def validated(out: Path) -> list[int]:
    """Training steps before each validation."""
    lines = (out / "evaluations.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["env_steps"] for line in lines]


def test_of_equal_policies_the_later_is_kept_which_learned_from_more(tmp_path: Path) -> None:
    """60 steps and three validations of 7 are the budget."""
    Run(counter(), tmp_path, budget=81, validate=seven_steps, eval_every=20).finish()
    rows = (tmp_path / "evaluations.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(row)["best"] for row in rows] == [True, True, True]


def test_the_next_validation_is_counted_from_the_last(tmp_path: Path) -> None:
    """Iterations of 10 steps pass 15 at 20, 20 + 15 at 40 and 40 + 15 at 60; 2 more are left of the budget."""
    Run(counter(), tmp_path, budget=90, validate=seven_steps, eval_every=15).finish()
    assert validated(tmp_path) == [20, 40, 60, 62]


def test_both_kinds_of_validation_play_the_episodes_of_one_stream(tmp_path: Path) -> None:
    env = make_env(ENV)
    info = DemoInfo(ENV, env.observation_space, env.action_space)
    obs = np.linspace(-1, 1, 11, dtype=np.float32)[:, None]
    with DemoWriter(tmp_path / "demos.h5", info) as writer:
        writer.append(Trajectory(obs, obs[:-1], np.zeros(10, np.float32), terminated=False, truncated=True))
    run = Experiment(
        "gail", ENV, {}, demos=str(tmp_path / "demos.h5"), seed=3, eval_every=100, eval_episodes=4, num_envs=1
    )
    policy = ActorPolicy(env.observation_space, env.action_space)
    wanted = evaluate(policy, ENV, episodes=4, seed=draw_seed(Stream.VALIDATION, 3))
    for by in ("return", "demos"):
        with ExitStack() as stack:
            experiment = replace(run, validate_by=by)
            found = validation_of(experiment, open_inputs(experiment, stack))(policy, 1_000)
        np.testing.assert_allclose(found.returns, wanted.returns, rtol=1e-5)
        assert found.lengths.tolist() == [10, 10, 10, 10]
