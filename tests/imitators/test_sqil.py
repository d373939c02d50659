"""SQIL: rewards by hand, and that it imitates, from rewards it is never shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from handwritten import named

from imitate.cli import main
from imitate.datasets.evaluation import evaluate
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs import make_vec
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.imitators.sqil import SQIL, SQILConfig
from imitate.training.experiment import Experiment

DQN = {
    **{"gamma": 0.5, "learning_starts": 100, "rounds_per_iteration": 25, "hidden": (32,), "num_updates": 4},
    **{"num_steps": 1, "n_step": 1, "learning_rate": 1e-3, "lr_schedule": "constant", "target_every": 250},
    **{"tau": 1.0, "huber": 1.0},
}


@pytest.fixture
def demos(tmp_path: Path) -> Iterator[DemoReader]:
    """Five episodes of an expert that names the observation; the first is terminated, the others are cut."""
    env = make_env("Identity-v0")
    path = tmp_path / "demos.h5"
    with DemoWriter(path, DemoInfo("Identity-v0", env.observation_space, env.action_space)) as writer:
        for episode in range(5):
            obs = np.random.default_rng(episode).integers(3, size=11)
            ends = {"terminated": episode == 0, "truncated": episode != 0}
            writer.append(Trajectory(obs, obs[:10], np.zeros(10, np.float32), **ends))
    with DemoReader(path) as reader:
        yield reader


def learner(demos: DemoReader, *, absorbing: bool = True, episodes: list[int] | None = None) -> SQIL:
    envs = SyncVecEnv([lambda: make_env("Identity-v0")] * 8)
    config = SQILConfig(total_steps=2_000, dqn=DQN, absorbing=absorbing)  # type: ignore[arg-type]
    chosen = None if episodes is None else np.array(episodes)
    return SQIL(config, envs=envs, demos=demos, seed=0, episodes=chosen)


@pytest.mark.parametrize(("absorbing", "last"), [(True, 2), (False, 1)])
def test_rewards_by_hand(demos: DemoReader, absorbing: bool, last: float) -> None:
    """1 a step; at discount 0.5 an absorbing state adds 0.5 + 0.25 ... = 1 to the last one."""
    sqil = learner(demos, absorbing=absorbing, episodes=[0])
    assert len(sqil.learner.demos) == 10
    samples = sqil.learner.demos.sample(500, np.random.default_rng(0))
    ended = samples.discounts == 0
    assert set(samples.returns[ended]) == {last}
    assert set(samples.returns[~ended]) == {1}
    assert len(learner(demos).learner.demos) == 50


def test_the_learners_own_steps_are_worth_nothing(demos: DemoReader) -> None:
    sqil = learner(demos)
    sqil.step()
    assert (sqil.learner.replay.rewards == 0).all()
    batches: list[dict[str, torch.Tensor]] = []
    update = sqil.learner.update
    sqil.learner.update = lambda batch: (batches.append(batch), update(batch))[1]  # type: ignore[method-assign]
    sqil.step(8)
    assert len(batches) == 4
    half = len(batches[0]["returns"]) // 2
    assert (batches[0]["returns"][:half] >= 1).all()
    assert (batches[0]["returns"][half:] == 0).all()


def test_it_imitates(demos: DemoReader) -> None:
    sqil = learner(demos)
    while not sqil.done:
        sqil.step(2_000 - sqil.env_steps)
    assert sqil.env_steps == 2_000
    assert evaluate(sqil.policy, "Identity-v0", episodes=20).mean == 10


def test_it_imitates_with_continuous_actions(tmp_path: Path) -> None:
    """The expert's return is 0, random actions make -17."""
    env_id = "ContinuousIdentity-v0"
    sac = {"gamma": 0.5, "learning_starts": 100, "hidden": (32, 32), "batch_size": 128, "learning_rate": 3e-3}
    with DemoReader(named(tmp_path / "named.h5", env_id, 5)) as demos:
        config = SQILConfig(total_steps=1_200, sac=sac, demo_every=2)  # type: ignore[arg-type]
        sqil = SQIL(config, envs=SyncVecEnv([lambda: make_env(env_id)] * 2), demos=demos, seed=0)
    assert len(sqil.learner.demos or ()) == 25  # of 50
    while not sqil.done:
        sqil.step()
    assert (sqil.learner.replay.rewards == 0).all()
    assert evaluate(sqil.policy, env_id, episodes=10).mean > -4


def test_settings_that_can_not_be_used_are_named() -> None:
    with pytest.raises(InputError, match="half of a batch are demonstrations"):
        SQILConfig(dqn={"prioritized": True})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="gamma 1"):
        SQILConfig(dqn={"gamma": 1.0})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="leave least_reward out"):
        SQILConfig(sac={"least_reward": -1.0})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="demo_every"):
        SQILConfig(demo_every=0)


def test_a_budget_that_ends_before_learning_starts_is_refused(demos: DemoReader) -> None:
    """100 steps are 13 rounds of eight environments."""
    sqil = learner(demos)
    with pytest.raises(InputError, match="takes at least 104 steps, but only 103 are left"):
        sqil.step(103)
    sqil.step(104)
    assert sqil.least_steps == 8


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    ("env_id", "expert", "least"),
    [("CartPole-v1", "CartPole-v1", 475), ("LunarLander-v3", "LunarLander-v3:ppo", 200)],
)
def test_it_reaches_its_expert_from_ten_episodes(
    tmp_path: Path, env_id: str, expert: str, least: float, seed: int
) -> None:
    assert main(["collect", expert, "--out", str(tmp_path / "demos.h5"), "--episodes", "10"]) == 0
    run = Experiment.create("sqil", env_id, demos=str(tmp_path / "demos.h5"), seed=seed)
    with DemoReader(tmp_path / "demos.h5") as demos:
        config, left = SQILConfig(**run.hyperparameters), run.budget - demos.num_steps
        sqil = SQIL(config, envs=make_vec(env_id, run.num_envs), demos=demos, seed=seed)
        while left - sqil.env_steps >= sqil.least_steps:
            sqil.step(left - sqil.env_steps)
    assert evaluate(sqil.policy, env_id, episodes=50).mean >= least
