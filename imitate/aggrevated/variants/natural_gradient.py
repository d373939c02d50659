"""The natural gradient with a limit on the KL divergence, as in AggreVaTeD (arXiv:1703.01030, section 4).

The direction solves F x = g by conjugate gradients, where F is the policy's Fisher information. Products with F come
from second derivatives of the KL divergence (arXiv:1502.05477, appendix C), so F itself is never formed. The length is
such that the quadratic approximation of the KL equals `kl_limit`; it is halved until the true KL is at
most 1.5 times that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from imitate.nn.distributions import Categorical, Gaussian

__all__ = ["NaturalGradient", "conjugate_gradient", "kl_divergence"]

_ITERATIONS = 10  # of conjugate gradients
_HALVINGS = 10


def kl_divergence(old: Categorical | Gaussian, new: Categorical | Gaussian) -> Tensor:
    """KL(old || new) (B,) of two distributions of one kind. Squashing does not change it: tanh is one-to-one."""
    if isinstance(old, Categorical) and isinstance(new, Categorical):
        log_probs = old.logits.log_softmax(-1)
        return (log_probs.exp() * (log_probs - new.logits.log_softmax(-1))).sum(-1)
    assert isinstance(old, Gaussian)
    assert isinstance(new, Gaussian)
    variance_ratio = (2 * (old.log_std - new.log_std)).exp()
    shift = (old.mean - new.mean).square() * (-2 * new.log_std).exp()
    return 0.5 * (variance_ratio + shift - 1 - 2 * (old.log_std - new.log_std)).sum(-1)


def conjugate_gradient(product: Callable[[Tensor], Tensor], b: Tensor, iterations: int) -> Tensor:
    """Solve product(x) = b for x (P,); exact after P iterations, up to rounding.

    `product` must be symmetric and positive definite.
    """
    x = torch.zeros_like(b)
    residual, direction = b.clone(), b.clone()
    squared = residual @ residual
    for _ in range(iterations):
        if squared < 1e-20:
            break
        along = product(direction)
        step = squared / (direction @ along)
        x += step * direction
        residual -= step * along
        before, squared = squared, residual @ residual
        direction = residual + squared / before * direction
    return x


class NaturalGradient:
    """Natural-gradient descent.

    kl_limit    wanted KL divergence of a step, mean over the batch; at most 1.5 times it
    damping     absolute damping added to the Fisher diagonal; 1e-3 suits standardised inputs
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        kl_limit: float,
        *,
        damping: float = 1e-3,
    ) -> None:
        self.parameters = list(parameters)
        self.kl_limit, self.damping = kl_limit, damping

    def step(self, loss: Tensor, kl: Callable[[], Tensor]) -> float:
        """Take a step down the natural gradient of a scalar loss.

        `kl` returns the mean KL (a scalar) from the current policy, detached, to the policy with the parameters at the
        time of the call. Returns the KL of the step, or 0 if no step in this direction stayed within the limit.
        """
        gradient = self._gradient(loss)
        slope = self._gradient(kl(), create_graph=True)

        def fisher(vector: Tensor) -> Tensor:
            return self._gradient(slope @ vector, retain_graph=True) + self.damping * vector

        direction = conjugate_gradient(fisher, gradient, _ITERATIONS)
        curvature = float(gradient @ direction)  # g F^-1 g: twice the KL of a step of length 1
        if not 0 < curvature < math.inf:
            return 0.0
        return self._descend(direction * math.sqrt(2 * self.kl_limit / curvature), kl)

    @torch.no_grad()
    def _descend(self, step: Tensor, kl: Callable[[], Tensor]) -> float:
        before = [parameter.clone() for parameter in self.parameters]
        for halving in range(_HALVINGS):
            pieces = torch.split(step * 0.5**halving, [parameter.numel() for parameter in self.parameters])
            for parameter, start, piece in zip(self.parameters, before, pieces, strict=True):
                parameter.copy_(start - piece.view_as(parameter))
            taken = float(kl())
            if taken <= 1.5 * self.kl_limit:  # the quadratic is an approximation
                return taken
        for parameter, start in zip(self.parameters, before, strict=True):
            parameter.copy_(start)
        return 0.0

    def _gradient(self, scalar: Tensor, **graph: Any) -> Tensor:
        """The gradient by all parameters as one vector (P,), with zeros for those that it does not depend on."""
        gradients = torch.autograd.grad(scalar, self.parameters, materialize_grads=True, **graph)
        return torch.cat([gradient.flatten() for gradient in gradients])
