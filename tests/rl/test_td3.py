"""TD3: losses worked out by hand, and learning."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from imitate.configs.td3 import TD3Config
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.rl.td3 import TD3, first_value, smoothed_targets


def learner_of(env_id: str = "ContinuousIdentity-v0", **settings: object) -> TD3:
    base: dict[str, object] = {
        "total_steps": 1_000, "learning_starts": 100, "hidden": (32, 32), "batch_size": 64, "replay_size": 10_000,
        "rounds_per_iteration": 8, "learning_rate": 3e-3,
    }  # fmt: skip
    config = TD3Config(**base | settings)  # type: ignore[arg-type]
    return TD3(config, envs=SyncVecEnv([lambda: make_env(env_id)] * 2), seed=3)


def test_the_policy_climbs_the_first_critic() -> None:
    values, gradient = first_value(torch.tensor([[[2.0], [6.0]], [[3.0], [5.0]]]))
    assert values.tolist() == [2.0, 6.0]
    assert gradient.flatten(1).tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_the_policy_steps_up_the_critic() -> None:
    """Adam's first step has the sign of the gradient, here of the output's bias, which differences give as well. It
    follows the critics as the same update leaves them."""
    learner = learner_of(actor_every=1, learning_rate=1e-3)
    while not learner.ready:
        learner.replay.add(learner.collect())
    (batch,) = learner.batches(1)
    bias = learner.policy.output.bias
    raw, before = learner.policy_net.outputs(batch["obs"]), bias.detach().clone()
    learner.update(batch)

    def value(shift: float) -> float:
        return float(learner.critics.online(torch.cat([batch["obs"], (raw + shift).tanh()], -1))[0][0].mean())

    slope = value(1e-2) - value(-1e-2)
    assert torch.equal((bias.detach() - before).sign(), torch.tensor([slope]).sign())


def test_the_identity_is_learned() -> None:
    """The best return is 0, random actions make -17."""
    learner = learner_of()
    while not learner.done:
        metrics = learner.step()
    assert metrics["train_return"] > -1.5
    obs = np.linspace(-0.9, 0.9, 7, dtype=np.float32)[:, None]
    np.testing.assert_allclose(learner.policy.act(obs), obs, atol=0.25)


def test_policy_and_targets_wait_for_the_critics() -> None:
    learner = learner_of(actor_every=3)
    while not learner.ready:
        learner.replay.add(learner.collect())
    batch, *_ = learner.batches(1)
    frozen = [
        learner.policy.output.weight,
        *learner.target_policy.parameters(),
        *learner.critics.target.parameters(),
    ]
    before = [parameter.detach().clone() for parameter in frozen]
    found = [learner.update(batch) for _ in range(2)]
    assert all(map(torch.equal, before, frozen))
    found.append(learner.update(batch))
    assert not any(map(torch.equal, before, frozen))
    assert ["value" in each for each in found] == [False, False, True]


def test_discrete_actions_are_refused() -> None:
    with pytest.raises(InputError, match="continuous actions"):
        learner_of("CartPole-v1")


def test_targets_are_smoothed_by_clipped_noise() -> None:
    """The target policy's action is 0.4, whose value is itself; noise of 0.2 is 0.6, and of 2 is clipped at 0.5."""
    batch = {
        "next_obs": torch.zeros(3, 1),
        "returns": torch.zeros(3),
        "discounts": torch.tensor([1.0, 1.0, 0.5]),
    }
    noise = torch.tensor([[1.0], [10.0], [-10.0]])
    policy: Any = SimpleNamespace(outputs=lambda _: torch.full((3, 1), math.atanh(0.4)))
    critics: Any = SimpleNamespace(of_target=lambda _, actions: torch.stack([actions, actions + 1]))
    config: Any = SimpleNamespace(target_noise=0.2, noise_clip=0.5)
    found = smoothed_targets(policy, critics, batch, noise, config)
    assert found.flatten().tolist() == pytest.approx([0.6, 0.9, -0.05])


def test_smoothed_actions_stay_within_the_bounds() -> None:
    """The target policy's actions are 0.9 and -0.9, whose values are themselves; noise of 0.2 would pass the bounds."""
    batch = {"next_obs": torch.zeros(2, 1), "returns": torch.zeros(2), "discounts": torch.ones(2)}
    actions, noise = torch.tensor([[0.9], [-0.9]]), torch.tensor([[1.0], [-1.0]])
    policy: Any = SimpleNamespace(outputs=lambda _: actions.atanh())
    critics: Any = SimpleNamespace(of_target=lambda _, following: torch.stack([following, following + 1]))
    config: Any = SimpleNamespace(target_noise=0.2, noise_clip=0.5)
    found = smoothed_targets(policy, critics, batch, noise, config)
    assert found.flatten().tolist() == [1.0, -1.0]


def test_the_policy_that_is_handed_over_has_the_noise_of_exploration() -> None:
    assert learner_of(action_noise=0.2).policy.log_std.item() == pytest.approx(math.log(0.2))


def test_exploration_stays_within_the_bounds() -> None:
    """The bounds of the environment's actions are -2 and 2."""
    learner = learner_of(action_noise=0.5, learning_starts=2)
    learner.replay.add(learner.collect())
    learner.actor.outputs = lambda obs: np.full((len(obs), 1), np.arctanh(0.9), np.float32)  # type: ignore[method-assign]
    actions, unit = learner.choose(np.zeros((1_000, 1), np.float32), np.zeros(1_000, bool))
    assert (unit.max(), actions.max()) == (1.0, 2.0)


def test_it_explores_with_gaussian_noise() -> None:
    learner = learner_of(action_noise=0.2, learning_starts=2)
    learner.replay.add(learner.collect())
    learner.actor.outputs = lambda obs: np.full((len(obs), 1), np.arctanh(0.3), np.float32)  # type: ignore[method-assign]
    _, unit = learner.choose(np.zeros((20_000, 1), np.float32), np.zeros(20_000, bool))
    assert (unit.mean(), unit.std()) == pytest.approx((0.3, 0.2), abs=0.01)
