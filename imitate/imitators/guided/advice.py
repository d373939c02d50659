"""The experts' actions, asked once in each state and kept in the replay beside its observation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from imitate.datasets.asking import Askable, asking
from imitate.envs.spaces import Array
from imitate.nn.policy import ActorPolicy

__all__ = ["NOT_ASKED", "Experts", "joined"]

NOT_ASKED = 2.0
"""In place of an expert's action in [-1, 1], where none was asked."""


class Experts:
    """Asks K experts for their actions; `queries` counts the answered observations."""

    def __init__(self, experts: Sequence[Askable], policy: ActorPolicy) -> None:
        self.asks = [asking(expert, policy.action_space, who="the expert") for expert in experts]
        self.policy, self.queries = policy, 0

    @property
    def count(self) -> int:
        """K."""
        return len(self.asks)

    def __call__(self, obs: Array) -> Array:
        """Actions (N, K, D) in [-1, 1] for raw observations (N, *obs_shape)."""
        actions = np.stack([ask(obs) for ask in self.asks], 1)
        self.queries += len(obs)
        unit = self.policy.to_unit(torch.from_numpy(actions).to(self.policy.output.weight.device))
        return unit.clamp(-1.0, 1.0).cpu().numpy()


def joined(obs: Array, advice: Array) -> Array:
    """Observations (..., *obs_shape) and advice (..., K, D) as rows (..., F + K * D)."""
    lead = advice.shape[:-2]
    parts = [part.reshape(*lead, math.prod(part.shape[len(lead) :])) for part in (obs, advice)]
    rows: Array = np.concatenate(parts, -1, dtype=np.float32)
    return rows
