"""Advantage actor-critic, the synchronous form of A3C (arXiv:1602.01783): one update after each short rollout.

A round is T steps of N environments and one gradient step on all of them, so the policy that is updated is the one
that acted, and no probability ratio is needed. With gae_lambda 1 the advantages use n-step returns, n up to T.
Departure: Adam, where the paper has RMSprop with statistics that the workers share.
"""

from __future__ import annotations

import torch
from torch import Tensor

from imitate.configs.a2c import A2CConfig
from imitate.envs.vec import VecEnv
from imitate.nn.adam import Adam
from imitate.nn.distributions import Categorical, Gaussian
from imitate.nn.normalize import ReturnScaler
from imitate.rl.batches import means
from imitate.rl.budget import rounds
from imitate.rl.handed import takes
from imitate.rl.on_policy import OnPolicy, evaluate_actor_critic, least_steps
from imitate.rl.returns import standardized
from imitate.rl.rollout import Rollout

__all__ = ["A2C", "A2CConfig", "a2c_loss"]


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
        advantages = standardized(advantages)
    policy_loss = -(distribution.log_prob(raw_actions) * advantages).mean()
    entropy = distribution.entropy().mean()
    loss = policy_loss + config.vf_coef * value_loss - config.ent_coef * entropy
    return loss, {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}


class A2C(OnPolicy):
    """A2C on vector environments."""

    config: A2CConfig

    @takes(A2CConfig)
    def __init__(
        self, config: A2CConfig, *, envs: VecEnv, seed: int, device: torch.device | str = "cpu"
    ) -> None:
        super().__init__(config, envs=envs, seed=seed, device=device, share_pixels=True)
        self.least_steps = least_steps(
            config.num_steps, envs.num_envs, standardize=config.standardize_advantages
        )
        if config.normalize_rewards:
            self.scaler = ReturnScaler(envs.num_envs, config.gamma)
        learned = [*self.policy.parameters(), *self.value_net.parameters()]
        self.optimizer = Adam(learned, config.learning_rate, eps=1e-5, max_grad_norm=config.max_grad_norm)

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps; metrics are means over its rounds."""
        history = []
        for left, progress in rounds(self, self.config.rounds_per_iteration, limit):
            history.append(self.update(self.collect(left), progress))
        return means(history) | self.pop_episodes()

    def collect(self, limit: int | None = None) -> Rollout:
        """One round's rollout of the current policy, at most `limit` steps."""
        return self.sampler.collect(self.choose, self.config.num_steps, limit)

    def update(self, rollout: Rollout, progress: float) -> dict[str, Tensor]:
        """One gradient step on a rollout, whose rewards the caller may have replaced (GAIL does).

        progress    position of the schedules in [0, 1]
        """
        config = self.config
        self.optimizer.learning_rate = config.learning_rate_at(progress)
        obs = self.flat(rollout.obs)
        distribution, values = evaluate_actor_critic(
            self.policy, self.value_net, self.policy.encoder.prepare(obs)
        )
        advantages = self.advantages(rollout, values.detach(), config.gae_lambda)
        loss, parts = a2c_loss(distribution, values, self.flat(rollout.actions), advantages, config)
        self.optimizer.step(loss)
        self.policy.project_()
        self.policy.encoder.observe(obs)
        self.updates += 1
        parts["learning_rate"] = torch.tensor(self.optimizer.learning_rate)
        return {name: part.detach() for name, part in parts.items()}
