"""Whether a critic's step pays: what the learner earned in roll-ins after training with it and without it.

By the performance difference lemma the learner is better than the expert by the sum of A*(s, a) over its own steps. The
rewards of a roll-in tell the mean of A* along the learner's steps, r + gamma V*(s') - V*(s), whatever the critic says
about actions: only the expert's values V* enter, and their errors are the same for both.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from imitate.envs.spaces import Array
from imitate.experts.critics import QOracle
from imitate.rl.rollout import Rollout

__all__ = ["Contest", "learners_gains"]

_ERRORS = 2.0  # standard errors by which the critic's step must be worse to be dropped


class Contest:
    """Two learners take turns, one iteration each: trained with the critic's step and without it.

    acting   which of them rolls in: trained with the step (True), without (False), or not at all yet (None)
    """

    def __init__(self) -> None:
        self.acting: bool | None = None
        self._sums = torch.zeros(2, 3, dtype=torch.float64)  # without and with: count, sum, sum of squares

    def record(self, gains: Tensor) -> None:
        """Credit what the acting learner's steps gained, (B,)."""
        if self.acting is not None:
            gains = gains.double().cpu()
            powers = torch.stack([torch.ones_like(gains), gains, gains.square()])
            self._sums[int(self.acting)] += powers.sum(1)

    @property
    def difference(self) -> tuple[float, float]:
        """Mean gain of a step with the critic less that without, and its standard error; (0, inf) if one is unknown."""
        count, total, squares = self._sums.T
        if bool((count < 2).any()):
            return 0.0, math.inf
        means = total / count
        variances = (squares / count - means.square()).clamp(min=0.0) / count
        return float(means[1] - means[0]), float(variances.sum().sqrt())

    @property
    def lost(self) -> bool:
        """Whether the critic's step is worse by more than two standard errors."""
        difference, error = self.difference
        return difference < -_ERRORS * error

    def state_dict(self) -> dict[str, Any]:
        return {"acting": self.acting, "sums": self._sums}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.acting = state["acting"]
        self._sums.copy_(state["sums"])


@torch.no_grad()
def learners_gains(
    oracle: QOracle, rollout: Rollout, labels: Array, turns: Array, device: torch.device
) -> Tensor:
    """r + gamma V*(s') - V*(s), (B,), of the learner's steps in the critic's units of reward.

    labels, turns   the expert's actions (T, N, ...), and where it acted (T, N)

    V*(s) is the critic's value of the expert's action. Steps whose successor the expert was not asked about, at cuts
    and in the last row, are left out.
    """
    flat = labels.reshape(-1, *labels.shape[2:])
    obs, actions = torch.from_numpy(rollout.flat_obs).to(device), torch.from_numpy(flat).to(device)
    values = oracle.heads(obs, actions).mean(0).cpu().numpy().reshape(rollout.rewards.shape)
    following = np.zeros_like(values)
    following[:-1] = values[1:] * ~rollout.terminated[:-1]
    known = rollout.terminated | ~rollout.truncated
    known[-1] = rollout.terminated[-1]
    gains = rollout.rewards / oracle.reward_scale + oracle.gamma * following - values
    return torch.from_numpy(gains[known & ~turns])
