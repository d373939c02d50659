"""Policy gradients from the actions that the roll-in executed: what is left where only their values are known, and
what the notebook tried (-log pi of whoever acted; the learner's value as a baseline), which fails: see AggreVaTeD's
presets `notebook-a` and `notebook-b`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from imitate.datasets.trajectory import Transitions
from imitate.envs.spaces import Array
from imitate.nn.adam import Adam
from imitate.nn.networks import ValueNet, seeded
from imitate.nn.policy import ActorPolicy
from imitate.rl.returns import discounted_returns
from imitate.rl.rollout import Rollout

__all__ = ["LearnersValue", "by_environment", "minibatches", "transitions"]

_EDGE = 1 - 1e-4  # of tanh's range: an action at the bound has no finite raw action


def transitions(rollout: Rollout, labels: Array) -> Transitions:
    """The steps of a rollout (N * T, ...), one environment after the other, the last of each flagged as an end.
    `labels` (T, N, *action_shape) are the expert's actions."""
    next_obs = np.concatenate([rollout.obs[1:], rollout.last_obs[None]])
    if len(rollout.ends):
        next_obs[tuple(rollout.ends.T)] = rollout.end_obs
    cut = rollout.truncated.copy()
    cut[-1] = ~rollout.terminated[-1]
    rows = (rollout.obs, rollout.actions, rollout.rewards, next_obs, rollout.terminated, cut, labels)
    return Transitions(*(torch.from_numpy(by_environment(array)) for array in rows))


def by_environment(array: Array) -> Array:
    """(T, N, ...) to (N * T, ...)"""
    return array.swapaxes(0, 1).reshape(-1, *array.shape[2:])


@torch.no_grad()
def minibatches(
    steps: Transitions,
    advantages: Tensor,
    actor: ActorPolicy,
    rows: Tensor,
    count: int,
    size: int,
    rng: np.random.Generator,
) -> Iterator[tuple[Tensor, ...]]:
    """`count` draws, with replacement, from `rows` of the steps: obs, labels, raw actions (B, ...), their
    log-probabilities under the actor as it is at the first, and advantages (B,)."""
    unit = actor.to_unit(steps.actions)
    raw = unit if actor.head == "categorical" else unit.clamp(-_EDGE, _EDGE).atanh()
    old_log_probs = actor(actor.encoder.prepare(steps.obs)).log_prob(raw)
    columns = steps.obs, steps.labels, raw, old_log_probs, advantages
    for _ in range(count if len(rows) else 0):
        some = rows[torch.from_numpy(rng.integers(len(rows), size=size)).to(rows.device)]
        yield tuple(column[some] for column in columns)


class LearnersValue(nn.Module):
    """The value of the policy that rolls in, fitted to its discounted returns: a baseline that leaves the difference
    between expert and learner in every advantage, whatever the action."""

    def __init__(self, space: spaces.Space, prepare: Callable[[Tensor], Tensor], *, seed: int) -> None:  # type: ignore[type-arg]
        super().__init__()
        with seeded(seed):
            self.net = ValueNet(space, (64, 64), "tanh")
        self._prepare = prepare
        self.optimizer = Adam(self.net.parameters(), 1e-3)

    def fit(self, rollout: Rollout, gamma: float, reward_scale: float, rng: np.random.Generator) -> Tensor:
        """Values (N * T,) of the rollout's states, environment by environment, before they are fitted to its returns,
        as PPO takes them."""
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
        for _ in range(10):
            for some in np.array_split(rng.permutation(len(targets)), max(len(targets) // 256, 1)):
                rows = torch.from_numpy(some).to(device)
                self.optimizer.step(F.mse_loss(self.net(prepared[rows]), targets[rows]))
        return torch.from_numpy(by_environment(values)).to(device)
