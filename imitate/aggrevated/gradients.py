"""Estimators of the gradient of E_{a ~ pi}[A*(s, a)], as losses that are plain functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from imitate.nn.distributions import Categorical, Gaussian

__all__ = [
    "clipped_ratio_loss",
    "exact_loss",
    "imitation_loss",
    "normalised",
    "score_loss",
    "target_actions",
]

_CLIP = 0.2


def normalised(q: Tensor, baseline: Tensor | float, gap: float, how: str) -> Tensor:
    """Values of any shape, as `AggreVaTeDConfig.normalisation` says; `baseline` is their mean under the policy."""
    match how:
        case "minmax":
            low, high = q.detach().min(), q.detach().max()
            return (q - low) / (high - low).clamp(min=1e-8)
        case "standardise":
            return (q - q.detach().mean()) / q.detach().std(correction=0).clamp(min=1e-8)
        case "baseline":
            return q - baseline
        case "gap":
            return (q - baseline) / gap
        case _:
            return q


def exact_loss(logits: Tensor, advantages: Tensor) -> Tensor:
    """(B,) -E_{a ~ pi}[A(s, a)] from logits and advantages (B, A). Advantages take no gradient."""
    return -(logits.softmax(-1) * advantages.detach()).sum(-1)


def score_loss(log_probs: Tensor, advantages: Tensor) -> Tensor:
    """(B,) from k samples (k, B): its gradient is that of -E_{a ~ pi}[A(s, a)] in expectation."""
    return -(log_probs * advantages.detach()).mean(0)


def target_actions(expert: Tensor, gradients: Tensor, *, beta: float, delta: float) -> Tensor:
    """Actions (B, D) in [-1, 1] that are better than the expert's (B, D).

    gradients  (H, B, D) of each critic's advantage, in units of its gap between the expert's actions and random ones

    Without bounds it is the action a that minimises -A(a) + beta * mean (a - expert)^2 for a linear A. Dimensions about
    which the critics disagree in sign stay the expert's; no step is longer than delta, root mean square.
    """
    agreed = (gradients.sign().sum(0).abs() == len(gradients)).float()
    step = gradients.mean(0) * agreed * (expert.shape[-1] / (2 * max(beta, 1e-6)))
    length = step.square().mean(-1, keepdim=True).sqrt().clamp(min=1e-8)
    return (expert + step * (delta / length).clamp(max=1.0)).clamp(-1.0, 1.0)


def imitation_loss(distribution: Categorical | Gaussian, expert: Tensor) -> Tensor:
    """(B,) cross-entropy of the expert's actions, indices from 0; of continuous ones (B, D) in [-1, 1] the mean
    squared error of the policy's mode."""
    if isinstance(distribution, Categorical):
        return -distribution.log_prob(expert)
    return (distribution.mean.tanh() - expert).square().mean(-1)


def clipped_ratio_loss(log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor) -> Tensor:
    """(B,) of actions that an older policy executed: PPO's (arXiv:1707.06347, eq. 7)."""
    ratio = (log_probs - old_log_probs).exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - _CLIP, 1 + _CLIP) * advantages)
