"""AIRL's discriminator by hand: f = g(s) + gamma h(s') - h(s), D = exp f / (exp f + pi)."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from handwritten import named
from torch import Tensor

from imitate.configs.gail import GAILConfig
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.imitators.airl import ShapedNet
from imitate.imitators.discriminator import bce, reward_of
from imitate.imitators.gail import GAIL
from imitate.rl.rollout import Rollout


def by_hand(gamma: float = 0.9) -> ShapedNet:
    """g(s) = 2 s + 1 and h(s) = 10 s, of one number; the policy takes every action with probability 1/4."""

    def log_probs(obs: Tensor, _actions: Tensor) -> Tensor:
        return torch.full((len(obs),), math.log(1 / 4))

    net = ShapedNet(spaces.Box(-9, 9, (1,)), GAILConfig(reward="airl", hidden=()), gamma, log_probs)
    for head, (weight, bias) in ((net.reward, (2.0, 1.0)), (net.potential, (10.0, 0.0))):
        torch.nn.init.constant_(head[-1].weight, weight)
        torch.nn.init.constant_(head[-1].bias, bias)
    return net


def test_its_logit_and_its_reward() -> None:
    net = by_hand()
    obs, next_obs = torch.tensor([[0.5], [0.5]]), torch.tensor([[0.6], [0.6]])
    ends = torch.tensor([False, True])
    logits = net(*net.prepare(obs, torch.zeros(2), next_obs, ends))
    f = torch.tensor([2 + 0.9 * 6 - 5, 2 - 5.0])  # a termination leads nowhere, so nothing is added for s'
    torch.testing.assert_close(logits, f + math.log(4))
    torch.testing.assert_close(logits.sigmoid(), f.exp() / (f.exp() + 1 / 4))  # the paper's D
    torch.testing.assert_close(reward_of(logits, "airl"), logits.sigmoid().log() - (-logits).sigmoid().log())
    torch.testing.assert_close(net.judge(obs, torch.zeros(2), next_obs, ends), torch.tensor([2.0, 2.0]))


def test_its_reward_is_of_standardised_observations() -> None:
    """3 and 7 have the mean 5 and the deviation 2, so 9 is 2 deviations above it: 2 * 2 + 1."""
    net = by_hand()
    net.encoder.observe(torch.tensor([[3.0], [7.0]]))
    assert net.judge(torch.tensor([[9.0]])).item() == pytest.approx(5, rel=1e-4)


def test_a_circle_pays_no_more_through_its_potential() -> None:
    """With gamma 1, what h adds on the way out is taken back on the way home."""
    net = by_hand(gamma=1.0)
    places = torch.tensor([[0.0], [0.4], [-0.2], [0.0]])
    steps = places[:-1], torch.zeros(3), places[1:], torch.zeros(3, dtype=torch.bool)
    paid = net(*net.prepare(*steps)) - math.log(4)
    assert paid.sum().item() == pytest.approx(net.judge(*steps).sum().item())


CELLS, GAMMA = torch.arange(5), 0.9
PAID = -(CELLS - 3).abs().float()
"""There are five cells in a row, and a step pays minus the distance of its cell from the fourth."""


def moved(pace: int) -> Tensor:
    """The cells (5, 3) to which the three actions lead: to the left, nowhere, to the right, unless pace is -1."""
    return (CELLS[:, None] + pace * torch.tensor([-1, 0, 1])).clamp(0, 4)


def softly(paid: Tensor) -> Tensor:
    """Log-probabilities (5, 3) of an expert whose actions are the likelier the higher their soft value is."""
    values = torch.zeros(5)
    for _ in range(200):
        q = paid[:, None] + GAMMA * values[moved(1)]
        values = q.logsumexp(1)
    return q - values[:, None]


def visited(paid: Tensor, pace: int) -> list[int]:
    """The last cell that the best policy reaches from each cell, by rewards (5, 3)."""
    values = torch.zeros(5)
    for _ in range(200):
        q = paid + GAMMA * values[moved(pace)]
        values = q.amax(1)
    cells = CELLS
    for _ in range(6):
        cells = moved(pace)[cells, q.argmax(1)[cells]]
    return cells.tolist()


def test_beside_the_expert_itself_its_reward_is_the_true_one_and_outlives_the_dynamics() -> None:
    """A player like the expert sees D = 1/2, so f = log pi, and g is the true reward up to a constant
    (arXiv:1710.11248, theorem 5.1)."""
    log_pi = softly(PAID)
    obs, actions = CELLS.repeat_interleave(3), torch.arange(3).repeat(5)
    torch.manual_seed(0)
    config = GAILConfig(reward="airl", hidden=())
    net = ShapedNet(spaces.Discrete(5), config, GAMMA, lambda obs, actions: log_pi[obs, actions])
    inputs = net.prepare(obs, actions, moved(1).flatten(), torch.zeros(15, dtype=torch.bool))
    optimizer = torch.optim.LBFGS(
        net.parameters(), max_iter=500, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        logits = net(*inputs)
        found = bce(logits, torch.ones(15)) + bce(logits, torch.zeros(15))
        found.backward()  # type: ignore[no-untyped-call]
        return found

    optimizer.step(loss)  # type: ignore[arg-type]
    reward = net.judge(CELLS).detach()
    torch.testing.assert_close(reward - reward.mean(), PAID - PAID.mean(), rtol=0, atol=0.05)
    ours, of_pairs = reward[:, None].expand(5, 3), log_pi
    assert visited(ours, 1) == visited(of_pairs, 1) == [3] * 5
    assert visited(ours, -1) == [3] * 5  # left and right are exchanged
    assert visited(of_pairs, -1)[0] == 0  # the expert's action leads nowhere there, and is paid for ever


def test_true_successors() -> None:
    """Two environments, two steps; an episode of the second one ends after the first."""
    obs = np.float32([[[1], [5]], [[2], [7]]])
    done = np.array([[False, True], [False, False]])
    given = Rollout(
        obs=obs, actions=np.zeros((2, 2), np.int64), rewards=np.zeros((2, 2), np.float32),
        terminated=done, truncated=done & False, ends=np.array([[0, 1]]), end_obs=np.float32([[6]]),
        last_obs=np.float32([[3], [8]]),
    )  # fmt: skip
    assert given.next_obs[..., 0].tolist() == [[2, 6], [3, 8]]
    assert obs[..., 0].tolist() == [[1, 5], [2, 7]]


@pytest.mark.parametrize("env_id", ["Identity-v0", "ContinuousIdentity-v0"])
def test_a_round_of_gail_with_it(tmp_path: Path, env_id: str) -> None:
    """Its logits hold the log-probabilities of the actions that were taken, by the policy that took them, and its
    potentials are discounted as the learner's rewards are."""
    config = GAILConfig(reward="airl", bc_updates=3, ppo={"num_steps": 8, "gamma": 0.5})  # type: ignore[arg-type]
    with DemoReader(named(tmp_path / "demos.h5", env_id)) as demos:
        envs = SyncVecEnv([partial(make_env, env_id)] * 2)
        gail = GAIL(config, envs=envs, demos=demos, seed=0)
        gail.step()
        found = gail.step()
        assert all(map(math.isfinite, found.values()))
        obs = torch.rand(3, 1) if env_id.startswith("C") else torch.tensor([0, 1, 2])
        distribution = gail.policy(gail.policy.encoder.prepare(obs))
        raw = distribution.mode()
        assert isinstance(gail.discriminator, ShapedNet)
        assert gail.discriminator.log_probs is not None
        took = gail.policy.to_unit(gail.policy.to_env(raw))
        torch.testing.assert_close(
            gail.discriminator.log_probs(obs, took), distribution.log_prob(raw).detach(), rtol=1e-3, atol=1e-3
        )
        discounts = gail.discriminator.prepare(obs, took, obs, torch.tensor([False, True, False]))[2]
        assert discounts.tolist() == [0.5, 0.0, 0.5]


def test_what_does_not_go_with_it() -> None:
    for given in ({"gradient_penalty": 1.0}, {"spectral_norm": True}):
        with pytest.raises(InputError, match="set gradient_penalty to 0 and spectral_norm to False"):
            GAILConfig(reward="airl", **given)
