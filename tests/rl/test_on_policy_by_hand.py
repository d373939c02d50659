"""PPO, A2C and REINFORCE: numbers that were computed by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from imitate.aggrevated.guidance import Guidance
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.nn.distributions import Categorical, Gaussian
from imitate.nn.normalize import ReturnScaler
from imitate.nn.policy import ActorPolicy
from imitate.rl import ppo as ppo_module
from imitate.rl.a2c import A2C, A2CConfig, a2c_loss
from imitate.rl.ppo import PPO, PPOConfig
from imitate.rl.reinforce import REINFORCE, REINFORCEConfig
from imitate.rl.rollout import Rollout


def envs(env_id: str = "ContinuousIdentity-v0", count: int = 8) -> SyncVecEnv:
    return SyncVecEnv([lambda: make_env(env_id)] * count)


def two_rows(rewards: list[float], *, truncated: bool = False) -> Rollout:
    """Observations 0.1 and 0.2, then 0.4; or the first row ends an episode, at 0.8."""
    end = np.array([[truncated], [False]])
    return Rollout(
        obs=np.float32([[[0.1]], [[0.2]]]), actions=np.zeros((2, 1, 1), np.float32),
        rewards=np.float32(rewards)[:, None], terminated=end & False, truncated=end,
        ends=np.argwhere(end), end_obs=np.full((int(truncated), 1), 0.8, np.float32), last_obs=np.float32([[0.4]]),
    )  # fmt: skip


def identity_values(**settings: Any) -> PPO:
    """V(s) = s"""
    config = PPOConfig(gamma=0.5, normalize_obs=False, **{"normalize_rewards": False} | settings)
    learner = PPO(config, envs=envs(count=1), seed=0)
    learner.value_net = torch.nn.Flatten(0)  # type: ignore[assignment]
    return learner


def test_a_guide_gets_the_scale_of_the_rewards_and_shortens_the_trace() -> None:
    """Rewards 2 and 4 are 1 and 2. The expert's values of 0.2 and 0.4 are 2 and 4, so 1 and 2; half of the way from the
    learner's own they are 0.6 and 1.2. A_1 = 2 + .5 * 1.2 - .2 = 2.4; A_0 = 1 + .5 * .6 - .1 + .5 * .8 * .5 * 2.4."""

    class Halves:
        scale = 2.0

        def __call__(self, rewards: Any, _done: Any) -> Any:
            return rewards / 2.0

    learner = identity_values()
    learner.scaler = Halves()  # type: ignore[assignment]
    guide = Guidance(lambda obs: 10.0 * obs[:, 0], weight=0.5)
    found = learner.advantages(two_rows([2.0, 4.0]), torch.tensor([0.1, 0.2]), gae_lambda=0.8, guide=guide)
    np.testing.assert_allclose(found, [1.68, 2.4], rtol=1e-5)


def test_the_reward_scale_forgets_an_episode_at_its_time_limit_and_at_a_restart() -> None:
    """Rewards 1, then 1 in the next episode: the return in progress is 1, and not 1 + 0.5 * 1."""
    learner = identity_values(normalize_rewards=True)
    learner.advantages(two_rows([1.0, 1.0], truncated=True), torch.tensor([0.1, 0.2]), gae_lambda=1.0)
    assert learner.scaler is not None
    assert learner.scaler.running.tolist() == [1.0]
    learner.restart()
    assert learner.scaler.running.tolist() == [0.0]


@pytest.mark.parametrize(("algorithm", "config"), [(PPO, PPOConfig), (A2C, A2CConfig)])
def test_the_reward_scale_has_the_learners_discount(algorithm: Any, config: Any) -> None:
    learner = algorithm(config(gamma=0.5, normalize_rewards=True), envs=envs(), seed=0)
    assert learner.scaler.gamma == 0.5


def test_a_new_policy_hardly_tells_states_apart_and_a_new_value_function_does() -> None:
    learner = PPO(PPOConfig(), envs=envs(), seed=0)
    for output, gain in ((learner.policy.output, 0.01), (learner.value_net.output, 1.0)):
        assert output.weight.norm(dim=-1).tolist() == pytest.approx([gain])


def test_scaled_rewards_are_clipped_at_10() -> None:
    """One reward of 1 in 400 is twenty deviations."""
    rewards = np.zeros((400, 1), np.float32)
    rewards[7] = 1.0
    assert ReturnScaler(1, gamma=0.0)(rewards, np.zeros((400, 1), bool)).max() == 10.0


def test_the_value_function_learns_returns() -> None:
    """1 + .5 * .8, the end of its episode, and 1 + .5 * .4."""
    learner = identity_values(gae_lambda=1.0)
    data = learner._samples(two_rows([1.0, 1.0], truncated=True), None)
    np.testing.assert_allclose(data["returns"], [1.4, 1.2], rtol=1e-6)
    np.testing.assert_allclose(data["advantages"], [1.3, 1.0], rtol=1e-6)


