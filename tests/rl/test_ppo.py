"""PPO solves what it must, the same way every time."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from imitate.datasets.evaluation import evaluate, play
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.nn.policy import ActorPolicy
from imitate.nn.stacked import CriticShape
from imitate.rl import ppo
from imitate.rl.ppo import PPO, PPOConfig, ppo_loss
from imitate.rl.rollout import Rollout


def envs(env_id: str, count: int = 8) -> SyncVecEnv:
    return SyncVecEnv([lambda: make_env(env_id)] * count)


def trained(env_id: str, steps: int, seed: int = 0, **options: object) -> PPO:
    config = PPOConfig(**{"total_steps": steps} | options)  # type: ignore[arg-type]
    learner = PPO(config, envs=envs(env_id), seed=seed)
    while learner.env_steps < steps:
        learner.step()
    return learner


def loss_parts(
    config: PPOConfig, clip_coef: float = 0.2, **batch: list[float]
) -> tuple[float, dict[str, list[float]]]:
    """The loss where the policy is N(0, 1) everywhere, the action 0 and V(s) = s; `ratios` are of new to old policy."""
    env = make_env("ContinuousIdentity-v0")
    policy = ActorPolicy(env.observation_space, env.action_space, hidden=())
    for weight in (policy.output.weight, policy.output.bias):
        torch.nn.init.zeros_(weight)
    size = len(batch["advantages"])
    at_zero = -0.5 * math.log(2 * math.pi)
    tensors = {"obs": [0.0] * size, "returns": [0.0] * size, "values": [0.0] * size} | batch
    data = {name: torch.tensor(values) for name, values in tensors.items()}
    data["obs"] = data["obs"][:, None]
    data["raw_actions"] = torch.zeros(size, 1)
    data["log_probs"] = at_zero - data.pop("ratios").log()
    loss, parts = ppo_loss(policy, torch.nn.Flatten(0), data, config, torch.tensor(clip_coef))
    return float(loss.detach()), {name: part.tolist() for name, part in parts.items()}


PLAIN = {"standardize_advantages": False, "vf_coef": 0.0}


def test_the_clipped_surrogate_by_hand() -> None:
    loss, parts = loss_parts(
        PPOConfig(**PLAIN),  # type: ignore[arg-type]
        ratios=[1.5, 1.5, 0.5, 0.5],
        advantages=[1.0, -1.0, 1.0, -1.0],
    )
    # Clipped where the ratio has gone the way that the advantage wants, and only there.
    assert parts["surrogate"] == pytest.approx([1.2, -1.5, 0.5, -0.8])
    assert loss == pytest.approx(0.6 / 4)


@pytest.mark.parametrize(("clip_value", "wanted"), [(False, [4.0, 0.0]), (True, [5.29, 1.69])])
def test_value_clipping_by_hand(clip_value: bool, wanted: list[float]) -> None:
    # Values went from 0.5 to 1 and from 1.5 to 3; clipped to changes of 0.2 they are 0.7 and 1.7; the return is 3.
    options = {"ratios": [1.0, 1.0], "advantages": [0.0, 0.0], "returns": [3.0, 3.0]}
    config = PPOConfig(clip_value=clip_value, standardize_advantages=False, vf_coef=0.5)
    loss, parts = loss_parts(config, obs=[1.0, 3.0], values=[0.5, 1.5], **options)
    assert parts["value_error"] == pytest.approx(wanted)
    assert loss == pytest.approx(0.5 * sum(wanted) / 2)


def test_standardised_advantages_and_the_entropy_bonus_by_hand() -> None:
    given = {"ratios": [1.0, 1.0], "advantages": [3.0, 5.0]}
    _, parts = loss_parts(PPOConfig(), **given)
    assert parts["surrogate"] == pytest.approx([-math.sqrt(0.5), math.sqrt(0.5)])  # mean 4, deviation sqrt 2
    with_bonus, without = (loss_parts(PPOConfig(**PLAIN, ent_coef=c), **given)[0] for c in (0.1, 0.0))  # type: ignore[arg-type]
    assert without - with_bonus == pytest.approx(0.1 * 0.5 * math.log(2 * math.pi * math.e))


def test_schedules_run_over_total_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    clip_coefs = []

    def spy(*arguments: object) -> object:
        clip_coefs.append(arguments[-1])
        return ppo_loss(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ppo, "ppo_loss", spy)
    options = {"num_steps": 16, "num_epochs": 1, "batch_size": 128, "learning_rate": 1e-3, "total_steps": 512}
    for schedule, shares in (("linear", [1, 0.75, 0.5, 0.25]), ("constant", [1] * 4)):
        clip_coefs.clear()
        config = PPOConfig(lr_schedule=schedule, clip_schedule=schedule, **options)  # type: ignore[arg-type]
        learner = PPO(config, envs=envs("Identity-v0"), seed=0)
        rates = [learner.step()["learning_rate"] for _ in range(4)]  # 128 steps each, one minibatch
        assert rates == pytest.approx([1e-3 * share for share in shares])
        assert clip_coefs == pytest.approx([0.2 * share for share in shares])


def test_target_kl_ends_the_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once: a step that goes too far is followed by no other, where an epoch of them used to follow."""
    options = {"num_steps": 32, "num_epochs": 5, "batch_size": 64, "learning_rate": 1e-2}
    steps = {}
    for target_kl in (None, 1e6, 1e-6):
        learner = PPO(PPOConfig(target_kl=target_kl, **options), envs=envs("Identity-v0"), seed=0)  # type: ignore[arg-type]
        taken: list[None] = []
        descend = learner.optimizer.descend
        monkeypatch.setattr(learner.optimizer, "descend", lambda loss: (taken.append(None), descend(loss)))  # noqa: B023
        learner.step()
        steps[target_kl] = len(taken)
    assert steps == {None: 5 * 4, 1e6: 5 * 4, 1e-6: 1}  # an epoch is four minibatches


