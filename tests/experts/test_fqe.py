"""Fitted Q evaluation against values that can be worked out in the head."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.testing import assert_allclose
from torch import Tensor

from imitate.datasets.trajectory import Trajectory, Transitions
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.experts.values.fqe import FittedQ, FQEConfig
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


def trajectory(obs: Any, actions: Any, rewards: Any, *, terminated: bool, labels: Any = None) -> Trajectory:
    """A piece whose executed actions are the expert's unless `labels` says otherwise."""
    arrays = np.asarray(obs), np.asarray(actions), np.asarray(rewards, np.float32)
    expert = None if labels is None else np.asarray(labels)
    return Trajectory(*arrays, terminated=terminated, truncated=not terminated, expert_actions=expert)


def goes_right(obs: Array) -> Array:
    return np.ones(len(obs), np.int64)


def batches(data: Transitions, next_actions: Tensor, count: int, size: int) -> Iterator[dict[str, Tensor]]:
    names = ("obs", "actions", "rewards", "next_obs", "terminated")
    columns = {name: getattr(data, name) for name in names} | {"next_actions": next_actions}
    rng = np.random.default_rng(0)
    for _ in range(count):
        rows = torch.from_numpy(rng.integers(len(data), size=size))
        yield {name: column[rows] for name, column in columns.items()}


def going_on(next_obs: Tensor, next_actions: Tensor) -> dict[str, Tensor]:
    """A batch for `targets`: steps that pay nothing and go on."""
    never = torch.zeros(len(next_obs), dtype=torch.bool)
    return {
        **{"rewards": torch.zeros(len(next_obs)), "terminated": never},
        **{"next_obs": next_obs, "next_actions": next_actions},
    }


CONFIG = FQEConfig(hidden=(32,), learning_rate=1e-2, tau=0.1, gamma=0.9, batch_size=32)


@pytest.mark.parametrize("target", ["mean", "min"])
def test_recovers_the_q_of_a_chain(target: str) -> None:
    config = FQEConfig(**{**vars(CONFIG), "target": target})
    critic = FittedQ(spaces.Discrete(3), spaces.Discrete(2), config, seed=0)
    data = chain()
    heads = critic.heads(data.obs, data.actions).detach()
    assert heads.shape == (2, 6)
    assert (heads[0] != heads[1]).all()  # two critics, until the data make them one
    names = zip(data.obs, data.next_obs, data.actions, data.rewards, data.terminated, strict=True)
    for s, following, action, reward, end in names:
        piece = trajectory([s, following], [action], [reward], terminated=bool(end), labels=[1])
        critic.take_in([piece], goes_right)
    critic.fit(1_000, np.random.default_rng(0))
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


@pytest.mark.parametrize("actions", [spaces.Discrete(3, start=1), spaces.Box(-2, 1, (2,), np.float32)])
def test_a_step_is_that_of_autograd(actions: spaces.Space) -> None:
    """Gradients are taken by hand; rewards of a user's own arrays may be of float64."""
    critic = FittedQ(spaces.Box(-1, 1, (4,), np.float32), actions, CONFIG, seed=0)
    generator = torch.Generator().manual_seed(0)
    obs, next_obs = torch.randn(2, 16, 4, generator=generator)
    actions.seed(0)
    taken, following = (torch.from_numpy(np.array([actions.sample() for _ in range(16)])) for _ in range(2))
    rewards = torch.randn(16, generator=generator).double()
    batch = {
        "obs": obs,
        "actions": taken,
        "rewards": rewards,
        "next_obs": next_obs,
        "next_actions": following,
    }
    batch["terminated"] = torch.arange(16) % 4 == 0
    loss = (critic.heads(obs, taken) - critic.targets(batch)).square().mean()
    wanted = torch.autograd.grad(loss, critic.optimizer.parameters)
    given: list[list[Tensor]] = []
    critic.optimizer.descend = lambda _: given.append(  # type: ignore[method-assign]
        [parameter.grad.clone() for parameter in critic.optimizer.parameters]
    )
    assert critic.update(batch) == pytest.approx(float(loss.detach()))
    for mine, theirs in zip(given[0], wanted, strict=True):
        torch.testing.assert_close(mine, theirs.float(), rtol=1e-4, atol=1e-6)


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


def test_two_equal_bounds_have_a_value() -> None:
    box = spaces.Box(np.float32([-1, 2]), np.float32([1, 2]))
    critic = FittedQ(spaces.Discrete(3), box, CONFIG, seed=0)
    assert critic.q(torch.tensor([0]), torch.tensor([[0.5, 2.0]])).isfinite().all()


def test_actions_of_64_bits_have_the_value_of_those_of_32() -> None:
    critic = FittedQ(spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float64), CONFIG, seed=0)
    obs, actions = torch.tensor([0, 2]), torch.tensor([[0.5, -0.5], [0.0, 1.0]])
    torch.testing.assert_close(critic.q(obs, actions.double()), critic.q(obs, actions))


