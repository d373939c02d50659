"""Reinforcement that leans on the expert's value: the lambda-weighted form of MAMBA (arXiv:2007.00795).

With lambda = 1 - weight, a step of PPO's generalised advantage estimate bootstraps from

    lambda V(s') + (1 - lambda) max(V_expert(s'), V(s'))

and the trace is lambda gae_lambda. With lambda 1 this is PPO. With lambda 0 an action's advantage is that of one step,
r + gamma max(V_expert(s'), V(s')) - V(s), as in AggreVaTeD. The maximum is RPI's (arXiv:2310.01737): where the learner
is better, its own value counts.

Departures: lambda rises during the run (as in arXiv:2106.02757); there is one value function for the learner and one
for the expert, no ensembles; the learner's own value is the baseline of an action, and the expert's enters only where
a step bootstraps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from imitate.envs.spaces import Array
from imitate.experts.values.critics import QOracle
from imitate.nn.adam import Adam
from imitate.nn.policy import ActorPolicy
from imitate.rl.actor import encode
from imitate.rl.rollout import Rollout

__all__ = ["ExpertsValue", "Guidance"]

_LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class Guidance:
    """A `Guide` for PPO's update.

    value    raw observations (B, ...) to the expert's values (B,), in the environment's rewards
    weight   1 - lambda, in [0, 1]
    """

    value: Callable[[Array], Array]
    weight: float

    @property
    def trace(self) -> float:
        return 1.0 - self.weight

    def next_values(self, rollout: Rollout, own: Array, reward_scale: float) -> Array:
        """See `Guide`."""
        here = self.value(rollout.flat_obs).reshape(own.shape)
        experts = rollout.next_values(here, self.value) / reward_scale
        guided: Array = own + self.weight * np.maximum(experts - own, 0.0)
        return guided


class ExpertsValue(nn.Module):
    """V of the expert (B,) for observations that `policy` prepares; `net` is trained and kept.

    scale   ratio of the environment's reward to the unit of the values
    """

    scale: Tensor

    def __init__(self, net: nn.Module, policy: ActorPolicy) -> None:
        super().__init__()
        self.net, self._policy = net, (policy,)  # in a tuple: no part of this module
        self.register_buffer("scale", torch.ones((), dtype=torch.float64))

    def fit(
        self, critic: QOracle, batches: Iterable[tuple[Tensor, ...]], count: int, *, scale: float
    ) -> None:
        """Regress the net on the critic's value of the expert's action.

        batches  `count` minibatches of raw observations (B, ...) and the expert's actions (B, ...)
        """
        self.scale.fill_(scale)
        optimizer = Adam(self.net.parameters(), _LEARNING_RATE, max_grad_norm=1.0)
        for update, (obs, labels) in enumerate(batches):
            with torch.no_grad():
                values = critic.q(obs, labels) * (critic.reward_scale / scale)
            optimizer.learning_rate = _LEARNING_RATE * (1.0 - update / count)
            optimizer.step(F.mse_loss(self.net(self._policy[0].encoder.prepare(obs)), values))

    @torch.no_grad()
    def forward(self, obs: Array) -> Array:
        """Raw observations (B, ...) to values (B,) in the environment's rewards."""
        values: Array = self.net(encode(self._policy[0], obs)).cpu().numpy()
        return values * float(self.scale)
