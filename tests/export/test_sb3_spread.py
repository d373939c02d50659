"""Exported to Stable-Baselines3, a policy draws as widely, and its statistics stay those that it learned."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from gymnasium import spaces

from imitate.export.sb3_zip import to_sb3
from imitate.nn.networks import seeded
from imitate.nn.normalize import LEAST_VARIANCE
from imitate.nn.policy import ActorPolicy

OBS = spaces.Box(-np.inf, np.inf, (5,))
ACTIONS = spaces.Box(np.float32([-2, 0]), np.float32([2, 1]))  # half ranges of 2 and 0.5


def policy_of(**settings: Any) -> ActorPolicy:
    with seeded(0):
        policy = ActorPolicy(OBS, ACTIONS, hidden=(8,), activation="relu", **settings)
    return policy.eval()


def test_ppo_draws_with_the_deviation_in_the_environments_units(tmp_path: Path) -> None:
    policy = policy_of()
    policy.log_std.data = torch.tensor([0.1, 0.4]).log()
    to_sb3(policy, tmp_path / "p.zip")
    model = sb3.PPO.load(tmp_path / "p.zip", device="cpu")
    spread = model.policy.get_distribution(torch.zeros(1, 5)).distribution.stddev
    torch.testing.assert_close(spread.detach(), torch.tensor([[0.2, 0.2]]))


@pytest.mark.parametrize("state_std", [False, True])
def test_sac_draws_with_the_deviation_before_squashing(state_std: bool, tmp_path: Path) -> None:
    policy = policy_of(head="squashed", state_std=state_std)
    if not state_std:
        policy.log_std.data = torch.tensor([-1.5, 0.5])
    to_sb3(policy, tmp_path / "p.zip")
    actor: Any = sb3.SAC.load(tmp_path / "p.zip", device="cpu", buffer_size=1).actor
    obs = torch.randn(6, 5)
    ours: Any = policy.distribution(policy.encoder(policy.encoder.prepare(obs)))
    with torch.no_grad():
        mean, log_std, _ = actor.get_action_dist_params(obs)
        torch.testing.assert_close(mean, ours.mean, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(log_std, ours.log_std.expand_as(mean), rtol=1e-5, atol=1e-6)


def test_statistics_are_of_as_many_observations_and_stay_as_they_are(tmp_path: Path) -> None:
    """They would move with each step of evaluation, and forget at once what counts for little."""
    policy = policy_of(normalize_obs=True)
    policy.encoder.moments.count.fill_(1234)
    path = to_sb3(policy, tmp_path / "p.zip")
    assert path is not None
    statistics = pickle.loads(path.read_bytes())
    assert (statistics.training, statistics.norm_reward, statistics.obs_rms.count) == (False, False, 1234)


def test_an_observation_that_hardly_varied_is_divided_by_the_same(tmp_path: Path) -> None:
    """SB3 adds its epsilon to the variance; ours is never less than a least one."""
    policy = policy_of(normalize_obs=True)
    policy.encoder.moments.var.copy_(torch.tensor([0.0, LEAST_VARIANCE / 2, 1e-3, 1.0, 4.0]))
    path = to_sb3(policy, tmp_path / "p.zip")
    assert path is not None
    statistics = pickle.loads(path.read_bytes())
    wanted = [LEAST_VARIANCE, LEAST_VARIANCE, 1e-3, 1.0, 4.0]
    np.testing.assert_allclose(statistics.obs_rms.var + statistics.epsilon, wanted, rtol=1e-6)