def test_identity_discrete() -> None:
    learner = trained("Identity-v0", 5_000, num_steps=32, learning_rate=3e-3)
    assert evaluate(learner.policy, "Identity-v0", episodes=20).mean == 10


@pytest.mark.parametrize(
    ("steps", "options"),
    [
        (6_000, {}),
        pytest.param(8_000, {"head": "squashed"}, marks=pytest.mark.slow),
        pytest.param(8_000, {"clip_value": True, "normalize_rewards": True}, marks=pytest.mark.slow),
    ],
)
def test_identity_continuous(steps: int, options: dict[str, object]) -> None:
    short: dict[str, object] = {"num_steps": 64, "learning_rate": 3e-3, "gamma": 0.5, "log_std_init": -0.5}
    learner = trained("ContinuousIdentity-v0", steps, **short, **options)  # type: ignore[arg-type]
    assert evaluate(learner.policy, "ContinuousIdentity-v0", episodes=20).mean > -0.5  # random: about -16


def _in_thousands() -> gym.Env[Any, Any]:
    """ContinuousIdentity whose observations are around 5,000 +- 1,000 and whose rewards are 1,000 times as large."""
    env = make_env("ContinuousIdentity-v0")
    space = spaces.Box(4_000.0, 6_000.0, (1,), np.float32)
    shown = gym.wrappers.TransformObservation(env, lambda obs: 5_000 + 1_000 * obs, space)
    return gym.wrappers.TransformReward(shown, lambda reward: 1_000 * float(reward))


@pytest.mark.slow
def test_defaults_learn_whatever_the_units() -> None:
    """Without normalisation every observation looks alike to a tanh, and the best is always to do 0, worth -3,300."""
    learner = PPO(
        PPOConfig(total_steps=16_000, learning_rate=3e-3), envs=SyncVecEnv([_in_thousands] * 8), seed=0
    )
    while not learner.done:
        learner.step()
    assert play(learner.policy, SyncVecEnv([_in_thousands] * 4), episodes=20, seed=1).mean > -1_000


