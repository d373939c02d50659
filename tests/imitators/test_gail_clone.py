"""GAIL's clone: who begins with one, what it is, and that it is made once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from gail_settings import ENVS, IDENTITY, alone, learner
from handwritten import named

from imitate.cli import main
from imitate.compare.execute.audit import controls
from imitate.compare.execute.snapshots import Snapshots
from imitate.datasets.evaluation import evaluate
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.imitators.bc import BC
from imitate.imitators.gail import GAIL, GAILConfig
from imitate.nn.stored_policy import load_policy
from imitate.training.execute import execute
from imitate.training.experiment import Experiment


def test_a_head_for_the_clone_and_layers_without_units_are_refused() -> None:
    with pytest.raises(InputError, match=r"leave ppo\.head clipped out, or set bc_updates to 0"):
        GAILConfig(ppo={"head": "clipped"})
    GAILConfig(ppo={"head": "clipped"}, bc_updates=0)
    with pytest.raises(InputError, match=r"width of at least 1, got \[-1\]"):
        GAILConfig(hidden=(-1,))


def test_ppo_may_start_from_a_clone_and_the_audits_controls_do_not(tmp_path: Path) -> None:
    path = named(tmp_path / "demos.h5", "Identity-v0")
    clone = tmp_path / "clone"
    bc = ["train", "bc", "--env", "Identity-v0", "--demos", str(path), "--out", str(clone)]
    assert main([*bc, "--max-updates", "5"]) == 0
    with DemoReader(path) as demos:
        envs = SyncVecEnv([partial(make_env, demos.info.env_id)] * 8)
        policy = load_policy(clone)
        gail = GAIL(GAILConfig(), envs=envs, demos=demos, seed=0, policy=policy)
        assert gail.policy is policy
        with pytest.raises(InputError, match="use learner ppo"):
            GAIL(GAILConfig(learner="a2c"), envs=envs, demos=demos, seed=0, policy=policy)
    settings = {"seed": 0, "demos": str(path), "budget": 400, "init": str(clone)}
    experiment = Experiment.create("gail", "Identity-v0", **settings)
    assert all(control.init is None for _, control in controls(experiment, tmp_path / "audit"))


@pytest.mark.parametrize(
    ("settings", "clones"),
    [({}, True), ({"demo_pairs": 50}, True), ({"reward": "plus_one"}, False), ({"learner": "a2c"}, False)],
)
def test_it_begins_with_a_clone_unless_it_is_to_know_nothing(
    tmp_path: Path, settings: dict[str, Any], clones: bool
) -> None:
    still = {"ppo": {"learning_rate": 0.0, "num_steps": 4}, "a2c": {"learning_rate": 0.0}}
    with DemoReader(named(tmp_path / "demos.h5", ENVS["continuous"])) as demos:
        gail = learner(demos, bc_updates=500, **still | settings)
        gail.step()
        mean = evaluate(gail.policy, ENVS["continuous"], episodes=20).mean
        assert mean > -0.3 if clones else mean < -2  # nothing learned: -3.3
        if not clones:
            return
        clone = gail.policy
        envs = SyncVecEnv([partial(make_env, demos.info.env_id)] * 8)
        before = [parameter.clone() for parameter in clone.parameters()]
        GAIL(alone({"bc_updates": 5, **still}), envs=envs, demos=demos, seed=1, policy=clone).step()
        assert all(map(torch.equal, before, clone.parameters()))  # who hands in a policy gets no other


def test_its_curve_begins_with_the_clone(tmp_path: Path) -> None:
    """The demonstrations' steps bought a clone: that is the policy after them, and not one that knows nothing."""
    demos = named(tmp_path / "demos.h5", ENVS["continuous"], 4)
    settings = {"bc_updates": 500, "ppo": {"num_steps": 4}}
    run = Experiment.create("gail", ENVS["continuous"], demos=demos, budget=160, hyperparameters=settings)
    snapshots = Snapshots(tmp_path / "snapshots", 160, lambda: 0.0)
    assert execute(run, tmp_path / "run", snapshot=snapshots)
    marks = snapshots.complete(tmp_path / "run" / "policy", 160, 0.0)
    assert [marks[n].steps for n in range(6)] == [0, 40, 40, 40, 40, 72]
    scores = [
        evaluate(load_policy(tmp_path / "snapshots" / marks[n].policy), run.env_id).mean for n in (0, 1)
    ]
    assert scores[0] < -2
    assert scores[1] > -0.3


def test_bc_with_the_rows_options_is_gails_clone(tmp_path: Path) -> None:
    """imitate/reproduce/rows.toml measures the clone so; PPO leaves it as it is while the value network warms up."""
    path = named(tmp_path / "demos.h5", ENVS["continuous"])
    options = [
        "--max-updates",
        "30",
        "--holdout",
        "0",
        "--members",
        "1",
        "--log-std-init",
        "-2",
        "--seed",
        "3",
    ]
    words = ["--env", ENVS["continuous"], "--demos", str(path), "--out", str(tmp_path / "clone")]
    assert main(["train", "bc", *words, *options]) == 0
    with DemoReader(path) as demos:
        envs = SyncVecEnv([partial(make_env, demos.info.env_id)] * 2)
        gail = GAIL(GAILConfig(bc_updates=30, ppo={"num_steps": 8}), envs=envs, demos=demos, seed=3)
        gail.step()
    clone = load_policy(tmp_path / "clone").state_dict()
    assert all(torch.equal(weights, clone[name]) for name, weights in gail.policy.state_dict().items())


def test_a_clone_is_not_made_again(tmp_path: Path) -> None:
    with DemoReader(named(tmp_path / "demos.h5", "Identity-v0")) as demos:
        first, second = (learner(demos, ppo=IDENTITY, bc_updates=20) for _ in range(2))
        first.step()
        assert first.env_steps == 0
        second.load_state_dict(first.state_dict())
        second.step()
        assert second.env_steps > 0


def test_a_clone_that_failed_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: BC) -> dict[str, float]:
        raise OSError(f"no more than {self.updates} updates")

    with DemoReader(named(tmp_path / "demos.h5", ENVS["discrete"])) as demos:
        gail, later = learner(demos, bc_updates=5), learner(demos, bc_updates=5)
        with monkeypatch.context() as patched:
            patched.setattr(BC, "step", fail)
            with pytest.raises(OSError, match="no more than 0 updates"):
                gail.step()
        later.load_state_dict(gail.state_dict())
        for each in (gail, later):
            assert "clone_loss" in each.step()
            assert each.env_steps == 0
