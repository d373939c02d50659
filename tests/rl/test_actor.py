"""Short cuts give what the long way gives: networks without modules, a body that two networks share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.nn.adam import Adam
from imitate.nn.distributions import sample_softmax
from imitate.nn.networks import ValueNet, numpy_forward
from imitate.nn.policy import ActorPolicy
from imitate.rl.a2c import A2C, A2CConfig
from imitate.rl.actor import Actor
from imitate.rl.on_policy import evaluate_actor_critic, make_actor_critic
from imitate.rl.ppo import PPO, PPOConfig

PIXELS = "imitate/PixelCartPole-v0"


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
def test_networks_without_modules_follow_the_parameters(activation: type[nn.Module]) -> None:
    """Also to other memory: an optimiser that is made later moves them."""
    layers = nn.Sequential(nn.Linear(3, 5), activation(), nn.Linear(5, 4), activation(), nn.Linear(4, 2))
    in_numpy = numpy_forward(layers)
    assert in_numpy is not None
    obs = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
    before = in_numpy(obs.numpy())
    adam = Adam(layers.parameters(), 0.1)
    for _ in range(2):
        wanted = layers(obs)
        np.testing.assert_allclose(in_numpy(obs.numpy()), wanted.detach().numpy(), atol=1e-6)
        adam.step(wanted.square().sum())
    assert not np.array_equal(before, in_numpy(obs.numpy()))


def test_other_networks_are_left_to_torch() -> None:
    assert numpy_forward(nn.Sequential(nn.Linear(2, 2), nn.Sigmoid())) is None


LOGITS = torch.tensor([0.5, 0.25, 0.25]).log()
OBS = spaces.Box(-1, 1, (3,), np.float32)


def test_discrete_actions_have_the_softmax_frequencies() -> None:
    policy = ActorPolicy(OBS, spaces.Discrete(3, start=-1))
    torch.nn.init.zeros_(policy.output.weight)
    policy.output.bias.data.copy_(LOGITS)
    actions, raw = Actor(policy).sample(np.zeros((20_000, 3), np.float32), np.random.default_rng(0))
    np.testing.assert_array_equal(actions, raw - 1)
    np.testing.assert_allclose(np.bincount(raw) / 20_000, [0.5, 0.25, 0.25], atol=0.015)


def test_arrays_and_tensors_are_sampled_alike() -> None:
    """The noise decides: the third action's is the largest, -log(0.1) + log(0.25) > -log(1) + log(0.5)."""
    logits, noise = LOGITS[None], torch.tensor([[1.0, 1.0, 0.1]]).log()
    assert sample_softmax(logits, noise).tolist() == [2]
    assert sample_softmax(logits.numpy(), noise.numpy()).tolist() == [2]
    assert sample_softmax(logits, torch.zeros(1, 3)).tolist() == [0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_actions_are_of_the_space_and_its_type(dtype: type[np.floating]) -> None:
    space = spaces.Box(-0.3, 0.7, (2,), dtype)
    actor = Actor(ActorPolicy(OBS, space, head="squashed", log_std_init=2.0))
    actions, _ = actor.sample(np.zeros((500, 3), np.float32), np.random.default_rng(0))
    assert all(space.contains(action) for action in actions)


@pytest.mark.parametrize("head", ["clipped", "squashed"])
def test_continuous_actions_are_the_policys(head: str) -> None:
    """Mean 0.5, deviation e^-1 in raw units; the environment's actions are from 0 to 10."""
    policy = ActorPolicy(OBS, spaces.Box(0, 10, (1,), np.float32), head=head, log_std_init=-1.0)  # type: ignore[arg-type]
    torch.nn.init.zeros_(policy.output.weight)
    policy.output.bias.data.fill_(0.5)
    actions, raw = Actor(policy).sample(np.zeros((20_000, 3), np.float32), np.random.default_rng(0))
    assert raw.dtype == actions.dtype == np.float32
    assert abs(raw.mean() - 0.5) < 0.01
    assert abs(raw.std() - np.exp(-1)) < 0.01
    np.testing.assert_allclose(actions, policy.to_env(torch.from_numpy(raw)).detach(), atol=1e-5)


def test_the_actor_follows_what_is_learned_and_the_moments() -> None:
    policy = ActorPolicy(OBS, spaces.Discrete(2), normalize_obs=True)
    adam = Adam(policy.parameters(), 0.1)
    actor, obs = Actor(policy), np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    seen = []
    for _ in range(2):
        policy.encoder.observe(torch.from_numpy(obs))
        outputs = policy(policy.encoder.prepare(torch.from_numpy(obs))).logits
        np.testing.assert_allclose(actor.outputs(obs), outputs.detach(), atol=1e-5)
        seen.append(outputs)
        adam.step(outputs[:, 0].sum())
    assert not torch.equal(*seen)


@pytest.mark.parametrize("env_id", [PIXELS, "CartPole-v1"])
def test_a_body_that_is_shared_is_evaluated_once(env_id: str) -> None:
    envs = SyncVecEnv([lambda: make_env(env_id)] * 2)
    policy, value_net = make_actor_critic(
        PPOConfig(), envs, seed=0, device=torch.device("cpu"), share_pixels=True
    )
    assert (value_net.encoder is policy.encoder) == (env_id == PIXELS)
    calls: list[None] = []
    policy.encoder.register_forward_hook(lambda *_: calls.append(None))
    obs = policy.encoder.prepare(torch.from_numpy(envs.reset([0, 1])))
    distribution, values = evaluate_actor_critic(policy, value_net, obs)
    assert len(calls) == 1
    torch.testing.assert_close(distribution.mode(), policy(obs).mode())
    torch.testing.assert_close(values, value_net(obs))


@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_ppo_and_a2c_learn_from_pixels_and_go_on_in_the_same_bytes(algorithm: type[PPO] | type[A2C]) -> None:
    def learner() -> PPO | A2C:
        envs = SyncVecEnv([lambda: make_env(PIXELS)] * 2)
        if algorithm is A2C:
            return A2C(A2CConfig(num_steps=4, rounds_per_iteration=2), envs=envs, seed=0)
        return PPO(PPOConfig(num_steps=8, num_epochs=2, batch_size=8), envs=envs, seed=0)

    first, second = learner(), learner()
    before = first.policy.encoder.net[0].weight.clone()
    first.step()
    assert not torch.equal(before, first.policy.encoder.net[0].weight)
    state = first.state_dict()
    for run in (second, first):
        run.load_state_dict(state)
        run.step()
    for a, b in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        assert torch.equal(a, b)
    assert first.value_net.encoder is first.policy.encoder


def test_a_policy_that_is_handed_in_keeps_its_body_to_itself() -> None:
    envs = SyncVecEnv([lambda: make_env(PIXELS)])
    policy = ActorPolicy(envs.single_observation_space, spaces.Discrete(2))
    learner = PPO(PPOConfig(), envs=envs, seed=0, policy=policy)
    assert isinstance(learner.value_net, ValueNet)
    assert learner.value_net.encoder is not policy.encoder
