"""Truncated quantile critics (arXiv:2005.04269): SAC whose critics predict quantiles of the return.

A target leaves out the highest quantiles of all critics together, which overestimate most.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from imitate.configs.tqc import TQCConfig
from imitate.rl.batches import Batch
from imitate.rl.handed import takes
from imitate.rl.sac import SAC, Reading

__all__ = ["TQC", "TQCConfig", "mean_value", "quantile_loss", "truncated_targets"]


def truncated_targets(outputs: Tensor, bonus: Tensor, batch: Batch, dropped: int) -> Tensor:
    """Targets (B, M): the lowest M = C * (K - dropped) of all quantiles (C, B, K) of the next state, with the entropy
    bonus (B,), discounted, plus the returns."""
    count, size, quantiles = outputs.shape
    pooled = outputs.transpose(0, 1).reshape(size, -1).sort(-1).values  # (B, C * K)
    kept = pooled[:, : count * (quantiles - dropped)] + bonus[:, None]
    return batch["returns"][:, None] + batch["discounts"][:, None] * kept


def quantile_loss(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Huber quantile regression (arXiv:1710.10044) of quantiles (C, B, K) to targets (B, M), mean over all pairs; and
    its gradient by the quantiles."""
    quantiles = outputs.shape[-1]
    levels = (torch.arange(quantiles, device=outputs.device) + 0.5) / quantiles  # (K,)
    errors = targets[:, None, :] - outputs[..., None]  # (C, B, K, M)
    clipped = errors.clamp(-1.0, 1.0)
    weighted = torch.where(errors < 0, 1.0 - levels[:, None], levels[:, None]) * clipped
    # Huber's loss is clipped * (error - clipped / 2), and its slope is clipped.
    return (weighted * (errors - 0.5 * clipped)).mean(), weighted.sum(-1) / -errors.numel()


def mean_value(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """The mean (B,) of all quantiles (C, B, K), and the gradient of its sum."""
    return outputs.mean((0, 2)), torch.full_like(outputs, 1.0 / (outputs.shape[0] * outputs.shape[2]))


@takes(TQCConfig)
def TQC(config: TQCConfig, **handed: Any) -> SAC:
    """SAC whose critics predict quantiles; takes the arguments of `SAC`."""

    def targets(outputs: Tensor, bonus: Tensor, batch: Batch) -> Tensor:
        return truncated_targets(outputs, bonus, batch, config.dropped)

    reading = Reading(config.quantiles, mean_value, targets, quantile_loss, mean=True)
    return SAC(config, reading=reading, **handed)
