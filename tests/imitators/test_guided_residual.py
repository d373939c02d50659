"""Guided learning with a residual: its gradients by hand, learning past an expert, and the clone of the sum."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from guided_settings import envs_of, small

from imitate.datasets.evaluation import evaluate
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.imitators.guided.hand_over import HandOver
from imitate.imitators.guided.residual import Residual
from imitate.imitators.guided.updates import Phase
from imitate.rl.tqc import mean_value, truncated_targets


def timid(obs: Array) -> Array:
    """Right where the observation is positive, but for three tenths; elsewhere it names the opposite."""
    return 0.7 * np.abs(obs)


def learner(residual: float = 0.3, **settings: object) -> Residual:
    return Residual(small(residual=residual, **settings), envs=envs_of(), expert=timid, seed=0)


def test_the_sum_by_hand() -> None:
    updater = learner(0.5).updater
    expert, own = torch.tensor([[0.2], [0.9], [-0.6]]), torch.tensor([[0.4], [0.8], [-1.0]])
    assert updater.corrected(expert, own).flatten().tolist() == pytest.approx([0.4, 1.0, -1.0])


def test_a_new_student_corrects_nothing() -> None:
    residual = learner()
    own = residual.updater.policy_net.outputs(torch.randn(5, 1))[:, :1].tanh()
    assert own.tolist() == [[0.0]] * 5


def test_slopes_of_the_students_action_are_those_of_the_sum() -> None:
    """Times the residual, and none where the sum is beyond the bounds."""
    updater = learner(0.5).updater
    obs, own = torch.randn(4, 1), torch.tensor([[0.3], [-0.2], [0.9], [-0.9]])
    expert = torch.tensor([[0.1], [0.4], [0.8], [-0.8]])
    actions = (expert + 0.5 * own).clamp(-1, 1)
    _, slopes = updater.critics.slope(obs, actions, mean_value)
    pull = updater.pull({"obs": obs, "advice": expert[:, None]}, own, True)
    inside = torch.tensor([[1.0], [1.0], [0.0], [0.0]])
    torch.testing.assert_close(pull.slopes, 0.5 * slopes * inside)
    assert pull.slopes[:2].abs().min() > 0.0
    assert pull.weights.tolist() == [0.0] * 4


@pytest.mark.parametrize("offline", [True, False])
def test_the_target_bootstraps_from_the_sum(offline: bool) -> None:
    """In the offline phase from the expert's action alone, without entropy."""
    updater = learner(0.5).updater
    batch = {
        "next_obs": torch.randn(6, 1),
        "next_advice": torch.rand(6, 1, 1) * 2 - 1,
        "returns": torch.randn(6),
        "discounts": torch.full((6,), 0.9),
        "noise": torch.randn(1, 6, 1),
    }
    found = updater.targets(batch, Phase(offline, guided=False, clones=False))
    outputs = updater.policy_net.outputs(batch["next_obs"])
    following = updater.student.gaussian(outputs)
    raw = following.mean + following.log_std.exp() * batch["noise"][0]
    expert, bonus = batch["next_advice"][:, 0], -updater.temperature.now * following.log_prob(raw).detach()
    action = expert if offline else (expert + 0.5 * raw.tanh()).clamp(-1, 1)
    wanted = updater.critics.of_target(batch["next_obs"], action.detach())
    torch.testing.assert_close(found, truncated_targets(wanted, bonus * (not offline), batch, 1))


def test_the_clones_gradient_is_that_of_its_loss() -> None:
    """log cosh(m) - wanted * m, by autograd."""
    residual = learner()
    policy, updater = residual.policy, residual.updater
    obs, wanted = torch.randn(8, 1), torch.rand(8, 1) * 2 - 1
    features = policy.encoder(policy.encoder.prepare(obs))
    mean = policy.output(features)[:, :1]
    (mean.cosh().log() - wanted * mean).mean().backward()  # type: ignore[no-untyped-call]
    by_autograd = policy.output.weight.grad.clone()  # type: ignore[union-attr]
    updater.teach(policy.encoder.prepare(obs), wanted)
    torch.testing.assert_close(policy.output.weight.grad, by_autograd)


def test_the_clone_passes_the_expert() -> None:
    """The expert makes -5.5 in ten steps. A correction of at most 2 can be right everywhere."""
    expert = evaluate(lambda obs: timid(obs), "ContinuousIdentity-v0", episodes=50, seed=1).mean
    whole = HandOver(small(total_steps=1_200, residual=1.0), envs=envs_of(), expert=timid, seed=3)
    metrics: dict[str, float] = {}
    while not whole.done:
        metrics |= whole.step()
    assert expert < -5.0
    assert evaluate(whole.policy, "ContinuousIdentity-v0", episodes=50, seed=1).mean > -0.5
    assert metrics["test_lost"] == 0.0


@pytest.mark.slow
def test_a_correction_stays_within_its_bound() -> None:
    """The bound is 0.3, which is 0.6 of an action here. If the expert lacks more than that, the rest stays."""
    residual = learner(0.3, total_steps=1_500)
    while not residual.done:
        residual.step()
    obs = np.linspace(-1.0, 1.0, 41, dtype=np.float32)[:, None]
    actions = residual.policy.act(obs)
    assert np.abs(actions - timid(obs)).max() < 0.75
    assert np.abs(actions - np.maximum(obs, timid(obs) - 0.6)).mean() < 0.15


def test_the_critics_handed_over_are_those_that_learned() -> None:
    residual = learner(offline_updates=10, updates_per_step=0.05)
    for _ in range(4):
        residual.step()
    assert residual.policy.critic is not None
    assert residual.student.critic is not None
    mine, theirs = residual.policy.critic.state_dict(), residual.student.critic.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


def test_a_clone_of_the_expert_alone() -> None:
    residual = learner(offline_updates=0, updates_per_step=0.0)
    residual.step()
    torch.nn.init.constant_(residual.policy.output.bias, 12.0)
    residual.clone_alone(300)
    obs = np.linspace(-1.0, 1.0, 21, dtype=np.float32)[:, None]
    assert np.abs(residual.policy.act(obs) - timid(obs)).mean() < 0.1


def test_one_expert_is_corrected() -> None:
    with pytest.raises(InputError, match="a residual corrects one expert, got 2"):
        Residual(small(residual=0.3), envs=envs_of(), expert=[timid, timid], seed=0)
    with pytest.raises(InputError, match="residual"):
        small(residual=-0.1)
