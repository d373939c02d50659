"""IQ-Learn: its loss by hand and against autograd, and that it imitates, from rewards it is never shown."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from handwritten import named
from torch import Tensor

from imitate.configs.iq import IQConfig
from imitate.datasets.evaluation import evaluate
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.imitators.iq import IQ, SoftDQN, SoftSAC, iq_loss, ls_iq_loss, soft_values

ENVS = ["Identity-v0", "ContinuousIdentity-v0"]
SMALL: dict[str, Any] = {
    "total_steps": 700,
    "actor_learning_rate": 3e-3,
    "dqn": {
        "gamma": 0.5, "learning_starts": 100, "hidden": (32,), "num_updates": 4, "num_steps": 1,
        "rounds_per_iteration": 25, "learning_rate": 3e-3,
    },
    "sac": {
        "gamma": 0.5, "learning_starts": 100, "hidden": (32, 32), "batch_size": 64, "rounds_per_iteration": 8,
        "learning_rate": 3e-3,
    },
}  # fmt: skip


def learner_of(folder: Path, env_id: str, *, terminated: bool = False, **settings: Any) -> SoftDQN | SoftSAC:
    path = folder / f"{env_id}-{terminated}.h5"
    demos = DemoReader(path if path.exists() else named(path, env_id, 5, terminated=terminated))
    envs = SyncVecEnv([lambda: make_env(env_id)] * 4)
    return IQ(IQConfig(**SMALL | settings), envs=envs, demos=demos, seed=0)


def test_the_loss_by_hand() -> None:
    """One step of each; chi2 0.5, so the expert's q is fitted to following + 2 and the learner's to following.

    Errors -1 - (1 + 2) = -4 and 5 - 2 = 3: half of their squares are 8 and 4.5. v - following is 3 - 1 and 0 - 2.
    """
    q, v = torch.tensor([-1.0, 5.0]), torch.tensor([3.0, 0.0])
    following, is_expert = torch.tensor([1.0, 2.0]), torch.tensor([True, False])
    loss, (by_q, by_v) = iq_loss(q, v, following, is_expert, 0.5)
    assert float(loss) == pytest.approx((8 + 2 + 4.5 - 2) / 2)
    assert by_q.tolist() == [-2.0, 1.5]
    assert by_v.tolist() == [0.5, 0.5]


def test_the_loss_of_ls_iq_by_hand() -> None:
    """The same steps. The learner's q is fitted to 2 - 2 = 0, so its error is 5; against a value of 7 the expert's is
    -8."""
    q, following, is_expert = torch.tensor([-1.0, 5.0]), torch.tensor([1.0, 2.0]), torch.tensor([True, False])
    loss, by_q = ls_iq_loss(q, following, is_expert, 0.5)
    assert float(loss) == pytest.approx((8 + 12.5) / 2)
    assert by_q.tolist() == [-2.0, 2.5]
    loss, by_q = ls_iq_loss(q, following, is_expert, 0.5, highest=7.0)
    assert float(loss) == pytest.approx((32 + 12.5) / 2)
    assert by_q.tolist() == [-4.0, 2.5]


def test_the_loss_is_the_papers_objective_up_to_a_constant_and_its_gradient_is_right() -> None:
    torch.manual_seed(0)
    q, v = torch.randn(2, 8, requires_grad=True), torch.randn(2, 8, requires_grad=True)
    following, is_expert = torch.randn(8), torch.arange(8) < 4
    chi2 = 0.3
    rewards = q - following
    objective = rewards[:, :4].mean(-1) - (v - following).mean(-1) - chi2 * rewards.square().mean(-1)
    loss, gradients = iq_loss(q, v, following, is_expert, chi2)
    assert float((loss + objective.sum()).detach()) == pytest.approx(2 * 0.5 / chi2, rel=1e-5)
    for wanted, found in zip(torch.autograd.grad(-objective.sum(), (q, v)), gradients, strict=True):
        torch.testing.assert_close(found.detach(), wanted)


def test_soft_values_by_hand() -> None:
    """Two equal actions are worth their value and the temperature times log 2."""
    values = soft_values(torch.tensor([[1.0, 1.0], [0.0, 5.0]]), 0.1)
    torch.testing.assert_close(values, torch.tensor([1 + 0.1 * math.log(2), 5.0]))


def filled(learner: SoftDQN | SoftSAC) -> SoftDQN | SoftSAC:
    while not learner.ready:
        learner.replay.add(learner.collect())
    learner.bounds.update(learner.replay)
    return learner


def test_the_absorbing_state_by_hand(tmp_path: Path) -> None:
    """Gamma 0.5: an ended episode is absorbed for a time of 1, so 5 ends after 50 steps are a share of 5 / 55. No
    episode of the learner terminates, which counts as a share of 0.01. The highest value is 2 / (1 - 0.5)."""
    learner = filled(learner_of(tmp_path, ENVS[0], terminated=True, least_squares=False))
    assert learner.bounds.highest == 4
    expert = 5 / 55
    assert learner.bounds.absorbed == pytest.approx(2 * (expert - 0.01) / (expert + 0.01))
    squares = filled(learner_of(tmp_path, ENVS[0], terminated=True))
    assert squares.bounds.absorbed == pytest.approx(4 * (expert - 0.01) / (expert + 0.01))
    assert filled(learner_of(tmp_path, ENVS[0], terminated=True, absorbing=False)).bounds.absorbed == 0
    assert filled(learner_of(tmp_path, ENVS[0])).bounds.absorbed == 0  # neither ends


def test_next_values_are_clipped_and_ends_are_worth_the_absorbing_state(tmp_path: Path) -> None:
    """Bounds of 4 and discount 0.5: values of 100 and -100 count as 2 and -2, an end as half of the absorbing state."""
    bounds = learner_of(tmp_path, ENVS[0]).bounds
    bounds.absorbed = 3.0
    batch = {"discounts": torch.tensor([0.5, 0.5, 0.5, 0.0])}
    q, next_v = torch.zeros(4), torch.tensor([100.0, 1.0, -100.0, 7.0])
    found = bounds.loss(q, q, next_v, batch | bounds.column(torch.device("cpu")))[2]
    assert float(found["expert_reward"]) == -(2 + 0.5) / 2
    assert float(found["learner_reward"]) == -(-2 + 1.5) / 2


def test_the_step_of_the_critic_is_autograds(tmp_path: Path) -> None:
    learner = filled(learner_of(tmp_path, ENVS[1]))
    assert isinstance(learner, SoftSAC)
    (batch,) = learner.batches(1)
    given: list[tuple[Tensor, Tensor, Tensor]] = []
    fit = learner.critics.fit

    def spied(obs: Tensor, actions: Tensor, loss: Any, generator: Any) -> Any:
        inputs = torch.cat([obs, actions], -1)
        with torch.enable_grad():
            outputs = learner.critics.online.values(inputs)
            value, gradient = loss(outputs)
            (by_outputs,) = torch.autograd.grad(value, outputs)
        given.append((gradient.detach(), by_outputs, outputs))
        return fit(obs, actions, loss, generator)

    learner.critics.fit = spied  # type: ignore[method-assign]
    learner.update(batch)
    (gradient, by_outputs, outputs) = given[0]
    assert outputs.shape == (1, 128, 1)  # one critic, of the batch and of the policy's actions
    torch.testing.assert_close(gradient, by_outputs)


def noted(learner: SoftDQN | SoftSAC) -> list[tuple[Tensor, Tensor]]:
    """The v and next_v of each loss that the learner takes from now on."""
    given: list[tuple[Tensor, Tensor]] = []
    loss = learner.bounds.loss

    def spied(q: Tensor, v: Tensor, next_v: Tensor, batch: Any) -> Any:
        given.append((v.detach(), next_v))
        return loss(q, v, next_v, batch)

    learner.bounds.loss = spied  # type: ignore[method-assign]
    return given


def zero(*networks: torch.nn.Module) -> None:
    for network in networks:
        for parameter in network.parameters():
            parameter.detach().zero_()


def test_the_entropy_of_the_policy_is_part_of_both_values(tmp_path: Path) -> None:
    """Its bonus is 2; the critic says 0 of the actions, and its target 1 of the next ones."""
    learner: Any = filled(learner_of(tmp_path, ENVS[1]))
    zero(learner.critics.online, learner.critics.target)
    learner.critics.target.biases[-1].fill_(1.0)
    learner._sample = lambda obs, _: (torch.zeros(len(obs), 1), torch.full((len(obs),), 2.0))
    given = noted(learner)
    learner.update(learner.batches(1)[0])
    ((v, next_v),) = given
    assert set(v.flatten().tolist()) == {2.0}
    assert set(next_v.tolist()) == {3.0}


def test_the_target_network_values_the_next_states(tmp_path: Path) -> None:
    """It says 1 of all three actions, and the network itself 0: 1 + log 3 at temperature 1."""
    learner = filled(learner_of(tmp_path, ENVS[0], ent_coef=1.0))
    assert isinstance(learner, SoftDQN)
    zero(learner.q_net, learner.target_net)
    learner.target_net.policy.output.bias.detach().fill_(1.0)
    given = noted(learner)
    learner.update(learner.batches(1)[0])
    ((v, next_v),) = given
    torch.testing.assert_close(v, torch.full_like(v, math.log(3)))
    torch.testing.assert_close(next_v, torch.full_like(next_v, 1 + math.log(3)))


def test_a_discrete_policy_samples_from_the_softmax(tmp_path: Path) -> None:
    learner = learner_of(tmp_path, ENVS[0], ent_coef=0.5)
    assert isinstance(learner, SoftDQN)
    learner.values = lambda obs: np.tile(np.float32([0.0, 0.5 * math.log(3), -50.0]), (len(obs), 1))  # type: ignore[method-assign]
    drawn = learner.preferred(np.zeros(4_000, np.int64))
    assert np.bincount(drawn, minlength=3) / 4_000 == pytest.approx([0.25, 0.75, 0.0], abs=0.03)


def blind(learner: Any) -> None:
    """No reward of the environment or of the demonstrations may be used: they are NaN, whenever some are added."""
    add = learner.replay.add

    def blinded(rollout: Any) -> None:
        add(rollout)
        learner.replay.rewards[:] = np.nan

    learner.replay.add = blinded
    learner.demos.rewards[:] = np.nan


@pytest.mark.parametrize(
    ("least_squares", "expert_value"),
    [(False, False), pytest.param(True, False, marks=pytest.mark.slow), (True, True)],
)
@pytest.mark.parametrize("env_id", ENVS)
def test_it_imitates(tmp_path: Path, env_id: str, least_squares: bool, expert_value: bool) -> None:
    """The expert's returns are 10 and 0, random actions make 3 and -17."""
    chosen = {"least_squares": least_squares, "expert_value": expert_value}
    learner = learner_of(tmp_path, env_id, total_steps=400, **chosen)
    blind(learner)
    while not learner.done:
        metrics = learner.step()
    assert {"q_loss", "mean_q", "expert_reward", "learner_reward", "absorbed_value"} <= metrics.keys()
    assert evaluate(learner.policy, env_id, episodes=10).mean > (9 if env_id == ENVS[0] else -4)


