"""Every learner that steps environments keeps its budget, as `Learner` in `imitate.algorithms` promises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.imitators.gail import GAIL, GAILConfig
from imitate.rl.a2c import A2C, A2CConfig
from imitate.rl.dqn import DQN, DQNConfig
from imitate.rl.ppo import PPO, PPOConfig
from imitate.rl.reinforce import REINFORCE, REINFORCEConfig

TOTAL = 1_000
Make = Callable[[], Any]


def envs() -> SyncVecEnv:
    return SyncVecEnv([lambda: make_env("Identity-v0")] * 8)


@pytest.fixture
def demos(tmp_path: Path) -> DemoReader:
    env = make_env("Identity-v0")
    with DemoWriter(
        tmp_path / "demos.h5", DemoInfo("Identity-v0", env.observation_space, env.action_space)
    ) as writer:
        obs = np.arange(11) % 3
        writer.append(Trajectory(obs, obs[:10], np.ones(10, np.float32), terminated=False, truncated=True))
    return DemoReader(tmp_path / "demos.h5")


@pytest.fixture(params=["ppo", "a2c", "reinforce", "dqn", "gail", "gail-a2c", "gail-reinforce"])
def make(request: pytest.FixtureRequest, demos: DemoReader) -> Make:
    a2c = A2CConfig(total_steps=TOTAL, num_steps=5, rounds_per_iteration=4)
    small: dict[str, Any] = {"hidden": (16,), "num_updates": 1, "lr_schedule": "linear"}
    dqn = DQNConfig(total_steps=TOTAL, rounds_per_iteration=20, learning_starts=8, **small)
    ppo = PPOConfig(total_steps=TOTAL, num_steps=20, num_epochs=1)
    gail = GAILConfig(total_steps=TOTAL, bc_updates=0, updates_per_round=1, ppo=ppo)
    of: dict[str, Make] = {
        "ppo": lambda: PPO(ppo, envs=envs(), seed=0),
        "a2c": lambda: A2C(a2c, envs=envs(), seed=0),
        "reinforce": lambda: REINFORCE(REINFORCEConfig(total_steps=TOTAL), envs=envs(), seed=0),
        "dqn": lambda: DQN(dqn, envs=envs(), seed=0),
        "gail": lambda: GAIL(gail, envs=envs(), demos=demos, seed=0),
    }
    for learner in ("a2c", "reinforce"):
        config = GAILConfig(total_steps=TOTAL, updates_per_round=1, learner=learner, a2c=a2c)  # type: ignore[arg-type]
        of[f"gail-{learner}"] = lambda config=config: GAIL(config, envs=envs(), demos=demos, seed=0)
    name: str = request.param
    return of[name]


def test_a_step_takes_no_more_than_its_limit(make: Make) -> None:
    for limit in (8, 19, 43):
        learner = make()
        learner.step(limit)
        assert 0 < learner.env_steps <= limit
        assert limit - learner.env_steps < learner.least_steps == 8


def test_less_than_an_iteration_needs_is_refused(make: Make) -> None:
    with pytest.raises(InputError, match="takes at least 8 steps, but only 7 are left"):
        make().step(7)


def test_a_learner_is_done_when_its_steps_are_taken(make: Make) -> None:
    learner = make()
    while not learner.done:
        learner.step(TOTAL - learner.env_steps)
    assert learner.env_steps == TOTAL


def test_schedules_end_with_the_budget_although_validations_take_a_part_of_it(make: Make) -> None:
    """After each iteration 100 steps go to something else, so of 1,000 the learner has a half or so."""
    learner, spent, rates = make(), 0, []
    while TOTAL - spent >= learner.least_steps:
        before = learner.env_steps
        limit = TOTAL - spent
        rates.append(learner.step(limit)["learning_rate"])
        spent += learner.env_steps - before + 100
        last = before / (before + limit)  # how far the last iteration was when it began
    assert rates == sorted(rates, reverse=True)
    assert spent <= TOTAL + 100
    assert learner.env_steps < 0.9 * TOTAL
    # Rounds within an iteration go on from there, so A2C and DQN end lower still.
    assert rates[-1] <= rates[0] * (1 - last) * 1.001


def test_an_episode_that_the_limit_cuts_is_truncated() -> None:
    """Eight environments, episodes of 10 steps: 16 episodes in 160 steps, of which 100 are allowed."""
    reinforce = REINFORCE(REINFORCEConfig(), envs=envs(), seed=0)
    rollout = reinforce.collect(100)
    assert rollout.steps.sum() == reinforce.env_steps == 96
    assert not rollout.terminated.any()
    assert np.argwhere(rollout.truncated)[:, 0].tolist() == [9] * 8 + [11] * 8
    assert len(rollout.end_obs) == 16
    whole = REINFORCE(REINFORCEConfig(), envs=envs(), seed=0).collect(160)
    assert whole.steps.sum() == 160
