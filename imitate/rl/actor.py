"""What learners with a policy and a value function share: both networks, and acting by sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.nn.distributions import Categorical, Gaussian
from imitate.nn.networks import ValueNet, orthogonal_, seeded
from imitate.nn.policy import ActorPolicy, Head

__all__ = ["NetworkSettings", "encode", "evaluate_actor_critic", "make_actor_critic", "sample_actions"]


class NetworkSettings(Protocol):
    """What a config says of the networks."""

    @property
    def hidden(self) -> Sequence[int]: ...
    @property
    def activation(self) -> Literal["tanh", "relu"]: ...
    @property
    def head(self) -> Head | None: ...
    @property
    def log_std_init(self) -> float: ...
    @property
    def normalize_obs(self) -> bool: ...


def make_actor_critic(
    settings: NetworkSettings,
    envs: VecEnv,
    *,
    seed: int,
    device: torch.device,
    policy: ActorPolicy | None = None,
    share_pixels: bool = False,
) -> tuple[ActorPolicy, ValueNet]:
    """Policy (or the one that is handed in) and value function, with orthogonal weights. Their bodies are their own,
    but where `share_pixels` a new policy's NatureCNN is the value function's, too."""
    space = envs.single_observation_space
    share_pixels = share_pixels and policy is None
    with seeded(seed):
        if policy is None:
            policy = ActorPolicy(
                space,
                envs.single_action_space,
                hidden=settings.hidden,
                activation=settings.activation,
                head=settings.head,
                log_std_init=settings.log_std_init,
                normalize_obs=settings.normalize_obs,
            )
            orthogonal_(policy, policy.output, output_gain=0.01)
        shared = policy.encoder if share_pixels and policy.encoder.is_image else None
        value_net = ValueNet(space, settings.hidden, settings.activation, encoder=shared)
        orthogonal_(value_net, value_net.output, output_gain=1.0)
    return policy.to(device), value_net.to(device)


def encode(policy: ActorPolicy, obs: Array) -> Tensor:
    """Raw observations (B, *obs_shape) to what the networks take."""
    return policy.encoder.prepare(torch.from_numpy(obs).to(policy.output.weight.device))


def evaluate_actor_critic(
    policy: ActorPolicy, value_net: nn.Module, prepared: Tensor
) -> tuple[Categorical | Gaussian, Tensor]:
    """Distribution and values (B,) of prepared observations; a body that both share is evaluated once."""
    if not isinstance(value_net, ValueNet) or value_net.encoder is not policy.encoder:
        return policy(prepared), value_net(prepared)
    features = policy.encoder(prepared)
    return policy.distribution(features), value_net.output(features).squeeze(-1)


@torch.inference_mode()
def sample_actions(policy: ActorPolicy, obs: Array, generator: torch.Generator) -> tuple[Array, Array]:
    """Actions for the environment, and the raw ones, which have the log-probabilities."""
    raw = policy(encode(policy, obs)).sample(generator)
    return policy.to_env(raw).cpu().numpy(), raw.cpu().numpy()
