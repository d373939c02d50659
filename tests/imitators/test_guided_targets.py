"""guided: how its targets follow, and what its replay sums."""

from __future__ import annotations

import numpy as np
import torch
from guided_settings import envs_of, small

from imitate.imitators.guided.learner import Guided


def test_the_critics_target_follows_by_a_quarter() -> None:
    learner = Guided(
        small(tau=0.25, updates_per_step=0.0, offline_updates=0), envs=envs_of(), expert=np.abs, seed=0
    )
    learner.step()
    critics = learner.updater.critics
    before = [each.clone() for each in critics.target.parameters()]
    learner.update(learner.batches(1)[0])
    for now, was, new in zip(critics.target.parameters(), before, critics.online.parameters(), strict=True):
        torch.testing.assert_close(now, was.lerp(new.detach(), 0.25))
        assert not torch.equal(was, new)


def test_the_replay_sums_rewards_as_the_settings_say() -> None:
    replay = Guided(
        small(n_step=3, gamma=0.5, least_reward=-1.0), envs=envs_of(), expert=np.abs, seed=0
    ).replay
    assert (replay.n_step, replay.gamma, replay.least_reward) == (3, 0.5, -1.0)
