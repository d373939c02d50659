"""GAIfO: it imitates demonstrations without actions, and its discriminator never sees any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from imitate.configs.gaifo import GAIfOConfig
from imitate.datasets.collect import collect
from imitate.datasets.evaluation import evaluate
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.imitators.gaifo import ChangeNet, GAIfO

ENV = "Line-v0"
SMALL: dict[str, Any] = {
    "total_steps": 1_000, "learning_starts": 100, "hidden": (32, 32), "batch_size": 64, "replay_size": 10_000,
    "rounds_per_iteration": 8, "learning_rate": 3e-3, "discriminator_learning_rate": 3e-3,
}  # fmt: skip


class Line(gym.Env[Any, Any]):
    """A point between -1 and 1, which an action moves by at most 0.2; every step is worth its place."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-2, 2, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.place, {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self.place = (self.place + np.float32(0.1) * action).clip(-1, 1)
        return self.place, float(self.place[0]), False, False, {}


gym.register(ENV, entry_point=Line, max_episode_steps=10)


class ToTheLeft:
    """An expert that the rewards call the worst."""

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        return obs * 0 - 2.0


def learner_of(folder: Path, **settings: Any) -> GAIfO:
    env = make_env(ENV)
    info = DemoInfo(ENV, env.observation_space, env.action_space, has_actions=False, seed=0)
    envs = SyncVecEnv([lambda: make_env(ENV)] * 2)
    collect(ToTheLeft(), envs, folder / "demos.h5", info, episodes=10).close()
    with DemoReader(folder / "demos.h5") as demos:
        return GAIfO(GAIfOConfig(**SMALL | settings), envs=envs, demos=demos, seed=3)


def test_the_discriminator_sees_states_and_their_changes_by_hand() -> None:
    net = ChangeNet(gym.spaces.Box(-9, 9, (2,)), 1, GAIfOConfig())
    obs, next_obs = torch.tensor([[0.0, 2.0], [4.0, 6.0]]), torch.tensor([[1.0, 2.0], [5.0, 8.0]])
    batch = {"obs": obs, "next_obs": next_obs}
    net.observe(batch)
    # Means 2 and 4, deviations 2. Changes (1, 0) and (1, 2) have means 1 and 1; the first never varies.
    expected = torch.tensor([[-1.0, -1.0, 0.0, -1.0], [1.0, 1.0, 0.0, 1.0]])
    torch.testing.assert_close(net.prepare(batch), expected)
    assert net(net.prepare(batch)).shape == (2,)


def test_actions_of_the_demonstrations_are_neither_there_nor_used(tmp_path: Path) -> None:
    learner = learner_of(tmp_path)
    assert learner.demos is not None
    assert (learner.demos.actions[learner.demos.acted] == -1).all()  # the lowest stands in their place
    while not learner.ready:
        learner.replay.add(learner.collect())
    (batch,) = learner.batches(1)
    learner.discriminator.observe(batch)
    before = learner.discriminator.prepare(batch)
    torch.testing.assert_close(
        learner.discriminator.prepare(batch | {"actions": batch["actions"] + 9}), before
    )


def test_a_repeated_final_observation_is_no_change_of_the_experts(tmp_path: Path) -> None:
    """Files without final observations repeat the last one where an episode terminated."""
    env = make_env(ENV)
    info = DemoInfo(ENV, env.observation_space, env.action_space, has_actions=False)
    moving, stored = np.array([[0.1], [0.2], [0.3]], np.float32), np.array([[0.5], [0.6], [0.6]], np.float32)
    with DemoWriter(tmp_path / "demos.h5", info) as writer:
        for obs in (moving, stored):
            actions, rewards = np.zeros((2, 1), np.float32), np.zeros(2, np.float32)
            writer.append(Trajectory(obs, actions, rewards, terminated=True, truncated=False))
    with DemoReader(tmp_path / "demos.h5") as demos:
        envs = SyncVecEnv([lambda: make_env(ENV)])
        learner = GAIfO(GAIfOConfig(**SMALL), envs=envs, demos=demos, seed=3)
    assert learner.demos is not None
    assert sorted(learner.demos.frames[learner.demos.acted].flatten().tolist()) == pytest.approx(
        [0.1, 0.2, 0.5]
    )


def test_it_imitates(tmp_path: Path) -> None:
    """The expert's mean return is -7: it arrives at the left end after five steps. Random actions make 0."""
    learner = learner_of(tmp_path, total_steps=600)
    while not learner.done:
        metrics = learner.step()
    assert {"discriminator_loss", "expert_accuracy", "reward", "q_loss"} <= metrics.keys()
    assert evaluate(learner.policy, ENV, episodes=20).mean < -5


def test_it_has_no_use_for_the_experts_half() -> None:
    with pytest.raises(InputError, match="leave mix_demos out"):
        GAIfOConfig(mix_demos=True)
