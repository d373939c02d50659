"""On a machine without CUDA: losses whose networks and batches are on a second device, torch's `meta`, so that
a tensor left on the CPU is found. `tests/test_gpu.py` trains whole learners where there is CUDA."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.configs.gail import GAILConfig
from imitate.imitators.cloning import agreement, imitation_loss
from imitate.imitators.discriminator import Discriminator, bce, gradient_penalty, reward_of
from imitate.nn.networks import ValueNet
from imitate.nn.policy import ActorPolicy
from imitate.nn.q_net import QNet
from imitate.rl.a2c import A2CConfig, a2c_loss
from imitate.rl.dqn import dqn_loss, dqn_targets
from imitate.rl.on_policy import evaluate_actor_critic
from imitate.rl.ppo import PPOConfig, ppo_loss
from imitate.rl.reinforce import reinforce_loss

OBSERVATIONS = {
    "vector": spaces.Box(-1, 1, (3,), np.float32),
    "discrete": spaces.Discrete(4, start=1),
    "pixels": spaces.Box(0, 255, (4, 36, 36), np.uint8),
}
ACTIONS = {"discrete": spaces.Discrete(3, start=2), "continuous": spaces.Box(-2, 2, (2,), np.float32)}
SIZE = 5


@pytest.fixture(params=OBSERVATIONS)
def obs_space(request: pytest.FixtureRequest) -> spaces.Space:  # type: ignore[type-arg]
    return OBSERVATIONS[request.param]


@pytest.fixture(params=ACTIONS)
def policy(request: pytest.FixtureRequest, obs_space: spaces.Space) -> ActorPolicy:  # type: ignore[type-arg]
    return ActorPolicy(obs_space, ACTIONS[request.param], normalize_obs=True).to("meta")


def raw_obs(space: spaces.Space, device: str = "meta") -> Tensor:  # type: ignore[type-arg]
    dtype = torch.from_numpy(np.zeros(1, space.dtype)).dtype
    return torch.zeros((SIZE, *(space.shape or ())), dtype=dtype, device=device)


def actions_of(policy: ActorPolicy) -> Tensor:
    if policy.head == "categorical":
        return torch.zeros(SIZE, dtype=torch.long, device="meta")
    return torch.zeros(SIZE, 2, device="meta")


def column() -> Tensor:
    return torch.zeros(SIZE, device="meta")


def check(loss: Tensor, *networks: torch.nn.Module) -> None:
    assert loss.device.type == "meta"
    loss.backward()  # type: ignore[no-untyped-call]
    assert {parameter.device.type for network in networks for parameter in network.parameters()} == {"meta"}


def test_a_tensor_that_was_left_behind_is_found() -> None:
    policy = ActorPolicy(OBSERVATIONS["vector"], ACTIONS["continuous"]).to("meta")
    with pytest.raises(RuntimeError, match="device"):
        policy(policy.encoder.prepare(raw_obs(OBSERVATIONS["vector"], "cpu")))


def test_actor_critics(policy: ActorPolicy, obs_space: spaces.Space) -> None:  # type: ignore[type-arg]
    value_net = ValueNet(obs_space, (8,), "tanh").to("meta")
    policy.encoder.observe(raw_obs(obs_space))
    obs = policy.encoder.prepare(raw_obs(obs_space))
    names = ("log_probs", "advantages", "returns", "values")
    batch = {name: column() for name in names} | {"obs": obs, "raw_actions": actions_of(policy)}
    loss, _ = ppo_loss(policy, value_net, batch, PPOConfig(ent_coef=0.1, clip_value=True), column().amax())
    check(loss, policy, value_net)
    distribution, values = evaluate_actor_critic(policy, value_net, obs)
    loss, _ = a2c_loss(distribution, values, actions_of(policy), column(), A2CConfig())
    check(loss, policy, value_net)
    check(reinforce_loss(policy(obs), actions_of(policy), column(), 0.1), policy)
    policy.project_()


def test_cloning(policy: ActorPolicy, obs_space: spaces.Space) -> None:  # type: ignore[type-arg]
    obs = policy.encoder.prepare(raw_obs(obs_space))
    labels = policy.to_env(actions_of(policy)).detach()
    check(imitation_loss(policy, policy(obs), policy.to_unit(labels)).mean(), policy)
    assert agreement(policy, policy(obs), labels).device.type == "meta"


@pytest.mark.parametrize("dueling", [False, True])
def test_q_learning(obs_space: spaces.Space, dueling: bool) -> None:  # type: ignore[type-arg]
    q_net = QNet(ActorPolicy(obs_space, ACTIONS["discrete"]), dueling=dueling).to("meta")
    obs = q_net.policy.encoder.prepare(raw_obs(obs_space))
    actions = torch.zeros(SIZE, dtype=torch.long, device="meta")
    batch = {"obs": obs, "next_obs": obs, "actions": actions, "returns": column(), "discounts": column()}
    targets = dqn_targets(q_net, q_net, batch, double=True)
    loss, _ = dqn_loss(q_net, targets, batch | {"weights": column()}, 1.0)
    check(loss, q_net)
    q_net.fold()


def test_the_discriminator(policy: ActorPolicy, obs_space: spaces.Space) -> None:  # type: ignore[type-arg]
    discriminator = Discriminator(obs_space, policy.action_space, GAILConfig()).to("meta")
    discriminator.encoder.observe(raw_obs(obs_space))
    actions = policy.to_unit(policy.to_env(actions_of(policy)).detach())
    obs, prepared = discriminator.prepare(raw_obs(obs_space), actions)
    logits = discriminator(obs, prepared)
    pairs = obs.float(), prepared
    loss = bce(logits, column()) + gradient_penalty(discriminator, pairs, pairs, column())
    check(loss + reward_of(logits, "positive").mean(), discriminator)
