"""Judges a critic: one that can't tell the expert's actions from random ones knows nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.configs.aggrevated import GATE
from imitate.envs.spaces import uniform_actions
from imitate.experts.values.critics import QOracle
from imitate.nn.policy import ActorPolicy

__all__ = ["CLOSED", "GATE", "PROBED", "Gate", "compared", "judge_critic", "measure_gate"]

PROBED = 2_048
"""States on which a critic that the expert brings is judged in each iteration."""

_RANDOM = 8  # random actions per state


@dataclass(frozen=True)
class Gate:
    """The verdict on a critic with H heads.

    gap       (H,) mean |Q(s, expert's action) - Q(s, random action)| of each head, the unit of its advantages
    openness  share of (head, state) pairs in which the expert's action has a higher value than random actions on
              average. NaN if the expert is the argmax of this critic, since even noise would then score 1
    open      whether to use the critic
    """

    gap: Tensor
    openness: float
    open: bool


CLOSED = Gate(torch.ones(1), math.nan, False)
"""No critic is used."""


@torch.no_grad()
def judge_critic(
    critic: QOracle,
    obs: Tensor,
    labels: Tensor,
    learner: ActorPolicy,
    space: spaces.Space[Any],
    rng: np.random.Generator,
    threshold: float = GATE,
) -> tuple[Gate, dict[str, float]]:
    """Judge the critic on raw observations (B, ...) and their labels, and the learner by the critic."""
    gate = measure_gate(critic, obs, labels, space, rng, threshold)
    own = learner.to_env(learner(learner.encoder.prepare(obs)).mode())
    return gate, compared(critic, gate, obs, labels, own)


@torch.no_grad()
def measure_gate(
    critic: QOracle,
    obs: Tensor,
    labels: Tensor,
    space: spaces.Space[Any],
    rng: np.random.Generator,
    threshold: float = GATE,
) -> Gate:
    """Measure the gate on raw observations (B, ...) and their labels; it is open from `threshold` on."""
    values = critic.heads(obs, labels)  # (H, B)
    drawn = [
        torch.from_numpy(uniform_actions(space, len(labels), rng)).to(labels.device) for _ in range(_RANDOM)
    ]
    random = torch.stack([critic.heads(obs, actions) for actions in drawn])  # (8, H, B)
    gap = (values - random).abs().mean((0, 2)).clamp(min=1e-8)
    if critic.greedy:
        return Gate(gap, math.nan, True)
    openness = float((values > random.mean(0)).float().mean())
    return Gate(gap, openness, openness >= threshold)


@torch.no_grad()
def compared(critic: QOracle, gate: Gate, obs: Tensor, labels: Tensor, own: Tensor) -> dict[str, float]:
    """Metrics: values of the labels and of the learner's own actions, their difference in gaps, and the openness.

    The openness is left out if it is NaN.
    """
    of_expert, of_learner = critic.heads(obs, labels), critic.heads(obs, own)  # (H, B)
    metrics = {
        "q_expert": float(of_expert.mean()),
        "q_learner": float(of_learner.mean()),
        "advantage": float(((of_learner - of_expert).mean(1) / gate.gap).mean()),
    }
    return metrics if math.isnan(gate.openness) else metrics | {"gate": gate.openness}
