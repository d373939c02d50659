"""Advantage actor-critic, the synchronous form of A3C (arXiv:1602.01783): one update after each short rollout.

A round is T steps of N environments and one gradient step on all of them, so the policy that is updated is the one
that acted, and no probability ratio is needed. With gae_lambda 1 the advantages use n-step returns, n up to T.
Deviation: Adam, where the paper has RMSprop with statistics that the workers share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from imitate.configs.a2c import A2CConfig
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.errors import InputError
from imitate.nn.adam import Adam
from imitate.nn.distributions import Categorical, Gaussian
from imitate.nn.normalize import ReturnScaler
from imitate.nn.state import load_parts, parts_state
from imitate.rl.actor import Actor, encode, evaluate_actor_critic, make_actor_critic
from imitate.rl.budget import progress_of, rounds
from imitate.rl.returns import gae
from imitate.rl.rollout import Rollout, Sampler

__all__ = ["A2C", "A2CConfig", "a2c_loss"]

STATEFUL = ("policy", "value_net", "optimizer", "scaler")


def a2c_loss(
    distribution: Categorical | Gaussian,
    values: Tensor,
    raw_actions: Tensor,
    advantages: Tensor,
    config: A2CConfig,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Policy gradient, value and entropy losses over B samples, and their parts (scalars).

    `values` (B,) carry gradients; their targets are the n-step returns that the advantages (B,) are made of.
    """
    value_loss = ((values - (values.detach() + advantages)) ** 2).mean()
    if config.standardize_advantages:
        std, mean = torch.std_mean(advantages)
        advantages = (advantages - mean) / (std + 1e-8)
    policy_loss = -(distribution.log_prob(raw_actions) * advantages).mean()
    entropy = distribution.entropy().mean()
    loss = policy_loss + config.vf_coef * value_loss - config.ent_coef * entropy
    return loss, {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}


class A2C:
    """A2C on vector environments."""

    expert_queries = 0

    def __init__(
        self, config: A2CConfig, *, envs: VecEnv, seed: int, device: torch.device | str = "cpu"
    ) -> None:
        self.config, self.seed, self.device = config, seed, torch.device(device)
        # The standard deviation of one sample is NaN.
        self.least_steps = max(envs.num_envs, 2) if config.standardize_advantages else envs.num_envs
        if config.num_steps * envs.num_envs < self.least_steps:
            raise InputError(
                "num_steps must be at least 2 to standardise advantages with one environment, got 1"
            )
        self.policy, self.value_net = make_actor_critic(
            config, envs, seed=seed, device=self.device, share_pixels=True
        )
        self.optimizer = Adam(
            [*self.policy.parameters(), *self.value_net.parameters()],
            config.learning_rate,
            eps=1e-5,
            max_grad_norm=config.max_grad_norm,
        )
        self.actor = Actor(self.policy)
        self.scaler = ReturnScaler(envs.num_envs, config.gamma) if config.normalize_rewards else None
        self.updates = 0
        self.sampler = Sampler(envs)
        self._reseed()

    @property
    def env_steps(self) -> int:
        return self.sampler.env_steps

    @property
    def done(self) -> bool:
        return self.env_steps >= self.config.total_steps

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps: `rounds_per_iteration` rollouts and updates.

        Metrics are means over these rounds.
        """
        history = []
        for left in rounds(self, self.config.rounds_per_iteration, limit):
            progress = progress_of(self, left)
            history.append(self.update(self.collect(left), progress))
        metrics = {name: float(torch.stack([row[name] for row in history]).mean()) for name in history[0]}
        return metrics | self.pop_episodes()

    def collect(self, limit: int | None = None) -> Rollout:
        """One round's rollout of the current policy, at most `limit` steps."""
        return self.sampler.collect(self._choose, self.config.num_steps, limit)

    def pop_episodes(self) -> dict[str, float]:
        """Mean return and length of the episodes that ended since the last call, in the environment's own rewards."""
        return self.sampler.pop_episodes()

    def update(self, rollout: Rollout, progress: float) -> dict[str, Tensor]:
        """One gradient step on a rollout, whose rewards the caller may have replaced (GAIL does).

        progress    position of the schedules in [0, 1]
        """
        config = self.config
        if config.lr_schedule == "linear":
            self.optimizer.learning_rate = config.learning_rate * (1.0 - progress)
        obs = encode(self.policy, rollout.flat_obs)
        distribution, values = evaluate_actor_critic(self.policy, self.value_net, obs)  # T * N rows
        loss, parts = a2c_loss(
            distribution,
            values,
            torch.from_numpy(rollout.actions).to(self.device).flatten(0, 1),
            self._advantages(rollout, values.detach().cpu().numpy()),
            config,
        )
        self.optimizer.step(loss)
        self.policy.project_()
        self.policy.encoder.observe(torch.from_numpy(rollout.flat_obs).to(self.device))
        self.updates += 1
        parts["learning_rate"] = torch.tensor(self.optimizer.learning_rate)
        return {name: part.detach() for name, part in parts.items()}

    @torch.no_grad()
    def _advantages(self, rollout: Rollout, flat_values: Array) -> Tensor:
        values = flat_values.reshape(rollout.rewards.shape)
        rewards = rollout.rewards if self.scaler is None else self.scaler(rollout.rewards, rollout.done)
        advantages = gae(
            rewards,
            values,
            rollout.next_values(values, lambda obs: self.value_net(encode(self.policy, obs)).cpu().numpy()),
            rollout.terminated,
            rollout.truncated,
            self.config.gamma,
            self.config.gae_lambda,
        )
        return torch.from_numpy(advantages).to(self.device).flatten()

    def _choose(self, obs: Array, _begun: Array) -> tuple[Array, Array]:
        return self.actor.sample(obs, self.rng)

    def _reseed(self) -> None:
        seed = draw_seed(self.seed, self.updates)
        self.rng = np.random.default_rng(seed)
        self.sampler.restart(seed)
        if self.scaler is not None:
            self.scaler.restart()

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.updates, "env_steps": self.env_steps} | parts_state(self, *STATEFUL)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes, seeded by the number of updates: a checkpoint is a reset point."""
        load_parts(self, state, *STATEFUL)
        self.updates, self.sampler.env_steps = state["updates"], state["env_steps"]
        self._reseed()
