"""The networks of actor-critic learners, and acting by sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.envs.spaces import Array, check_plain
from imitate.envs.vec import VecEnv
from imitate.nn.networks import ValueNet, numpy_forward, orthogonal_, seeded
from imitate.nn.policy import ActorPolicy, Head

__all__ = ["Actor", "NetworkSettings", "encode", "evaluate_actor_critic", "make_actor_critic"]


class NetworkSettings(Protocol):
    """The fields of a config that describe the networks."""

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
    """A policy (a new one, or `policy`) and a value function, with orthogonal weights.

    Each has its own body, except that with `share_pixels` the value function uses a new policy's NatureCNN.
    The input statistics of a given `policy` are frozen: updating them would change what it does.
    """
    space = envs.single_observation_space
    check_plain("an actor-critic learner", space, envs.single_action_space)
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
        elif policy.encoder.moments is not None:
            policy.encoder.moments.frozen = True
        shared = policy.encoder if share_pixels and policy.encoder.is_image else None
        value_net = ValueNet(space, settings.hidden, settings.activation, encoder=shared)
        orthogonal_(value_net, value_net.output, output_gain=1.0)
    return policy.to(device), value_net.to(device)


def encode(policy: ActorPolicy, obs: Array) -> Tensor:
    """Raw observations (B, *obs_shape), prepared for the networks."""
    prepared: Tensor = policy.encoder.prepare(torch.from_numpy(obs).to(policy.output.weight.device))
    return prepared


def evaluate_actor_critic(policy: ActorPolicy, value_net: nn.Module, prepared: Tensor) -> tuple[Any, Tensor]:
    """Distribution and values (B,) for prepared observations; a shared body is evaluated once."""
    if not isinstance(value_net, ValueNet) or value_net.encoder is not policy.encoder:
        return policy(prepared), value_net(prepared)
    features = policy.encoder(prepared)
    return policy.distribution(features), value_net.output(features).squeeze(-1)


class Actor:
    """Acts with a policy, in NumPy if its network is a small one on the CPU.

    For small networks the overhead of a torch call is as large as the arithmetic of a layer.
    """

    def __init__(self, policy: ActorPolicy) -> None:
        self.policy = policy
        layers = nn.Sequential(*policy.encoder.net, policy.output)
        self._forward = None if policy.encoder.is_image else numpy_forward(layers)
        space = policy.action_space
        if isinstance(space, spaces.Box):
            self._center, self._scale = (space.high + space.low) / 2, (space.high - space.low) / 2

    def outputs(self, obs: Array) -> Array:
        """Logits, or means of raw actions (N, A), for raw observations (N, *obs_shape)."""
        if self._forward is not None:
            return self._forward(self.policy.encoder.prepare_numpy(obs))
        with torch.inference_mode():
            features = self.policy.encoder(encode(self.policy, obs))
            outputs: Array = self.policy.output(features).cpu().numpy()
        return outputs

    def sample(self, obs: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Actions for the environment, and the raw actions, on which log-probabilities are defined."""
        outputs = self.outputs(obs)
        if isinstance(self.policy.action_space, spaces.Discrete):
            # Gumbel-max trick: the argmax of logits plus Gumbel noise is a sample from the softmax.
            raw: Array = (outputs - np.log(rng.standard_exponential(outputs.shape))).argmax(-1)
            return raw + int(self.policy.action_space.start), raw
        std = np.exp(self.policy.log_std.detach().cpu().numpy())
        raw = outputs + std * rng.standard_normal(outputs.shape, np.float32)
        unit = np.tanh(raw) if self.policy.head == "squashed" else raw.clip(-1.0, 1.0)
        return self._center + self._scale * unit, raw
