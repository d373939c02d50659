"""Adam with all parameters in one vector.

Small networks spend most of their time in calls to torch. The gradient is set to zero, measured, clipped and applied in
one call each. With the networks of PPO on CartPole a gradient step takes 0.56 ms of processor time; with
`torch.optim.AdamW(fused=True)` on the same vector it takes 9 % more, on the separate parameters 30 % more.
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

    The parameters and their gradients are views of two vectors. A parameter that something else has moved since, such
    as another optimiser, is moved back by the next step, with its current value.

    In a CUDA graph a step can't raise: one that diverges changes nothing, and `check` raises the error of it later.
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
        self.eps, self.weight_decay, self.max_grad_norm = eps, weight_decay, max_grad_norm
        self._gather()
        self._mean, self._square = torch.zeros_like(self._vector), torch.zeros_like(self._vector)
        self._count, self._diverged, self._rate = torch.zeros((3, 1), device=self._vector.device)
        self.learning_rate = learning_rate

    @property
    def learning_rate(self) -> float:
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self._learning_rate = rate
        if self._vector.is_cuda:  # a recorded graph reads it there
            self._rate.fill_(rate)

    def step(self, loss: Tensor) -> None:
        """Take a step down the gradient of a scalar loss; parameters that it does not depend on have gradient 0.

        Raises FloatingPointError if the loss or a gradient is not finite; the parameters are then unchanged.
        """
        self.collect_views()
        self._gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        self.descend(loss.detach())

    def descend(self, loss: Tensor | float = 0.0) -> None:
        """Take a step down the gradients that are in `grad` of the parameters. The loss () is only checked.

        Call `collect_views` before these are written. Raises FloatingPointError as `step` does.
        """
        norm = torch.linalg.vector_norm(self._gradient)
        if self._vector.is_cuda and torch.cuda.is_current_stream_capturing():
            diverged = (loss + norm).isfinite().logical_not().float().view(1)
            self._descend(norm, self._rate, diverged)
            self._count -= diverged
            self._diverged += diverged
            return
        # One transfer from the device checks both; if a gradient is not finite, neither is the norm.
        if not math.isfinite(loss + norm):
            raise FloatingPointError(
                f"the loss is {float(loss):g} and its gradient's norm {float(norm):g} in update "
                f"{int(self._count) + 1}: training diverged; lower learning_rate"
            )
        self._descend(norm, self._learning_rate)

    def check(self) -> None:
        """Raise FloatingPointError if steps in CUDA graphs diverged since the last call."""
        if self._vector.is_cuda and (steps := int(self._diverged)):
            self._diverged.zero_()
            raise FloatingPointError(
                f"the loss or its gradient was not finite in {steps} updates around update {int(self._count)}: "
                "training diverged; lower learning_rate"
            )

    def place(self) -> int:
        """The address of the parameters, after `collect_views`."""
        self.collect_views()
        return self._vector.data_ptr()

    def collect_views(self) -> None:
        """Move parameters that something else has moved back into the vector, and their gradients too."""
        for parameter, address, gradient in self._views:
            if parameter.data_ptr() != address or parameter.grad is not gradient:
                self._gather()
                break

    def _gather(self) -> None:
        """Move the parameters into one vector and their gradients into another."""
        self._vector = torch.cat([parameter.detach().flatten() for parameter in self.parameters])
        self._gradient = torch.zeros_like(self._vector)
        sizes = [parameter.numel() for parameter in self.parameters]
        self._views = []
        pieces = torch.split(self._vector, sizes), torch.split(self._gradient, sizes)
        for parameter, values, gradient in zip(self.parameters, *pieces, strict=True):
            parameter.data, parameter.grad = values.view_as(parameter), gradient.view_as(parameter)
            self._views.append((parameter, parameter.data_ptr(), parameter.grad))

    def _descend(self, norm: Tensor, rate: Tensor | float, diverged: Tensor | None = None) -> None:
        scale = None  # the gradient is divided by this
        if self.max_grad_norm < math.inf:
            scale = (norm / self.max_grad_norm).clamp(min=1.0)
        self._count += 1
        # The kernel of torch.optim.AdamW(fused=True): one pass over the vectors instead of nine.
        torch._fused_adamw_(
            [self._vector],
            [self._gradient],
            [self._mean],
            [self._square],
            [],
            [self._count],
            lr=rate,
            beta1=BETA1,
            beta2=BETA2,
            weight_decay=self.weight_decay,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
            grad_scale=scale,
            found_inf=diverged,
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
