"""SAC and TD3: how targets follow, and what replays sum, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from imitate.configs.sac import SACConfig
from imitate.configs.td3 import TD3Config
from imitate.datasets import DemoInfo, DemoReader, DemoWriter, Trajectory
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.rl.sac import SAC
from imitate.rl.td3 import TD3


def learner_of(kind: Any, config: Any, demos: DemoReader | None = None, **settings: Any) -> Any:
    base = {
        "learning_starts": 10,
        "hidden": (16, 16),
        "batch_size": 8,
        "replay_size": 1_000,
        "actor_every": 1,
    }
    envs = SyncVecEnv([lambda: make_env("ContinuousIdentity-v0")] * 2)
    return kind(config(**base | settings), envs=envs, seed=0, demos=demos)


@pytest.mark.parametrize(("kind", "config"), [(SAC, SACConfig), (TD3, TD3Config)])
def test_targets_go_a_quarter_of_the_way_to_what_they_follow(kind: Any, config: Any) -> None:
    learner = learner_of(kind, config, tau=0.25, learning_rate=1e-2)
    while not learner.ready:
        learner.replay.add(learner.collect())
    followed = [(learner.critics.target, learner.critics.online)]
    followed += [(learner.target_policy, learner.policy_net.stack)] if kind is TD3 else []
    before = [[each.detach().clone() for each in target.parameters()] for target, _ in followed]
    learner.update(learner.batches(1)[0])
    for (target, online), were in zip(followed, before, strict=True):
        for now, was, new in zip(target.parameters(), were, online.parameters(), strict=True):
            assert not torch.equal(was, new)
            torch.testing.assert_close(now, was.lerp(new, 0.25))


@pytest.mark.parametrize(("kind", "config"), [(SAC, SACConfig), (TD3, TD3Config)])
def test_demonstrations_sum_as_many_rewards_as_the_learner_and_no_lower_ones(
    kind: Any, config: Any, tmp_path: Path
) -> None:
    """Rewards -9, 2 and 4 with discount 1/2, of which -9 counts as -1: -1 + 1 + 1, 2 + 2 and 4."""
    env = make_env("ContinuousIdentity-v0")
    info = DemoInfo("ContinuousIdentity-v0", env.observation_space, env.action_space)
    with DemoWriter(tmp_path / "demos.h5", info) as writer:
        obs, actions = np.zeros((4, 1), np.float32), np.zeros((3, 1), np.float32)
        rewards = np.float32([-9, 2, 4])
        writer.append(Trajectory(obs, actions, rewards, terminated=True, truncated=False))
    with DemoReader(tmp_path / "demos.h5") as demos:
        learner = learner_of(kind, config, demos, n_step=3, gamma=0.5, least_reward=-1.0)
    samples = learner.demos.sample(100, np.random.default_rng(0))
    assert set(samples.returns.tolist()) == {1.0, 4.0}
    assert not samples.discounts.any()
    assert (learner.replay.n_step, learner.replay.gamma, learner.replay.least_reward) == (3, 0.5, -1.0)
