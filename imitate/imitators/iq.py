"""Inverse soft Q-learning, IQ-Learn (arXiv:2106.12142), with the regularisation of LS-IQ (arXiv:2303.00599).

There is no discriminator. A soft value function Q implies the reward with which it would be right,

    r(s, a) = Q(s, a) - gamma V(s'),    V(s) = E[Q(s, a) - ent_coef log pi(a|s)],    pi = softmax(Q / ent_coef),

and Q is learned so that this reward is high on the expert's steps and low on those of its own policy pi. Discrete
actions are learned with the networks of DQN, where V is a log-sum-exp, continuous ones with those of SAC, whose policy
stands for pi. Half of each batch are demonstrations.

LS-IQ. With the square of r penalised on both halves, each r is fitted to a constant between 1 / chi2 and -1 / chi2, so
values are bounded. An episode that terminates continues in an absorbing state, whose reward r follows from the shares
of time p_E and p_L that expert and learner spend there (`absorbing` derives them). Its terms in IQ-Learn's loss,

    -p_E r + (p_E + p_L) r / 2 + chi2 (p_E + p_L) r^2 / 2,

are least at r = (p_E - p_L) / (p_E + p_L) / (2 chi2). LS-IQ's loss, the default, has p_L r in place of the second term,
which doubles r.

Departures. V(s') is the target network's, and no gradient flows through it. The reward of the absorbing state is this
closed form; LS-IQ learns its value. All other steps weigh the same in both halves of a batch, whatever the shares are.
Written from the papers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.configs.iq import IQConfig
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.imitators.absorbing import share_of_demos, share_of_replay
from imitate.imitators.noisy import warn_of_noise
from imitate.nn.distributions import sample_gaussian, sample_softmax
from imitate.rl.batches import Batch, means, replay_of
from imitate.rl.continuous import check_continuous
from imitate.rl.dqn import DQN
from imitate.rl.handed import takes
from imitate.rl.replay import Replay
from imitate.rl.sac import SAC

__all__ = ["IQ", "Bounds", "IQConfig", "SoftDQN", "SoftSAC", "iq_loss", "ls_iq_loss", "soft_values"]


def iq_loss(
    q: Tensor, v: Tensor, following: Tensor, is_expert: Tensor, chi2: float
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """IQ-Learn's loss, and its gradients by q and v.

    It is minus the paper's objective for the chi^2 divergence, with chi2 = 1 / (4 alpha), on B steps of which half are
    the expert's:

        - mean over the expert's of r  +  mean over all of (v - following)  +  chi2 mean over all of r^2,

    where r = q - following. The second term is (1 - gamma) times the value of the first states, whatever the steps are.
    As -2 r + chi2 r^2 = chi2 (r - 1 / chi2)^2 - 1 / chi2, this is a least-squares loss, up to a constant: each q is
    fitted to `following`, for the expert's steps plus 1 / chi2.

    q          values of the actions taken (..., B); a leading dimension counts critics, whose losses are summed
    v          soft values of the same states (..., B)
    following  discounted soft values of the next states (B,)
    is_expert  (B,) bool
    """
    errors = q - torch.where(is_expert, following + 1 / chi2, following)
    loss = (chi2 * errors.square() + v - following).mean(-1).sum()
    count = len(following)
    return loss, (2 * chi2 * errors / count, torch.full_like(v, 1 / count))


def ls_iq_loss(
    q: Tensor, following: Tensor, is_expert: Tensor, chi2: float, highest: float | None = None
) -> tuple[Tensor, Tensor]:
    """LS-IQ's loss of the same, and its gradient by q.

    On the learner's own steps the mean of V - following is that of r, apart from the entropy. So `iq_loss` becomes

        - mean over the expert's of r  +  mean over the learner's of r  +  chi2 mean over all of r^2:

    each q is fitted to `following` plus or minus 1 / chi2.

    highest  fit the expert's q to this value instead, without a target that moves
    """
    expert_target = following + 1 / chi2 if highest is None else torch.full_like(following, highest)
    errors = q - torch.where(is_expert, expert_target, following - 1 / chi2)
    return (chi2 * errors.square()).mean(-1).sum(), 2 * chi2 * errors / len(following)


def soft_values(values: Tensor, ent_coef: float) -> Tensor:
    """Soft values (B,) of states, from the values (B, A) of their actions."""
    return ent_coef * (values / ent_coef).logsumexp(-1)


class Bounds:
    """The values that implied rewards can give, and that of the absorbing state."""

    def __init__(self, config: IQConfig, gamma: float, demos: DemoReader, episodes: Array | None) -> None:
        self.config, self.gamma = config, gamma
        self.highest = 1 / config.chi2 / (1 - gamma)
        self.expert_share = share_of_demos(demos, episodes, gamma)
        self.absorbed = 0.0

    def update(self, replay: Replay) -> None:
        """Set the value of the absorbing state from the episodes that terminate in the learner's replay."""
        if self.config.absorbing:
            share = share_of_replay(replay, self.gamma)
            lead = (self.expert_share - share) / (self.expert_share + share)
            self.absorbed = lead * self.highest * (1.0 if self.config.least_squares else 0.5)

    def column(self, device: torch.device) -> Batch:
        """The discounted value of the absorbing state, for a batch."""
        return {"after_end": torch.full((), self.gamma * self.absorbed, device=device)}

    def loss(
        self, q: Tensor, v: Tensor, next_v: Tensor, batch: Batch
    ) -> tuple[Tensor, tuple[Tensor, Tensor], dict[str, Tensor]]:
        """The loss of a batch whose first half are demonstrations, its gradients by q and v, and metrics.

        next_v  soft values of the next states (B,)
        batch   has `after_end` () too, the discounted value of the absorbing state (`column`)
        """
        if self.config.clip_targets:
            next_v = next_v.clamp(-self.highest, self.highest)
        ended = batch["discounts"] == 0
        following = torch.where(ended, batch["after_end"], batch["discounts"] * next_v)
        half = len(following) // 2
        is_expert = torch.arange(len(following), device=following.device) < half
        chi2, highest = self.config.chi2, self.highest if self.config.expert_value else None
        if self.config.least_squares:
            loss, by_q = ls_iq_loss(q, following, is_expert, chi2, highest)
            gradients = by_q, torch.zeros_like(v)
        else:
            loss, gradients = iq_loss(q, v, following, is_expert, chi2)
        rewards = q.detach() - following
        found = {"q_loss": loss.detach(), "mean_q": q.detach().mean()}
        found |= {"expert_reward": rewards[..., :half].mean(), "learner_reward": rewards[..., half:].mean()}
        return loss, gradients, found