@pytest.mark.slow
def test_cartpole_within_40_000_steps() -> None:
    preset = {"num_steps": 32, "num_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8, "learning_rate": 1e-3}
    learner = trained("CartPole-v1", 40_000, total_steps=100_000, **preset)
    assert evaluate(learner.policy, "CartPole-v1", episodes=20).mean > 400


def test_truncation_is_valued_by_the_true_final_observation() -> None:
    learner = PPO(
        PPOConfig(gamma=0.5, normalize_obs=False, normalize_rewards=False),
        envs=envs("ContinuousIdentity-v0", 1),
        seed=0,
    )
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
    values = torch.tensor([0.1, 0.2])
    # 1 + .5 * .8 (the final observation, not the next episode's .2) and 1 + .5 * .4
    returns = values + learner.advantages(rollout, values, gae_lambda=1.0)
    np.testing.assert_allclose(returns, [1.4, 1.2], rtol=1e-6)


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


def test_a_critic_of_the_policy_that_was_handed_in_stays_behind() -> None:
    space = envs("ContinuousIdentity-v0")
    shape = CriticShape(2, 1, (8,), 0.9)
    given = ActorPolicy(
        space.single_observation_space, space.single_action_space, head="squashed", critic=shape
    )
    learner = PPO(PPOConfig(num_steps=16, head="squashed"), envs=space, seed=0, policy=given)
    assert learner.policy.critic is None
    assert "critic" not in learner.policy.architecture
    obs = np.zeros((3, 1), np.float32)
    np.testing.assert_allclose(learner.policy.act(obs), given.act(obs), atol=1e-6)


@pytest.mark.parametrize("env_id", ["ContinuousIdentity-v0", "CartPole-v1"])
def test_at_learning_rate_0_a_policy_that_was_handed_in_does_what_it_did(env_id: str) -> None:
    """Its input moments are of few states, so taking in the learner's would turn it into another policy."""
    policy = ActorPolicy(
        envs(env_id).single_observation_space, envs(env_id).single_action_space, normalize_obs=True
    )
    obs = np.random.default_rng(0).normal(0.1, 0.3, (500, *policy.observation_space.shape)).astype(np.float32)  # type: ignore[misc]
    policy.encoder.observe(torch.from_numpy(obs[:18]))
    state = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    before = policy.act(obs)
    config = PPOConfig(learning_rate=0.0, num_steps=16, normalize_obs=True)
    learner = PPO(config, envs=envs(env_id), seed=0, policy=policy)
    for _ in range(3):
        learner.step()
    assert all(torch.equal(state[name], tensor) for name, tensor in learner.policy.state_dict().items())
    np.testing.assert_array_equal(learner.policy.act(obs), before)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="max_grad_norm must be at least 1e-06, got 0"):
        PPOConfig(max_grad_norm=0)
    with pytest.raises(InputError, match=r"ent_coef must be at least 0, got -0\.1"):
        PPOConfig(ent_coef=-0.1)
    with pytest.raises(InputError, match="vf_coef must be at least 0, got -1"):
        PPOConfig(vf_coef=-1)
    with pytest.raises(InputError, match="num_steps must be at least 2 to standardise advantages"):
        PPO(PPOConfig(num_steps=1), envs=envs("Identity-v0", 1), seed=0)
    with pytest.raises(InputError, match="batch_size must be at least 2 to standardise advantages, got 1"):
        PPOConfig(batch_size=1)


@pytest.mark.parametrize("reset", [False, True])
def test_episodes_go_on_in_the_next_rollout_unless_it_resets(reset: bool) -> None:
    learner = PPO(PPOConfig(reset_each_rollout=reset, num_steps=5), envs=envs("CartPole-v1", 3), seed=0)
    first = learner.collect()
    ended = first.last_obs.copy()  # the environments use its memory again
    second = learner.collect()
    assert np.array_equal(second.obs[0], ended) is not reset
    assert np.array_equal(second.obs[0], first.obs[0]) is reset
    learner.updates += 1  # the random numbers follow from it
    third = learner.collect()
    assert bool((np.abs(third.obs[0]) <= 0.05).all()) is reset  # CartPole's first observations
    assert not np.array_equal(third.obs[0], second.obs[0])
