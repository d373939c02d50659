"""Truncated quantile critics (arXiv:2005.04269): SAC whose critics predict quantiles of the return.

A target leaves out the highest quantiles of all critics together, which overestimate most.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from imitate.configs.tqc import TQCConfig
from imitate.rl.off_policy import Batch
from imitate.rl.sac import SAC, Reading

__all__ = ["TQC", "TQCConfig", "quantile_loss", "truncated_targets"]


def truncated_targets(outputs: Tensor, bonus: Tensor, batch: Batch, dropped: int) -> Tensor:
    """Targets (B, M): the lowest M = C * (K - dropped) of all quantiles (C, B, K) of the next state, with the entropy
    bonus (B,), discounted, plus the returns."""
    count, size, quantiles = outputs.shape
    pooled = outputs.transpose(0, 1).reshape(size, -1).sort(-1).values  # (B, C * K)
    kept = pooled[:, : count * (quantiles - dropped)] + bonus[:, None]
    return batch["returns"][:, None] + batch["discounts"][:, None] * kept


def quantile_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Huber quantile regression (arXiv:1710.10044) of quantiles (C, B, K) to targets (B, M), mean over all pairs."""
    quantiles = outputs.shape[-1]
    levels = (torch.arange(quantiles, device=outputs.device) + 0.5) / quantiles  # (K,)
    errors = targets[:, None, :] - outputs[..., None]  # (C, B, K, M)
    huber = F.huber_loss(errors, torch.zeros_like(errors), reduction="none")
    weights = (levels[:, None] - (errors.detach() < 0).float()).abs()
    return (weights * huber).mean()


def TQC(config: TQCConfig, **handed: Any) -> SAC:
    """A learner as SAC, with TQC's use of its critics; takes the arguments of `SAC`."""

    def targets(outputs: Tensor, bonus: Tensor, batch: Batch) -> Tensor:
        return truncated_targets(outputs, bonus, batch, config.dropped)

    reading = Reading(
        config.quantiles, lambda outputs: outputs.mean((0, 2)), targets, quantile_loss, mean=True
    )
    return SAC(config, reading=reading, **handed)
