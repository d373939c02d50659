"""Fitted Q evaluation against values that can be worked out in the head."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.testing import assert_allclose
from torch import Tensor

from imitate.aggrevated.fqe import FittedQ, FQEConfig, discounted_return_std
from imitate.datasets.trajectory import Transitions
from imitate.errors import InputError
from imitate.nn.state import load_state, save_state

# Three states in a row, actions 0 (left) and 1 (right); the expert goes right. The step right of state 2 ends the
# task with reward 1; every step left costs 0.1 and stops at state 0. With gamma 0.9:
#   Q(2, right) = 1, Q(1, right) = 0.9, Q(0, right) = 0.81
#   Q(s, left) = -0.1 + 0.9 Q(max(s - 1, 0), right) = 0.629, 0.629, 0.71
CHAIN_Q = [[0.629, 0.81], [0.629, 0.9], [0.71, 1.0]]


def steps(**columns: list[float] | list[int] | list[bool] | Tensor) -> Transitions:
    tensors = {name: torch.as_tensor(column) for name, column in columns.items()}
    none = torch.zeros(len(tensors["actions"]), dtype=torch.bool)
    return Transitions(**({"terminated": none, "truncated": none} | tensors))


def chain() -> Transitions:
    """Each (state, action) once, each its own piece."""
    return steps(
        obs=[0, 0, 1, 1, 2, 2],
        actions=[0, 1, 0, 1, 0, 1],
        rewards=[-0.1, 0.0, -0.1, 0.0, -0.1, 1.0],
        next_obs=[0, 1, 0, 2, 1, 2],
        terminated=[False] * 5 + [True],
        truncated=[True] * 5 + [False],
        expert_actions=[1] * 6,
    )


def batches(data: Transitions, next_actions: Tensor, count: int, size: int) -> Iterator[dict[str, Tensor]]:
    names = ("obs", "actions", "rewards", "next_obs", "terminated")
    columns = {name: getattr(data, name) for name in names} | {"next_actions": next_actions}
    rng = np.random.default_rng(0)
    for _ in range(count):
        rows = torch.from_numpy(rng.integers(len(data), size=size))
        yield {name: column[rows] for name, column in columns.items()}


CONFIG = FQEConfig(hidden=(32,), learning_rate=1e-2, tau=0.1, gamma=0.9, batch_size=32)


@pytest.mark.parametrize("target", ["mean", "min"])
def test_recovers_the_q_of_a_chain(target: str) -> None:
    config = FQEConfig(**{**vars(CONFIG), "target": target})
    critic = FittedQ(spaces.Discrete(3), spaces.Discrete(2), config, seed=0)
    data = chain()
    heads = critic.heads(data.obs, data.actions).detach()
    assert heads.shape == (2, 6)
    assert (heads[0] != heads[1]).all()  # two critics, until the data make them one
    critic.observe(data)
    for batch in batches(data, torch.ones(6), 1000, 32):  # the expert goes right
        critic.update(batch)
    with torch.no_grad():
        values = critic.q_all(torch.arange(3)) * critic.reward_scale
        assert_allclose(values, CHAIN_Q, atol=0.02)
        # The other two views of it: one action, and each twin by itself.
        assert_allclose(critic.q(data.obs, data.actions), critic.q_all(torch.arange(3)).flatten())
        heads = critic.heads(data.obs, data.actions)
        assert_allclose(heads.mean(0), critic.q_all(torch.arange(3)).flatten(), rtol=1e-5)


def test_twins_take_actions_of_their_own_and_one_pass_back_gives_each_its_gradient() -> None:
    action_space = spaces.Box(-1, 3, (2,), np.float32)
    critic = FittedQ(spaces.Box(-1, 1, (3,), np.float32), action_space, CONFIG, seed=0)
    obs, actions = torch.rand(5, 3), torch.rand(5, 2)
    own = torch.stack([actions, actions + 1.0]).requires_grad_()
    (gradients,) = torch.autograd.grad(critic.heads(obs, own).sum(), own)  # (2, 5, 2)
    for head in range(2):
        alone = own[head].detach().requires_grad_()
        value = critic.heads(obs, alone)[head]
        assert_allclose(critic.heads(obs, own)[head].detach(), value.detach(), rtol=1e-5)
        assert_allclose(gradients[head], torch.autograd.grad(value.sum(), alone)[0], rtol=1e-4, atol=1e-6)


def test_termination_ends_the_sum_and_truncation_does_not() -> None:
    critic = FittedQ(spaces.Discrete(2), spaces.Discrete(2), CONFIG, seed=0)
    ends = steps(
        obs=[0, 0, 0], actions=[1, 1, 1], rewards=[2.0, 2.0, 2.0], next_obs=[1, 1, 1],
        terminated=[True, False, False], truncated=[False, True, False],
    )  # fmt: skip
    batch = {name: getattr(ends, name) for name in ("obs", "actions", "rewards", "next_obs", "terminated")}
    batch["next_actions"] = torch.tensor([0, 0, 0])
    with torch.no_grad():
        following = float(critic.q_all(torch.tensor([1]))[0, 0])  # the target critics begin as copies
    assert_allclose(critic.targets(batch), [2.0, 2.0 + 0.9 * following, 2.0 + 0.9 * following], rtol=1e-6)


def test_actions_count_from_the_first_one() -> None:
    critic = FittedQ(spaces.Discrete(3), spaces.Discrete(2, start=5), CONFIG, seed=0)
    obs = torch.tensor([0, 2])
    assert_allclose(
        critic.q(obs, torch.tensor([5, 6])).detach(), critic.q_all(obs)[[0, 1], [0, 1]].detach(), rtol=1e-6
    )


def test_finds_the_slope_in_a_continuous_action() -> None:
    # One step: Q(s, a) = r = -(a - s)^2, best at a = s; actions from -2 to 2.
    critic = FittedQ(spaces.Box(-1, 1, (1,)), spaces.Box(-2, 2, (1,)), CONFIG, seed=0)
    rng = np.random.default_rng(0)
    obs = torch.from_numpy(rng.uniform(-1, 1, (2000, 1)).astype(np.float32))
    actions = torch.from_numpy(rng.uniform(-2, 2, (2000, 1)).astype(np.float32))
    rewards = -((actions - obs) ** 2).squeeze(1)
    all_end = torch.ones(2000, dtype=torch.bool)
    data = steps(obs=obs, actions=actions, rewards=rewards, next_obs=obs, terminated=all_end)
    critic.observe(data)
    for batch in batches(data, torch.zeros(2000, 1), 600, 128):
        critic.update(batch)
    probe = torch.tensor([[1.5], [-1.5]], requires_grad=True)
    values = critic.q(torch.zeros(2, 1), probe) * critic.reward_scale
    assert_allclose(values.detach(), [-2.25, -2.25], atol=0.3)
    values.sum().backward()
    assert_allclose(probe.grad, [[-3.0], [3.0]], atol=0.7)
    with pytest.raises(InputError, match="discrete"):
        critic.q_all(torch.zeros(2, 1))


def test_rewards_are_divided_by_the_spread_of_discounted_returns() -> None:
    # Sums with gamma 0.5: 1, 1.5 | 3 (a new piece), so mean 11/6.
    data = steps(
        obs=[0, 1, 0], actions=[1, 1, 1], rewards=[1.0, 1.0, 3.0], next_obs=[1, 2, 1],
        terminated=[False, True, False], truncated=[False, False, True],
    )  # fmt: skip
    expected = np.std([1.0, 1.5, 3.0])
    assert_allclose(discounted_return_std(data, 0.5), expected)
    critic = FittedQ(spaces.Discrete(3), spaces.Discrete(2), FQEConfig(gamma=0.5), seed=0)
    critic.observe(data)
    assert_allclose(critic.reward_scale, expected, rtol=1e-6)
    critic.observe(chain())  # what inputs mean stays as it was
    assert_allclose(critic.reward_scale, expected, rtol=1e-6)


def test_a_checkpoint_restores_everything(tmp_path: Path) -> None:
    def fresh(seed: int) -> FittedQ:
        return FittedQ(spaces.Box(-1, 1, (2,)), spaces.Box(-2, 2, (1,)), CONFIG, seed=seed)

    rng = np.random.default_rng(1)
    obs, actions = (torch.from_numpy(rng.normal(size=(50, n)).astype(np.float32)) for n in (2, 1))
    ends = torch.arange(50) % 10 == 9
    data = steps(
        obs=obs, actions=actions, rewards=obs[:, 0] * 3, next_obs=obs, terminated=ends, expert_actions=actions
    )
    through, stored = fresh(0), fresh(0)
    for critic in (through, stored):
        critic.observe(data)
    drawn = list(batches(data, obs[:, :1], 20, 16))
    for batch in drawn:
        through.update(batch)
    for batch in drawn[:10]:
        stored.update(batch)
    save_state(tmp_path / "state", {"fqe": stored.state_dict()})
    resumed = fresh(9)
    resumed.load_state_dict(load_state(tmp_path / "state")["fqe"])
    for batch in drawn[10:]:
        resumed.update(batch)
    assert torch.equal(resumed.heads(obs, actions), through.heads(obs, actions))
    assert resumed.reward_scale == through.reward_scale != 1.0


def test_warm_start_begins_at_the_expert_s_v() -> None:
    def value(obs: Tensor) -> Tensor:  # of the chain's states, in the environment's rewards
        return torch.tensor([0.81, 0.9, 1.0])[obs]

    config = FQEConfig(**{**vars(CONFIG), "warm_start": 600})
    critic = FittedQ(spaces.Discrete(3), spaces.Discrete(2), config, seed=0, value=value)
    several = [
        torch.cat([column] * 10) for column in (getattr(chain(), name) for name in Transitions.__slots__)
    ]
    critic.observe(Transitions(*several))
    with torch.no_grad():
        values = critic.q_all(torch.arange(3)) * critic.reward_scale
    assert_allclose(values, [[0.81, 0.81], [0.9, 0.9], [1.0, 1.0]], atol=0.03)


def test_pixels() -> None:
    critic = FittedQ(spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(3), CONFIG, seed=0)
    obs = torch.zeros(2, 4, 84, 84, dtype=torch.uint8)
    batch = {
        "obs": obs, "actions": torch.tensor([0, 2]), "rewards": torch.ones(2), "next_obs": obs,
        "next_actions": torch.tensor([1, 1]), "terminated": torch.tensor([False, True]),
    }  # fmt: skip
    assert float(critic.update(batch)) > 0
    assert critic.q_all(obs).shape == (2, 3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"tau": 1.5}, "tau"), ({"hidden": (0,)}, "hidden"), ({"batch_size": 0}, "batch_size")],
)
def test_refuses_hyperparameters_that_make_no_sense(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FQEConfig(**wrong)  # type: ignore[arg-type]