def test_finds_the_slope_in_a_continuous_action() -> None:
    # One step: Q(s, a) = r = -(a - s)^2, best at a = s; actions from -2 to 2.
    critic = FittedQ(spaces.Box(-1, 1, (1,)), spaces.Box(-2, 2, (1,)), CONFIG, seed=0)
    rng = np.random.default_rng(0)
    obs = torch.from_numpy(rng.uniform(-1, 1, (2000, 1)).astype(np.float32))
    actions = torch.from_numpy(rng.uniform(-2, 2, (2000, 1)).astype(np.float32))
    rewards = -((actions - obs) ** 2).squeeze(1)
    all_end = torch.ones(2000, dtype=torch.bool)
    data = steps(obs=obs, actions=actions, rewards=rewards, next_obs=obs, terminated=all_end)
    critic.returns.update(rewards)
    for batch in batches(data, torch.zeros(2000, 1), 600, 128):
        critic.update(batch)
    probe = torch.tensor([[1.5], [-1.5]], requires_grad=True)
    values = critic.q(torch.zeros(2, 1), probe) * critic.reward_scale
    assert_allclose(values.detach(), [-2.25, -2.25], atol=0.3)
    values.sum().backward()
    assert_allclose(probe.grad, [[-3.0], [3.0]], atol=0.7)
    with pytest.raises(InputError, match="discrete"):
        critic.q_all(torch.zeros(2, 1))


def test_rewards_are_divided_by_the_spread_of_all_discounted_returns_so_far() -> None:
    # Sums with gamma 0.5: 1, 1.5 | 3 (a new piece) | 100.
    critic = FittedQ(spaces.Discrete(3), spaces.Discrete(2), FQEConfig(gamma=0.5), seed=0)
    first = trajectory([0, 1, 2], [1, 1], [1.0, 1.0], terminated=True)
    critic.take_in([first, trajectory([0, 1], [1], [3.0], terminated=False)], goes_right)
    assert_allclose(critic.reward_scale, np.std([1.0, 1.5, 3.0]), rtol=1e-6)
    obs = torch.arange(3)
    with torch.no_grad():
        batch = going_on(obs, torch.ones(3, dtype=torch.int64))
        in_rewards = critic.q_all(obs) * critic.reward_scale
        targets = critic.targets(batch) * critic.reward_scale
        critic.take_in([trajectory([0, 1], [1], [100.0], terminated=True)], goes_right)
        assert_allclose(critic.reward_scale, np.std([1.0, 1.5, 3.0, 100.0]), rtol=1e-6)
        # What the critics and their targets say in the environment's rewards is as before.
        assert_allclose(critic.q_all(obs) * critic.reward_scale, in_rewards, rtol=1e-4)
        assert_allclose(critic.targets(batch) * critic.reward_scale, targets, rtol=1e-4)


def test_inputs_follow_all_the_data_and_the_critics_say_what_they_said() -> None:
    critic = FittedQ(spaces.Box(-9, 9, (1,)), spaces.Box(-2, 2, (1,)), CONFIG, seed=0)
    actions = np.zeros((3, 1), np.float32)
    critic.take_in(
        [trajectory(np.float32([[0], [1], [2], [1]]), actions, [0, 0, 0], terminated=True)], goes_right
    )
    obs = torch.tensor([[0.5], [1.5]])
    batch = going_on(obs, torch.ones(2, 1))
    before, targets = critic.heads(obs, torch.ones(2, 1)).detach(), critic.targets(batch)
    far = trajectory(np.float32([[6], [8], [6], [8]]), actions, [0, 0, 0], terminated=True)
    critic.take_in([far], goes_right)
    assert critic.encoder.moments is not None
    assert_allclose(critic.encoder.moments.mean, [4.0])  # of 0 1 2 1 6 8 6 8
    assert_allclose(critic.heads(obs, torch.ones(2, 1)).detach(), before, rtol=1e-4)
    assert_allclose(critic.targets(batch), targets, rtol=1e-4)


def test_the_expert_is_asked_only_where_a_piece_was_cut() -> None:
    """Successors within a piece have a stored label, and nothing follows the end of the task."""
    asked: list[float] = []
    one_step = FQEConfig(**{**vars(CONFIG), "n_step": 1})

    def expert(obs: Array) -> Array:
        asked.extend(obs.tolist())
        return np.zeros(len(obs), np.int64)

    critic = FittedQ(spaces.Discrete(9), spaces.Discrete(2), one_step, seed=0)
    cut = trajectory([0, 1, 2, 3], [1, 1, 1], [0, 0, 0], terminated=False)
    critic.take_in([cut, trajectory([4, 5, 6], [0, 0], [0, 1], terminated=True, labels=[1, 0])], expert)
    assert asked == [3]
    batch = critic.memory.batch(torch.arange(5))
    assert batch["obs"].tolist() == [0, 1, 2, 4, 5]
    assert batch["next_obs"].tolist() == [1, 2, 3, 5, 6]
    assert batch["next_actions"].tolist()[:4] == [1, 1, 0, 0]
    assert batch["terminated"].tolist() == [False, False, False, False, True]


