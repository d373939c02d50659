"""Adam on all parameters as one vector.

It computes the update of `torch.optim.Adam` in a tenth of the calls, which take most of the time for small networks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Adam"]

BETA1, BETA2 = 0.9, 0.999


class Adam:
    """Adam (arXiv:1412.6980), with gradients clipped to a norm and decoupled weight decay (arXiv:1711.05101).

    The parameters and their gradients become views of two vectors. So a parameter belongs to the last optimiser that
    was created with it, and its `grad` must not be set to None.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        learning_rate: float,
        *,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        max_grad_norm: float = math.inf,
    ) -> None:
        self.parameters = list(dict.fromkeys(parameters))  # a shared body appears in both networks
        self.learning_rate, self.eps = learning_rate, eps
        self.weight_decay, self.max_grad_norm = weight_decay, max_grad_norm
        self._vector = torch.cat([parameter.detach().flatten() for parameter in self.parameters])
        self._gradient = torch.zeros_like(self._vector)
        begin = 0
        for parameter in self.parameters:
            piece = slice(begin, begin := begin + parameter.numel())
            parameter.data = self._vector[piece].view_as(parameter)
            parameter.grad = self._gradient[piece].view_as(parameter)
        self._mean, self._square = torch.zeros_like(self._vector), torch.zeros_like(self._vector)
        self._count = torch.zeros((), device=self._vector.device)

    def step(self, loss: Tensor) -> None:
        """Take a step down the gradient of a scalar loss; parameters that it does not depend on have gradient 0.

        Raises FloatingPointError if the loss or a gradient is not finite; the parameters are then unchanged.
        """
        self._gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.linalg.vector_norm(self._gradient)
        # One transfer from the device checks both; if a gradient is not finite, neither is the norm.
        if not math.isfinite(loss.detach() + norm):
            raise FloatingPointError(
                f"the loss is {float(loss.detach()):g} and its gradient's norm {float(norm):g} in update "
                f"{int(self._count) + 1}: training diverged; lower learning_rate or max_grad_norm"
            )
        self._descend(self._gradient, norm)

    @torch.no_grad()
    def _descend(self, gradient: Tensor, norm: Tensor) -> None:
        scale = None  # the gradient is divided by this
        if self.max_grad_norm < math.inf:
            scale = (norm / self.max_grad_norm).clamp(min=1.0)
        self._count += 1
        # The kernel of torch.optim.AdamW(fused=True): one pass over the vectors instead of nine.
        torch._fused_adamw_(
            [self._vector],
            [gradient],
            [self._mean],
            [self._square],
            [],
            [self._count],
            lr=self.learning_rate,
            beta1=BETA1,
            beta2=BETA2,
            weight_decay=self.weight_decay,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
            grad_scale=scale,
        )

    def restart(self) -> None:
        """Reset the moments to zero."""
        self._mean.zero_()
        self._square.zero_()
        self._count.zero_()

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self._mean, "square": self._square, "count": int(self._count)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._mean.copy_(state["mean"])
        self._square.copy_(state["square"])
        self._count.fill_(state["count"])