class SoftDQN(DQN):
    """IQ-Learn with the networks of DQN; acts by sampling from the softmax of values, apart from its epsilon."""

    def __init__(self, config: IQConfig, demos: DemoReader, episodes: Array | None, **handed: Any) -> None:
        super().__init__(replace(config.dqn, total_steps=config.total_steps), **handed)
        self.ent_coef, self.bounds = config.ent_coef, Bounds(config, config.dqn.gamma, demos, episodes)
        self.demos = replay_of(demos, episodes, self.policy, gamma=self.config.gamma, every=config.demo_every)

    def preferred(self, obs: Array) -> Array:
        values = self.values(obs)
        return sample_softmax(values / self.ent_coef, np.log(self.rng.standard_exponential(values.shape)))

    def learn(self) -> list[dict[str, Tensor]]:
        self.bounds.update(self.replay)
        return super().learn()

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """One gradient step; returns means."""
        values = self.q_net(batch["obs"])  # (B, A)
        q = values.gather(-1, batch["actions"][:, None]).squeeze(-1)
        with torch.no_grad():
            next_v = soft_values(self.target_net(batch["next_obs"]), self.ent_coef)
        batch = batch | self.bounds.column(self.device)
        loss, _, found = self.bounds.loss(q, soft_values(values, self.ent_coef), next_v, batch)
        self.descend(loss)
        return found

    def end_iteration(self, history: list[dict[str, Tensor]]) -> dict[str, float]:
        return super().end_iteration([]) | means(history) | {"absorbed_value": self.bounds.absorbed}


