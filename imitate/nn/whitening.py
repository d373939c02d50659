"""Decorrelated inputs, for a network that learns from few pairs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import torch
from torch import Tensor, nn

from imitate.nn.networks import Encoder
from imitate.nn.policy import ActorPolicy

__all__ = ["Whitening", "whitening"]

_SHRINKAGE = 0.03


def whitening(correlations: Tensor) -> Tensor:
    """(D, D) symmetric matrix that makes standardised inputs (N, D) with these correlations (D, D) uncorrelated.

    An expert often acts on a difference of inputs that vary together, which a network learns late. Correlations are
    shrunk by 3 %, so that no direction is stretched more than six times.
    """
    identity = torch.eye(len(correlations), dtype=correlations.dtype, device=correlations.device)
    values, vectors = torch.linalg.eigh((1 - _SHRINKAGE) * correlations + _SHRINKAGE * identity)
    matrix: Tensor = vectors @ (vectors / values.sqrt()).T
    return matrix


class Whitening:
    """Prepared observations (B, D) to decorrelated ones (B, D), by a `matrix` (D, D)."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix

    @classmethod
    def fit(cls, encoder: nn.Module, observations: Iterable[Tensor]) -> Self | None:
        """Fit to raw observations (B, *obs_shape); None for an encoder that standardises no vectors."""
        if not isinstance(encoder, Encoder) or encoder.moments is None:
            return None
        total, count = torch.zeros(()), 0
        for obs in observations:
            x = encoder.prepare(obs).double()
            total, count = total + x.T @ x, count + len(x)
        return cls(whitening(total / count).float())

    def __call__(self, prepared: Tensor) -> Tensor:
        return prepared @ self.matrix

    @torch.no_grad()
    def fold(self, policy: ActorPolicy) -> None:
        """Change the first layer, so that the policy takes inputs that are not whitened: (x W) A = x (W A)."""
        first = next(module for module in policy.modules() if isinstance(module, nn.Linear))
        first.weight.copy_(first.weight @ self.matrix)
