"""REINFORCE (Williams 1992): the policy gradient of whole episodes, with a learned baseline if wanted.

An iteration plays a number of whole episodes, weighs every action's log-probability by the discounted return that
followed it, and takes a gradient step. As is usual, the factor gamma^t for the discounting of the state itself is left
out. A time limit cuts the sum of rewards; with a baseline, the value of the last state is added.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from imitate.configs.reinforce import REINFORCEConfig
from imitate.envs.seeds import draw_seed, episode_seeds
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.nn.adam import Adam
from imitate.nn.distributions import Categorical, Gaussian
from imitate.nn.normalize import RunningMoments
from imitate.nn.state import load_parts, parts_state
from imitate.rl.actor import Actor, encode, make_actor_critic
from imitate.rl.budget import progress_of
from imitate.rl.returns import discounted_returns
from imitate.rl.rollout import Rollout, whole_episodes

__all__ = ["REINFORCE", "REINFORCEConfig", "reinforce_loss"]

STATEFUL = ("policy", "optimizer", "value_net", "value_optimizer", "return_moments")


def reinforce_loss(
    distribution: Categorical | Gaussian, raw_actions: Tensor, weights: Tensor, ent_coef: float
) -> Tensor:
    """Negative mean of log-probability times weight (B,); its gradient is the policy gradient (Williams 1992)."""
    loss = -(distribution.log_prob(raw_actions) * weights).mean()
    return loss - ent_coef * distribution.entropy().mean() if ent_coef else loss


class REINFORCE:
    """REINFORCE on vector environments. Every iteration begins new episodes, seeded by its number."""

    expert_queries = 0

    def __init__(
        self, config: REINFORCEConfig, *, envs: VecEnv, seed: int, device: torch.device | str = "cpu"
    ) -> None:
        self.config, self.seed, self.device, self.envs = config, seed, torch.device(device), envs
        self.policy, self.value_net = make_actor_critic(config, envs, seed=seed, device=self.device)
        self.optimizer = Adam(
            self.policy.parameters(), config.learning_rate, max_grad_norm=config.max_grad_norm
        )
        self.actor = Actor(self.policy)
        self.value_optimizer = Adam(self.value_net.parameters(), config.baseline_learning_rate)
        # The baseline predicts standardised returns.
        self.return_moments = RunningMoments().to(self.device)
        self.iteration = 0
        self.env_steps = 0

    @property
    def done(self) -> bool:
        return self.env_steps >= self.config.total_steps

    @property
    def least_steps(self) -> int:
        """One step of each environment, and at least two, since one sample has no variance."""
        return max(min(self.envs.num_envs, self.config.num_episodes), 2)

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps: episodes, returns, updates of policy and baseline."""
        progress = progress_of(self, limit)
        return self.update(self.collect(limit), progress) | self.pop_episodes()

    def collect(self, limit: int | None = None) -> Rollout:
        """Whole episodes of the current policy; those unfinished after `limit` steps are truncated."""
        seed = draw_seed(self.seed, self.iteration)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        seeds = itertools.islice(episode_seeds(seed), self.config.num_episodes)
        rollout = whole_episodes(self.envs, self._choose, seeds, limit)
        steps, episodes = int(rollout.steps.sum()), len(rollout.ends)
        self.env_steps += steps
        self._episodes = {
            "train_return": float(rollout.rewards.sum() / episodes),
            "train_length": steps / episodes,
        }
        return rollout

    def pop_episodes(self) -> dict[str, float]:
        """Mean return and length of the episodes collected last, in the environment's own rewards."""
        return self._episodes

    def update(self, rollout: Rollout, progress: float) -> dict[str, float]:
        """Learn from whole episodes, whose rewards the caller may have replaced (GAIL does).

        progress    position of the schedules in [0, 1]
        """
        running = rollout.steps
        config = self.config
        if config.lr_schedule == "linear":
            self.optimizer.learning_rate = config.learning_rate * (1.0 - progress)
        obs = encode(self.policy, rollout.obs[running])  # (B, ...)
        raw_actions = torch.from_numpy(rollout.actions[running]).to(self.device)
        returns = torch.from_numpy(self._returns(rollout)[running]).to(self.device)  # (B,)
        metrics = {"learning_rate": self.optimizer.learning_rate}
        weights = returns
        if config.baseline:
            weights = returns - self._values(obs)
            metrics["explained_variance"] = float(1 - weights.var() / (returns.var() + 1e-8))
        if config.standardize_returns and len(weights) > 1:  # the deviation of one sample is NaN
            std, mean = torch.std_mean(weights)
            weights = (weights - mean) / (std + 1e-8)
        losses, entropies = [], []
        for index in self._batches(len(obs), config.batch_size or len(obs)):
            distribution = self.policy(obs[index])
            loss = reinforce_loss(distribution, raw_actions[index], weights[index], config.ent_coef)
            self.optimizer.step(loss)
            self.policy.project_()
            losses.append(loss.detach())
            entropies.append(distribution.entropy().detach().mean())
        metrics["policy_loss"] = float(torch.stack(losses).mean())
        metrics["entropy"] = float(torch.stack(entropies).mean())
        if config.baseline:
            metrics["value_loss"] = self._fit_baseline(obs, returns)
        self.policy.encoder.observe(torch.from_numpy(rollout.obs[running]).to(self.device))
        self.iteration += 1
        return metrics

    def _returns(self, rollout: Rollout) -> Array:
        next_values = np.zeros_like(rollout.rewards)
        if self.config.baseline:
            values = self._values(encode(self.policy, rollout.end_obs)).cpu().numpy()
            next_values[tuple(rollout.ends.T)] = values
        return discounted_returns(
            rollout.rewards, next_values, rollout.terminated, rollout.truncated, self.config.gamma
        )

    @torch.no_grad()
    def _values(self, obs: Tensor) -> Tensor:
        values: Tensor = self.value_net(obs) * self.return_moments.std + self.return_moments.mean
        return values

    def _fit_baseline(self, obs: Tensor, returns: Tensor) -> float:
        self.return_moments.update(returns)
        targets = self.return_moments(returns)
        losses = []
        for _ in range(self.config.baseline_epochs):
            for index in self._batches(len(obs), self.config.baseline_batch_size):
                loss = ((self.value_net(obs[index]) - targets[index]) ** 2).mean()
                self.value_optimizer.step(loss)
                losses.append(loss.detach())
        return float(torch.stack(losses).mean())

    def _batches(self, size: int, batch_size: int) -> tuple[Tensor, ...]:
        order = torch.randperm(size, generator=self.generator, device=self.device)
        return torch.split(order, batch_size)

    def _choose(self, obs: Array, _begun: Array) -> tuple[Array, Array]:
        return self.actor.sample(obs, self.rng)

    def state_dict(self) -> dict[str, Any]:
        return {"iteration": self.iteration, "env_steps": self.env_steps} | parts_state(self, *STATEFUL)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state; the next iteration's episodes and samples follow from its number."""
        load_parts(self, state, *STATEFUL)
        self.iteration, self.env_steps = state["iteration"], state["env_steps"]
