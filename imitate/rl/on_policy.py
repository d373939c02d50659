"""The common part of PPO, A2C and REINFORCE: networks, environments, seeds, budget, advantages and saved state.

Each algorithm's own file has the settings that only it has, its loss and its update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from imitate.configs.on_policy import OnPolicyConfig
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array, check_plain
from imitate.envs.vec import VecEnv
from imitate.errors import InputError
from imitate.nn.distributions import Distribution
from imitate.nn.networks import ValueNet, orthogonal_, seeded
from imitate.nn.normalize import ReturnScaler
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_parts, parts_state
from imitate.rl.actor import Actor, encode
from imitate.rl.returns import gae
from imitate.rl.rollout import Rollout, Sampler

__all__ = ["Guide", "OnPolicy", "OnPolicyConfig", "evaluate_actor_critic", "make_actor_critic"]


class Guide(Protocol):
    """Another's values that the advantages of an update lean on (LOKI's `Guidance`).

    trace   factor of gae_lambda
    """

    @property
    def trace(self) -> float: ...

    def next_values(self, rollout: Rollout, own: Array, reward_scale: float) -> Array:
        """Values (T, N) of the true successors, in place of the learner's `own` (T, N); rewards are divided by the
        scale."""
        ...


class OnPolicy:
    """A policy and a value function in vector environments. PPO, A2C and REINFORCE add `step` and `update`.

    policy, value_net   the networks; a `policy` that is handed in is fine-tuned
    scaler              scales rewards, unless None
    updates             number of rollouts learned from; all random numbers follow from it and the seed
    parts               the attributes whose states are saved
    """

    expert_queries = 0
    parts: ClassVar[tuple[str, ...]] = ("policy", "value_net", "optimizer", "scaler")

    def __init__(
        self,
        config: OnPolicyConfig,
        *,
        envs: VecEnv,
        seed: int,
        device: torch.device | str,
        policy: ActorPolicy | None = None,
        share_pixels: bool = False,
    ) -> None:
        self.config, self.seed, self.device = config, seed, torch.device(device)
        self.policy, self.value_net = make_actor_critic(
            config, envs, seed=seed, device=self.device, policy=policy, share_pixels=share_pixels
        )
        self.actor, self.sampler = Actor(self.policy), Sampler(envs, self.restart)
        self.scaler: ReturnScaler | None = None
        self.updates = 0
        self.restart()

    @property
    def env_steps(self) -> int:
        return self.sampler.env_steps

    @property
    def done(self) -> bool:
        return self.env_steps >= self.config.total_steps

    def pop_episodes(self) -> dict[str, float]:
        """Mean return and length of the episodes that ended since the last call, in the environment's own rewards."""
        return self.sampler.pop_episodes()

    def choose(self, obs: Array, _begun: Array) -> tuple[Array, Array]:
        """A `Chooser`: samples from the policy."""
        return self.actor.sample(obs, self.rng)

    def flat(self, array: Array) -> Tensor:
        """(T, N, ...) to (T * N, ...), on the learner's device."""
        return torch.from_numpy(array).to(self.device).flatten(0, 1)

    def value(self, obs: Array) -> Array:
        """Values (B,) of raw observations (B, *obs_shape)."""
        values: Array = self.value_net(encode(self.policy, obs)).cpu().numpy()
        return values

    @torch.no_grad()
    def advantages(
        self, rollout: Rollout, values: Tensor, gae_lambda: float, guide: Guide | None = None
    ) -> Tensor:
        """Generalised advantage estimates (T * N,) from the values (T * N,) of the rollout's observations.

        Call it once for each rollout: the reward scale follows the rewards.
        """
        own = values.cpu().numpy().reshape(rollout.rewards.shape)
        next_values = rollout.next_values(own, self.value)
        rewards, scale = rollout.rewards, 1.0
        if self.scaler is not None:
            rewards = self.scaler(rewards, rollout.done)
            scale = self.scaler.scale
        if guide is not None:
            next_values, gae_lambda = guide.next_values(rollout, next_values, scale), gae_lambda * guide.trace
        ends = rollout.terminated, rollout.truncated
        return self.flat(gae(rewards, own, next_values, *ends, self.config.gamma, gae_lambda))

    def shuffled(self, size: int, batch_size: int) -> tuple[Tensor, ...]:
        """The indices of `size` samples in a new random order, cut into minibatches."""
        order = torch.randperm(size, generator=self.generator, device=self.device)
        return torch.split(order, batch_size)

    def reseed(self) -> int:
        """Seed the random numbers anew; returns the seed for the episodes."""
        seed = draw_seed(self.seed, self.updates, 0, self.sampler.renewals)
        self.rng, self.generator = np.random.default_rng(seed), torch.Generator(self.device).manual_seed(seed)
        return seed

    def restart(self) -> None:
        """Begin new episodes."""
        self.sampler.restart(self.reseed())
        if self.scaler is not None:
            self.scaler.restart()

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.updates, "env_steps": self.env_steps} | parts_state(self, *self.parts)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes, seeded by the number of updates: a checkpoint is a reset point."""
        load_parts(self, state, *self.parts)
        self.updates, self.sampler.env_steps = state["updates"], state["env_steps"]
        self.sampler.renewals = 0
        self.restart()


def least_steps(num_steps: int, num_envs: int, *, standardize: bool) -> int:
    """The fewest steps of all environments that can be learned from.

    Raises InputError if rollouts of `num_steps` are shorter.
    """
    least = max(num_envs, 2) if standardize else num_envs  # the standard deviation of one sample is NaN
    if num_steps * num_envs < least:
        raise InputError("num_steps must be at least 2 to standardise advantages with one environment, got 1")
    return least


def make_actor_critic(
    config: OnPolicyConfig,
    envs: VecEnv,
    *,
    seed: int,
    device: torch.device,
    policy: ActorPolicy | None = None,
    share_pixels: bool = False,
) -> tuple[ActorPolicy, ValueNet]:
    """A policy (a new one, or `policy`) and a value function, with orthogonal weights.

    Each has its own body, except that with `share_pixels` the value function uses a new policy's NatureCNN.
    The input statistics of a given `policy` are frozen: updating them would change what it does. Its critic
    stays behind: it values what that policy does, and not what it becomes.
    """
    space = envs.single_observation_space
    check_plain("an actor-critic learner", space, envs.single_action_space)
    share_pixels = share_pixels and policy is None
    if policy is not None and policy.critic is not None:
        policy = policy.adapted(policy.observation_space, policy.action_space).train()
    with seeded(seed):
        if policy is None:
            policy = ActorPolicy(
                space,
                envs.single_action_space,
                hidden=config.hidden,
                activation=config.activation,
                head=config.head,
                log_std_init=config.log_std_init,
                normalize_obs=config.normalize_obs,
                state_std=config.std == "state",
            )
            orthogonal_(policy, policy.output, output_gain=0.01)
            if config.std == "state":
                nn.init.constant_(policy.output.bias.chunk(2)[1], config.log_std_init)
        elif policy.encoder.moments is not None:
            policy.encoder.moments.frozen = True
        _hold_std(policy, config)
        shared = policy.encoder if share_pixels and policy.encoder.is_image else None
        value_net = ValueNet(space, config.hidden, config.activation, encoder=shared)
        orthogonal_(value_net, value_net.output, output_gain=1.0)
    return policy.to(device), value_net.to(device)


def _hold_std(policy: ActorPolicy, config: OnPolicyConfig) -> None:
    """Take the standard deviation out of what is learned if the config says so. Raises InputError if the policy has
    none, or another form than the config's; with `learned` any form will do."""
    if config.std == "learned":
        return
    if policy.head == "categorical":
        raise InputError(
            f"std {config.std!r} is for a Gaussian, but actions are {policy.action_space}; leave it out"
        )
    if policy.state_std != (config.std == "state"):
        form = "an output of the network" if policy.state_std else "a parameter"
        raise InputError(f"std {config.std!r} does not fit the given policy, whose deviation is {form}")
    if config.std == "fixed":
        policy.log_std.requires_grad_(False)


def evaluate_actor_critic(
    policy: Callable[[Tensor], Distribution], value_net: Callable[[Tensor], Tensor], prepared: Tensor
) -> tuple[Any, Tensor]:
    """Distribution and values (B,) for prepared observations; a shared body is evaluated once."""
    if (
        isinstance(policy, ActorPolicy)
        and isinstance(value_net, ValueNet)
        and value_net.encoder is policy.encoder
    ):
        features = policy.encoder(prepared)
        return policy.distribution(features), value_net.output(features).squeeze(-1)
    return policy(prepared), value_net(prepared)
