"""The score function with the actions that a roll-in executed, and values of such actions.

It needs values of executed actions only; it is what a notebook tried (presets `notebook-a` and `notebook-b`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from imitate.aggrevated.gate import Gate
from imitate.aggrevated.variants.scene import Distribution, Scene
from imitate.datasets.trajectory import Transitions
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.experts.expert import Expert
from imitate.nn.adam import Adam
from imitate.nn.networks import ValueNet, seeded
from imitate.rl.returns import discounted_returns
from imitate.rl.rollout import Rollout

__all__ = ["Executed", "LearnersValue", "TemporalDifference", "clipped_ratio_loss", "transitions"]

_CLIP = 0.2
_EDGE = 1 - 1e-4  # largest action before tanh is inverted: at 1 the raw action would be infinite


class Executed:
    """The score function with the actions executed in this iteration's roll-in.

    With importance `ratio`, only the learner's actions are used; otherwise also the expert's.
    """

    def __init__(self, scene: Scene, expert: Any, space: spaces.Space[Any], seed: int) -> None:
        self._scene = scene
        self._differences = None if scene.critic is not None else TemporalDifference(expert)
        self.value: LearnersValue | None = None
        if scene.config.normalisation == "learner_value":
            self.value = LearnersValue(space, scene.actor.encoder.prepare, seed=seed)
            self.value.to(scene.actor.output.weight.device)

    def loss(
        self,
        gate: Gate,  # noqa: ARG002
        distribution: Distribution,
        obs: Tensor,  # noqa: ARG002
        labels: Tensor,
        raw: Tensor,
        old_log_probs: Tensor,
        advantages: Tensor,
    ) -> tuple[Tensor, Tensor]:
        log_probs = distribution.log_prob(raw)
        if self._scene.config.importance == "none":
            return -log_probs * advantages, labels
        return clipped_ratio_loss(log_probs, old_log_probs, advantages), labels

    @torch.no_grad()
    def minibatches(
        self, rollout: Rollout, labels: Array, turns: Array, gate: Gate, count: int, rng: np.random.Generator
    ) -> Iterator[tuple[Tensor, ...]]:
        """`count` minibatches, sampled with replacement.

        Each has obs, labels and raw actions (B, ...), their log-probabilities under the actor at the time of the first
        minibatch, and advantages (B,).
        """
        actor, config = self._scene.actor, self._scene.config
        steps = transitions(rollout, labels, actor.output.weight.device)
        advantages = self._advantages(rollout, steps, gate, rng)
        learners = torch.from_numpy(~by_environment(turns)).to(advantages.device)
        rows = (torch.ones_like(learners) if config.importance == "none" else learners).nonzero().squeeze(1)
        unit = actor.to_unit(steps.actions)
        raw = unit if actor.head == "categorical" else unit.clamp(-_EDGE, _EDGE).atanh()
        old_log_probs = actor(actor.encoder.prepare(steps.obs)).log_prob(raw)
        columns = steps.obs, steps.labels, raw, old_log_probs, advantages
        for _ in range(count if len(rows) else 0):
            some = rows[torch.from_numpy(rng.integers(len(rows), size=config.batch_size)).to(rows.device)]
            yield tuple(column[some] for column in columns)

    def _advantages(
        self, rollout: Rollout, steps: Transitions, gate: Gate, rng: np.random.Generator
    ) -> Tensor:
        if self._differences is not None:
            advantages = self._differences.advantages(steps)
            return advantages / advantages.std().clamp(min=1e-8)
        oracle, actor = self._scene.oracle, self._scene.actor
        q = oracle.q(steps.obs, steps.actions)
        if self.value is not None:
            return q - self.value.fit(rollout, oracle.gamma, oracle.reward_scale, rng)
        distribution = actor(actor.encoder.prepare(steps.obs))
        drawn = [distribution.sample(self._scene.generator) for _ in range(self._scene.config.samples)]
        baseline = torch.stack([oracle.q(steps.obs, actor.to_env(raw)) for raw in drawn]).mean(0)
        return self._scene.normalised(gate, q, baseline)


class TemporalDifference:
    """A*(s, a) = r + gamma V*(s') - V*(s) of the executed action, from an expert's V.

    Rewards are scaled and clipped as when V was learned (by VecNormalize). Raises InputError if the expert has no V.
    """

    def __init__(self, expert: Expert) -> None:
        if not getattr(expert, "has_value", False):
            who = getattr(expert, "algorithm", type(expert).__name__)
            raise InputError(f"td can't be had: {who} brings no state values; leave td out")
        self.gamma = 0.99 if expert.gamma is None else expert.gamma
        self._value, self._normalisation = expert.value, expert.normalisation

    @torch.no_grad()
    def advantages(self, steps: Transitions) -> Tensor:
        """Advantages (B,) in V's units of reward, on the device of the steps. The expert's V stays on the CPU."""
        rewards = steps.rewards
        if (normalisation := self._normalisation) is not None:
            rewards = rewards / normalisation.reward_scale
            if normalisation.norm_reward:
                rewards = rewards.clamp(-normalisation.clip_reward, normalisation.clip_reward)
        values, following = (self._value(obs.cpu()).to(rewards.device) for obs in (steps.obs, steps.next_obs))
        return rewards + self.gamma * following * ~steps.terminated - values


class LearnersValue(nn.Module):
    """The value of the policy that rolls in, fitted to its discounted returns.

    As a baseline it leaves the difference between expert and learner in every advantage, whatever the action.
    """

    def __init__(self, space: spaces.Space[Any], prepare: Callable[[Tensor], Tensor], *, seed: int) -> None:
        super().__init__()
        with seeded(seed):
            self.net = ValueNet(space, (64, 64), "tanh")
        self._prepare = prepare

    def fit(self, rollout: Rollout, gamma: float, reward_scale: float, rng: np.random.Generator) -> Tensor:
        """Fit the values to the rollout's returns; return the values (N * T,) from before the fit, as PPO does.

        Rows are ordered environment by environment.
        """
        device = self.net.output.weight.device

        @torch.no_grad()
        def value(obs: Array) -> Array:
            estimates: Array = self.net(self._prepare(torch.from_numpy(obs).to(device))).cpu().numpy()
            return estimates

        values = value(rollout.flat_obs).reshape(rollout.rewards.shape)
        ends = rollout.next_values(values, value), rollout.terminated, rollout.truncated
        returns = discounted_returns(rollout.rewards / reward_scale, *ends, gamma).reshape(-1)
        prepared = self._prepare(torch.from_numpy(rollout.flat_obs).to(device))
        targets = torch.from_numpy(returns.astype(np.float32)).to(device)
        optimizer = Adam(self.net.parameters(), 1e-3)  # new for each roll-in, so its state need not be saved
        with torch.enable_grad():
            for _ in range(10):
                for some in np.array_split(rng.permutation(len(targets)), max(len(targets) // 256, 1)):
                    rows = torch.from_numpy(some).to(device)
                    optimizer.step(F.mse_loss(self.net(prepared[rows]), targets[rows]))
        return torch.from_numpy(by_environment(values)).to(device)


def transitions(rollout: Rollout, labels: Array, device: torch.device) -> Transitions:
    """The steps of a rollout (N * T, ...), one environment after the other; the last of each is flagged as an end.

    `labels` (T, N, *action_shape) are the expert's actions.
    """
    cut = rollout.truncated.copy()
    cut[-1] = ~rollout.terminated[-1]
    rows = (rollout.obs, rollout.actions, rollout.rewards, rollout.next_obs, rollout.terminated, cut, labels)
    return Transitions(*(torch.from_numpy(by_environment(array)).to(device) for array in rows))


def by_environment(array: Array) -> Array:
    """(T, N, ...) to (N * T, ...)"""
    return array.swapaxes(0, 1).reshape(-1, *array.shape[2:])


def clipped_ratio_loss(log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor) -> Tensor:
    """PPO's clipped loss (B,) for actions that an older policy executed (arXiv:1707.06347, eq. 7)."""
    ratio = (log_probs - old_log_probs).exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - _CLIP, 1 + _CLIP) * advantages)