def test_a_target_sums_rewards_for_as_long_as_the_expert_acts() -> None:
    """Actions 1 1 0 1 1 | 1, labels all 1, at most 3 rewards, gamma 0.9. From step 0 the expert acts in step 1 and not
    in 2; from 1 nowhere; from 2 in 3 and 4, where the task ends; from 3 in 4. The cut piece stops at its end."""
    config = FQEConfig(**{**vars(CONFIG), "n_step": 3})
    critic = FittedQ(spaces.Discrete(9), spaces.Discrete(2), config, seed=0)
    ended = trajectory([0, 1, 2, 3, 4, 5], [1, 1, 0, 1, 1], [1, 2, 3, 4, 5], terminated=True, labels=[1] * 5)
    critic.take_in([ended, trajectory([6, 7], [1], [6], terminated=False)], goes_right)
    batch = critic.memory.batch(torch.arange(6))
    expected = [1 + 0.9 * 2, 2, 3 + 0.9 * 4 + 0.81 * 5, 4 + 0.9 * 5, 5, 6]
    assert_allclose(batch["rewards"], expected, rtol=1e-6)
    assert_allclose(batch["discounts"], [0.81, 0.9, 0.729, 0.81, 0.9, 0.9], rtol=1e-6)
    assert batch["next_obs"].tolist() == [2, 2, 5, 5, 5, 7]
    assert batch["terminated"].tolist() == [False, False, True, True, True, False]


def test_what_is_held_out_is_not_fitted_to() -> None:
    """The last step, of another reward, is never seen."""
    critic = FittedQ(spaces.Discrete(2), spaces.Discrete(2), CONFIG, seed=0)
    pieces = [
        trajectory([s, s], [1], [reward], terminated=True) for s, reward in ((0, 1.0), (0, 1.0), (1, 9.0))
    ]
    critic.take_in(pieces, goes_right)
    critic.fit(200, np.random.default_rng(0), held_out=1)
    values = critic.q_all(torch.arange(2)).detach()[:, 1] * critic.reward_scale
    assert values[0] == pytest.approx(1.0, abs=0.05)
    assert values[1] < 6.0
    assert [column.tolist() for column in critic.memory.last(1)] == [[1], [1]]


def test_everything_is_on_its_device() -> None:
    """The device "meta" holds no numbers; one tensor left on the CPU is an error."""
    observations, actions = spaces.Box(-1, 1, (2,)), spaces.Box(-2, 2, (1,))
    critic = FittedQ(observations, actions, CONFIG, seed=0, device="meta")
    piece = trajectory(np.zeros((4, 2), np.float32), np.zeros((3, 1), np.float32), [0, 0, 0], terminated=True)
    critic.memory.append(piece, torch.zeros(1, 1))
    batch = critic.memory.batch(torch.arange(2))
    assert {tensor.device.type for tensor in batch.values()} == {"meta"}
    assert critic.heads(batch["obs"], batch["actions"]).device.type == "meta"


def test_a_checkpoint_restores_everything(tmp_path: Path) -> None:
    def fresh(seed: int) -> FittedQ:
        return FittedQ(spaces.Box(-1, 1, (2,)), spaces.Box(-2, 2, (1,)), CONFIG, seed=seed)

    def expert(obs: Array) -> Array:
        return obs[:, :1]

    def no_expert(obs: Array) -> Array:  # noqa: ARG001
        raise AssertionError("what was asked once is not asked again")

    rng = np.random.default_rng(1)
    pieces = []
    for _ in range(4):
        obs, actions = (rng.normal(size=shape).astype(np.float32) for shape in ((11, 2), (10, 1)))
        pieces.append(trajectory(obs, actions, obs[:10, 0] * 3, terminated=False, labels=obs[:10, :1]))
    through, stored = fresh(0), fresh(0)
    for critic in (through, stored):
        critic.take_in(pieces[:2], expert)
        critic.fit(10, np.random.default_rng(0))
    save_state(tmp_path / "state", {"fqe": stored.state_dict()})
    resumed = fresh(9)
    resumed.load_state_dict(load_state(tmp_path / "state")["fqe"])
    resumed.take_in(pieces[:2], no_expert)
    assert resumed.reward_scale == through.reward_scale != 1.0
    for critic in (through, resumed):
        critic.take_in(pieces[2:], expert)
        critic.fit(10, np.random.default_rng(5))
    obs = torch.from_numpy(pieces[0].obs[:10])
    actions = torch.from_numpy(pieces[0].actions)
    assert torch.equal(resumed.heads(obs, actions), through.heads(obs, actions))


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
