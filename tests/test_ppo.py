"""PPO solves what it must, the same way every time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from imitate.datasets.environments import SyncVecEnv, make_env
from imitate.datasets.errors import InputError
from imitate.evaluate import evaluate
from imitate.networks import ActorPolicy
from imitate.rl.ppo import PPO, PPOConfig
from imitate.rl.rollout import Rollout


def envs(env_id: str, count: int = 8) -> SyncVecEnv:
    return SyncVecEnv([lambda: make_env(env_id)] * count)


def trained(env_id: str, steps: int, seed: int = 0, **options: object) -> PPO:
    config = PPOConfig(**{"total_steps": steps} | options)  # type: ignore[arg-type]
    learner = PPO(config, envs=envs(env_id), seed=seed)
    while learner.env_steps < steps:
        learner.step()
    return learner


def test_identity_discrete() -> None:
    learner = trained("Identity-v0", 5_000, num_steps=32, learning_rate=3e-3)
    assert evaluate(learner.policy, "Identity-v0", episodes=20).mean == 10


@pytest.mark.parametrize(
    "options", [{}, {"head": "squashed"}, {"clip_value": True, "normalize_rewards": True}]
)
def test_identity_continuous(options: dict[str, object]) -> None:
    learner = trained(
        "ContinuousIdentity-v0", 12_000, num_steps=64, learning_rate=3e-3, log_std_init=-0.5, **options
    )
    assert evaluate(learner.policy, "ContinuousIdentity-v0", episodes=20).mean > -0.5  # random: about -16


def test_cartpole_within_40_000_steps() -> None:
    preset = {"num_steps": 32, "num_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8, "learning_rate": 1e-3}
    learner = trained("CartPole-v1", 40_000, total_steps=100_000, **preset)
    assert evaluate(learner.policy, "CartPole-v1", episodes=20).mean > 400


def test_same_seed_same_bytes_and_another_seed_other_ones() -> None:
    weights = [
        torch.cat([p.flatten() for p in trained("CartPole-v1", 2_000, seed).policy.parameters()])
        for seed in (0, 0, 1)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_truncation_is_valued_by_the_true_final_observation() -> None:
    learner = PPO(PPOConfig(gamma=0.5, gae_lambda=1.0), envs=envs("ContinuousIdentity-v0", 1), seed=0)
    learner.value_net = torch.nn.Flatten(0)  # type: ignore[assignment]  # V(s) = s
    rollout = Rollout(
        obs=np.float32([[[0.1]], [[0.2]]]),
        actions=np.zeros((2, 1, 1), np.float32),
        rewards=np.float32([[1], [1]]),
        terminated=np.array([[False], [False]]),
        truncated=np.array([[True], [False]]),
        ends=np.array([[0, 0]]),
        end_obs=np.float32([[0.8]]),
        last_obs=np.float32([[0.4]]),
    )
    data = learner._prepare(rollout)
    # 1 + .5 * .8 (the final observation, not the next episode's .2) and 1 + .5 * .4
    np.testing.assert_allclose(data["returns"], [1.4, 1.2], rtol=1e-6)


def test_an_environment_that_gives_nan_is_named() -> None:
    ok = np.zeros((1, 1, 1), np.float32)
    flags = np.zeros((1, 1), bool)
    with pytest.raises(InputError, match="rewards of the environment hold NaN"):
        Rollout(ok, ok, np.float32([[np.nan]]), flags, flags, np.zeros((0, 2), int), ok[:0, 0], ok[0])


def test_a_policy_that_is_handed_in_is_kept_while_the_value_function_warms_up() -> None:
    policy = ActorPolicy(
        envs("CartPole-v1").single_observation_space, envs("CartPole-v1").single_action_space
    )
    before = [parameter.clone() for parameter in policy.parameters()]
    learner = PPO(PPOConfig(value_warmup=1, num_steps=16), envs=envs("CartPole-v1"), seed=0, policy=policy)
    learner.step()
    assert all(torch.equal(a, b) for a, b in zip(before, learner.policy.parameters(), strict=True))
    learner.step()
    assert not all(torch.equal(a, b) for a, b in zip(before, learner.policy.parameters(), strict=True))


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="batch_size must be at least 2 to standardise advantages, got 1"):
        PPOConfig(batch_size=1)
