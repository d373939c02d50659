"""Values of the critics that a policy brings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from imitate.experts.values.critics import PolicyOracle
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.stacked import CriticShape

OBS, ACTIONS = spaces.Box(-np.inf, np.inf, (3,)), spaces.Box(np.float32([-2, 0]), np.float32([2, 1]))


@pytest.mark.parametrize("mean", [False, True])
def test_sac_takes_the_least_of_its_critics_and_tqc_the_mean_of_quantiles_and_critics(mean: bool) -> None:
    shape = CriticShape(2, 5 if mean else 1, (8,), 0.9, mean=mean)
    with seeded(0):
        policy = ActorPolicy(OBS, ACTIONS, hidden=(8,), head="squashed", activation="relu", critic=shape)
    oracle, obs, unit = PolicyOracle(policy), torch.randn(16, 3), torch.rand(16, 2) * 2 - 1
    actions = unit * torch.tensor([2.0, 0.5]) + torch.tensor([0.0, 0.5])
    with torch.no_grad():
        assert policy.critic is not None
        each = policy.critic(torch.cat([obs, unit], -1))[0]  # (2, 16, outputs)
        wanted = each.mean((0, 2)) if mean else torch.minimum(each[0, :, 0], each[1, :, 0])
        torch.testing.assert_close(oracle.q(obs, actions), wanted)
        torch.testing.assert_close(oracle.heads(obs, actions), each.mean(-1))
    assert oracle.gamma == 0.9