class SoftSAC(SAC):
    """IQ-Learn with the networks of SAC."""

    noises = 3  # for the actions of the states, of the next states, and those that the policy improves

    def __init__(self, config: IQConfig, demos: DemoReader, episodes: Array | None, **handed: Any) -> None:
        settings = replace(config.sac, total_steps=config.total_steps, ent_coef=config.ent_coef)
        self.actor_learning_rate = config.actor_learning_rate
        super().__init__(settings, **handed)
        self.schedule(0.0)
        self.bounds = Bounds(config, config.sac.gamma, demos, episodes)
        self.demos = replay_of(demos, episodes, self.policy, gamma=self.config.gamma, every=config.demo_every)

    def schedule(self, progress: float) -> None:
        super().schedule(progress)
        left = 1.0 - progress if self.config.lr_schedule == "linear" else 1.0
        self.policy_net.optimizer.learning_rate = self.actor_learning_rate * left

    def learn(self) -> list[dict[str, Tensor]]:
        self.bounds.update(self.replay)
        return super().learn()

    def update(self, batch: Batch) -> dict[str, Tensor]:
        return super().update(batch | self.bounds.column(self.device))

    def _descend(self, batch: Batch, *, improves: bool) -> dict[str, Tensor]:
        obs, next_obs, noise = batch["obs"], batch["next_obs"], batch["noise"]
        actions, bonus = self._sample(obs, noise[0])
        next_actions, next_bonus = self._sample(next_obs, noise[1])
        next_v = self.critics.of_target(next_obs, next_actions).amin(0).squeeze(-1) + next_bonus
        found: dict[str, Tensor] = {}

        def loss(outputs: Tensor) -> tuple[Tensor, Tensor]:
            q, v = outputs.squeeze(-1).chunk(2, -1)  # (C, B) each
            loss, gradients, metrics = self.bounds.loss(q, v + bonus, next_v, batch)
            found.update(metrics)
            return loss, torch.cat(gradients, -1).unsqueeze(-1)

        twice = torch.cat([obs, obs]), torch.cat([batch["actions"], actions])
        self.critics.fit(*twice, loss, self.generator)
        if improves:
            found |= self.improve(obs, noise[2])
        self.critics.follow()
        return found

    def _sample(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions of the policy in [-1, 1], (B, D), and their entropy bonus (B,)."""
        distribution = self.policy.gaussian(self.policy_net.outputs(obs))
        raw = sample_gaussian(distribution.mean, distribution.log_std.exp(), noise)
        return raw.tanh(), -self.temperature.now * distribution.log_prob(raw)

    def end_iteration(self, history: list[dict[str, Tensor]]) -> dict[str, float]:
        return super().end_iteration(history) | {"absorbed_value": self.bounds.absorbed}


@takes(IQConfig)
def IQ(
    config: IQConfig,
    *,
    envs: VecEnv,
    demos: DemoReader,
    seed: int,
    episodes: Array | None = None,
    device: torch.device | str = "cpu",
) -> SoftDQN | SoftSAC:
    """IQ-Learn on vector environments, from demonstrations in memory; `episodes` are indices, by default all."""
    warn_of_noise(demos, "iq")
    discrete = isinstance(envs.single_action_space, spaces.Discrete)
    if not discrete:
        check_continuous("iq", envs, ("gail", "gail"))
    learner: Any = SoftDQN if discrete else SoftSAC
    made: SoftDQN | SoftSAC = learner(config, demos, episodes, envs=envs, seed=seed, device=device)
    return made
