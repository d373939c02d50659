"""REINFORCE (Williams 1992): the policy gradient of whole episodes, with a learned baseline if wanted.

An iteration plays a number of whole episodes, weighs every action's log-probability by the discounted return that
followed it, and takes a gradient step. As is usual, the factor gamma^t for the discounting of the state itself is left
out. A time limit cuts the sum of rewards; with a baseline, the value of the last state is added.
"""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

from imitate.configs.reinforce import REINFORCEConfig
from imitate.envs.seeds import episode_seeds
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.nn.adam import Adam
from imitate.nn.distributions import Categorical, Gaussian
from imitate.nn.normalize import RunningMoments
from imitate.rl.actor import encode
from imitate.rl.budget import progress_of
from imitate.rl.handed import takes
from imitate.rl.on_policy import OnPolicy
from imitate.rl.returns import discounted_returns, explained_variance, standardized
from imitate.rl.rollout import Rollout, whole_episodes

__all__ = ["REINFORCE", "REINFORCEConfig", "reinforce_loss"]


def reinforce_loss(
    distribution: Categorical | Gaussian, raw_actions: Tensor, weights: Tensor, ent_coef: float
) -> Tensor:
    """Negative mean of log-probability times weight (B,); its gradient is the policy gradient (Williams 1992)."""
    loss = -(distribution.log_prob(raw_actions) * weights).mean()
    return loss - ent_coef * distribution.entropy().mean() if ent_coef else loss


class REINFORCE(OnPolicy):
    """REINFORCE on vector environments. Every iteration begins new episodes, seeded by its number."""

    config: REINFORCEConfig
    parts = ("policy", "optimizer", "value_net", "value_optimizer", "return_moments")

    @takes(REINFORCEConfig)
    def __init__(
        self, config: REINFORCEConfig, *, envs: VecEnv, seed: int, device: torch.device | str = "cpu"
    ) -> None:
        super().__init__(config, envs=envs, seed=seed, device=device)
        self._ended: list[tuple[float, int]] = []
        self.least_steps = max(min(envs.num_envs, config.num_episodes), 2)  # one sample has no variance
        self.optimizer = Adam(
            self.policy.parameters(), config.learning_rate, max_grad_norm=config.max_grad_norm
        )
        self.value_optimizer = Adam(self.value_net.parameters(), config.baseline_learning_rate)
        # The baseline predicts standardised returns, however small they are.
        self.return_moments = RunningMoments(least_variance=1e-16).to(self.device)

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps: episodes, returns, updates of policy and baseline."""
        progress = progress_of(self, limit)
        return self.update(self.collect(limit), progress) | self.pop_episodes()

    def collect(self, limit: int | None = None) -> Rollout:
        """Whole episodes of the current policy; those unfinished after `limit` steps are truncated."""
        seeds = itertools.islice(episode_seeds(self.reseed()), self.config.num_episodes)
        rollout = whole_episodes(self.sampler.envs, self.choose, seeds, limit, count=self.sampler.count)
        self._ended = [(found, length) for *_, found, length in rollout.whole()]
        return rollout

    def pop_episodes(self) -> dict[str, float]:
        """Mean return and length of the episodes collected last, in the environment's own rewards; empty if the limit
        cut all of them."""
        return self.sampler.means_of(self._ended)

    def update(self, rollout: Rollout, progress: float) -> dict[str, float]:
        """Learn from whole episodes, whose rewards the caller may have replaced (GAIL does).

        progress    position of the schedules in [0, 1]
        """
        config, running = self.config, rollout.steps
        self.optimizer.learning_rate = config.learning_rate_at(progress)
        columns = rollout.obs, rollout.actions, self.returns(rollout)
        # (B, ...)
        seen, raw_actions, returns = (torch.from_numpy(x[running]).to(self.device) for x in columns)
        if not torch.isfinite(returns.var(correction=0)):
            raise FloatingPointError(
                f"returns of up to {float(returns.abs().max()):g} have no finite variance: scale the rewards down"
            )
        obs, weights = self.policy.encoder.prepare(seen), returns
        metrics = {"learning_rate": self.optimizer.learning_rate}
        if config.baseline:
            weights = returns - self.baseline(obs)
            metrics["explained_variance"] = explained_variance(weights, returns)
        if config.standardize_returns and len(weights) > 1:
            weights = standardized(weights)
        losses, entropies = [], []
        for index in self.shuffled(len(obs), config.batch_size or len(obs)):
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
        self.policy.encoder.observe(seen)
        self.updates += 1
        return metrics

    def returns(self, rollout: Rollout) -> Array:
        """Discounted returns (T, N); a truncated episode goes on with the baseline's value of its last state."""
        next_values = np.zeros_like(rollout.rewards)
        if self.config.baseline:
            values = self.baseline(encode(self.policy, rollout.end_obs)).cpu().numpy()
            next_values[tuple(rollout.ends.T)] = values
        ends = rollout.terminated, rollout.truncated
        return discounted_returns(rollout.rewards, next_values, *ends, self.config.gamma)

    @torch.no_grad()
    def baseline(self, obs: Tensor) -> Tensor:
        """The return (B,) that is expected from prepared observations (B, ...)."""
        values: Tensor = self.value_net(obs) * self.return_moments.std + self.return_moments.mean
        return values

    def _fit_baseline(self, obs: Tensor, returns: Tensor) -> float:
        self.return_moments.update(returns)
        targets = self.return_moments(returns)
        losses = []
        for _ in range(self.config.baseline_epochs):
            for index in self.shuffled(len(obs), self.config.baseline_batch_size):
                loss = ((self.value_net(obs[index]) - targets[index]) ** 2).mean()
                self.value_optimizer.step(loss)
                losses.append(loss.detach())
        return float(torch.stack(losses).mean())