def test_the_policys_step_size_is_its_own_and_follows_the_schedule(tmp_path: Path) -> None:
    linear = SMALL["sac"] | {"lr_schedule": "linear"}
    learner = learner_of(tmp_path, ENVS[1], sac=linear, actor_learning_rate=1e-4)
    assert isinstance(learner, SoftSAC)
    learner.schedule(0.75)
    assert learner.policy_net.optimizer.learning_rate == pytest.approx(2.5e-5)
    assert learner.critics.optimizer.learning_rate == pytest.approx(0.25 * 3e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dqn": {"n_step": 3}}, "n_step must be 1"),
        ({"sac": {"least_reward": -1.0}}, "least_reward absent"),
        ({"dqn": {"double": True}}, "double False"),
        ({"sac": {"batch_size": 1}}, "batch_size at least 2"),
        ({"sac": {"gamma": 1.0}}, "gamma 1"),
        ({"ent_coef": 0.0}, "ent_coef"),
        ({"sac": {"ent_coef": 0.2}}, "leave sac.ent_coef out and set ent_coef"),
        ({"dqn": {"huber": 1.0, "double": False, "n_step": 1}}, "leave dqn.huber out"),
        ({"expert_value": True, "least_squares": False}, "add least_squares"),
        ({"demo_every": 0}, "demo_every"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        IQConfig(**settings)