def test_the_old_log_probabilities_are_of_the_policy_that_acted() -> None:
    """Its input statistics follow after the update. The metric `entropy` is minus the mean log-probability."""
    learner = PPO(PPOConfig(num_steps=16), envs=envs(), seed=0)
    torch.nn.init.ones_(learner.policy.output.weight)
    rollout = learner.collect()
    obs, raw = learner.flat(rollout.obs), learner.flat(rollout.actions)
    wanted = -learner.policy(learner.policy.encoder.prepare(obs)).log_prob(raw).mean().item()
    assert learner.update(rollout, 0.0)["entropy"] == pytest.approx(wanted, rel=1e-5)


def test_values_of_a2c_learn_returns_although_advantages_are_standardised() -> None:
    """Targets 1 + 3 and 2 - 1: errors of 3 and -1. The advantages are +-sqrt(1/2), on average 0."""
    _, parts = a2c_loss(
        Categorical(torch.zeros(2, 2)), torch.tensor([1.0, 2.0]), torch.tensor([0, 1]), torch.tensor([3.0, -1.0]),
        A2CConfig(standardize_advantages=True),
    )  # fmt: skip
    assert float(parts["value_loss"]) == 5.0
    assert float(parts["policy_loss"]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("algorithm", "config"), [(PPO, PPOConfig), (A2C, A2CConfig), (REINFORCE, REINFORCEConfig)]
)
def test_input_statistics_are_of_all_steps(algorithm: Any, config: Any) -> None:
    learner = algorithm(config(normalize_obs=True), envs=envs(), seed=0)
    learner.step()
    assert learner.policy.encoder.moments.count == learner.env_steps


def test_the_baseline_learns_returns_in_their_own_units() -> None:
    """5 at -1 and 9 at 1: their mean is 7, their deviation 2, and the network learns -1 and 1."""
    config = REINFORCEConfig(hidden=(), baseline_epochs=500, baseline_learning_rate=0.05)
    learner = REINFORCE(config, envs=envs(), seed=0)
    obs = torch.tensor([[-1.0], [1.0]])
    learner._fit_baseline(obs, torch.tensor([5.0, 9.0]))
    assert learner.baseline(obs).tolist() == pytest.approx([5.0, 9.0], abs=0.05)


def test_the_policys_first_step_after_the_warmup_is_adams_first() -> None:
    """Adam's first step is as long as the learning rate; after five steps without a gradient it would be 0.52 of it."""
    policy = ActorPolicy(envs().single_observation_space, envs().single_action_space)
    config = PPOConfig(
        value_warmup=5, num_steps=16, num_epochs=1, batch_size=128, learning_rate=1e-3, lr_schedule="constant"
    )
    learner = PPO(config, envs=envs(), seed=0, policy=policy)
    for _ in range(5):
        learner.step()
    before = learner.policy.output.bias.item()
    learner.step()
    assert abs(learner.policy.output.bias.item() - before) == pytest.approx(1e-3, rel=0.1)


def test_the_perturbation_of_rollouts_follows_its_schedule() -> None:
    """From 2 to 0: in the second of two iterations it is 1."""
    config = PPOConfig(
        rpo_alpha=2.0, rpo_alpha_final=0.0, rpo_in_rollout=True, total_steps=1_024, num_steps=64
    )
    learner = PPO(config, envs=envs(), seed=0)
    learner.step()
    learner.collect()
    assert 0.9 < np.abs(learner.moves).max() <= 1.0


@pytest.mark.parametrize(("divergence", "steps"), [(0.0149, 4), (0.0151, 0)])
def test_updates_end_at_one_and_a_half_of_target_kl(
    divergence: float, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ppo_module, "approximate_kl", lambda _: torch.tensor(divergence))
    config = PPOConfig(target_kl=0.01, num_steps=32, num_epochs=1, batch_size=64)
    learner = PPO(config, envs=envs(), seed=0)
    taken: list[None] = []
    monkeypatch.setattr(learner.optimizer, "step", lambda _: taken.append(None))
    learner.step()
    assert len(taken) == steps


def test_the_entropy_of_a_squashed_gaussian_by_hand() -> None:
    """log(2 pi e) / 2 - 1 + log(1 - 0.6^2), at a mean whose tanh is 0.6."""
    found = Gaussian(torch.tensor([[math.atanh(0.6)]]), torch.tensor([-1.0]), squashed=True).entropy()
    assert found.item() == pytest.approx(0.5 * math.log(2 * math.pi * math.e) - 1 + math.log(0.64), rel=1e-5)
