"""How far a critic is to be trusted: one that can't tell the expert's actions from random ones knows nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.experts.critics import QOracle

__all__ = ["Gate", "measure_gate"]

_RANDOM = 8  # actions in each state


@dataclass(frozen=True)
class Gate:
    """gap       (H,) of each critic: mean |Q(s, expert's action) - Q(s, random action)|, the unit of its advantages
    openness  share of (critic, state) pairs in which the expert's action is above random ones' mean
    """

    gap: Tensor
    openness: float


@torch.no_grad()
def measure_gate(
    oracle: QOracle, obs: Tensor, expert: Tensor, space: spaces.Space[Any], rng: np.random.Generator
) -> Gate:
    """From raw observations (B, ...) and the expert's actions there."""
    values = oracle.heads(obs, expert)  # (H, B)
    drawn = [_random_actions(space, len(obs), rng).to(obs.device) for _ in range(_RANDOM)]
    random = torch.stack([oracle.heads(obs, actions) for actions in drawn])  # (8, H, B)
    gap = (values - random).abs().mean((0, 2)).clamp(min=1e-8)
    return Gate(gap, float((values > random.mean(0)).float().mean()))


def _random_actions(space: spaces.Space[Any], count: int, rng: np.random.Generator) -> Tensor:
    if isinstance(space, spaces.Discrete):
        return torch.from_numpy(rng.integers(space.start, space.start + space.n, count))
    assert isinstance(space, spaces.Box)
    return torch.from_numpy(rng.uniform(space.low, space.high, (count, *space.shape)).astype(space.dtype))
