"""Small networks without calls of modules: those take as long as the arithmetic. For few rows also without torch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from imitate.datasets.trajectory import Array

__all__ = ["numpy_forward", "torch_forward"]

# In place: what goes in is the output of a linear layer.
_NUMPY: dict[type[nn.Module], Callable[[Array], Array]] = {
    nn.ReLU: lambda x: np.maximum(x, 0.0, out=x),
    nn.Tanh: lambda x: np.tanh(x, out=x),
}
_TORCH: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {nn.ReLU: torch.relu, nn.Tanh: torch.tanh}


def torch_forward(layers: nn.Sequential) -> Callable[[Tensor], Tensor] | None:
    """The function (B, in) -> (B, out) of linear layers and activations; None for other networks.

    Not for copies of the network: it holds the parameters of this one.
    """
    steps: list[tuple[Tensor, Tensor] | Callable[[Tensor], Tensor]] = []
    for layer in layers:
        if isinstance(layer, nn.Linear):
            steps.append((layer.weight, layer.bias))
        elif type(layer) in _TORCH:
            steps.append(_TORCH[type(layer)])
        else:
            return None

    def forward(x: Tensor) -> Tensor:
        for step in steps:
            x = F.linear(x, *step) if isinstance(step, tuple) else step(x)
        return x

    return forward


def numpy_forward(layers: nn.Sequential) -> Callable[[Array], Array] | None:
    """That function in NumPy, for float32 (B, in) and networks on the CPU; else None.

    It reads the parameters where torch writes them, so it stays up to date as long as they are changed in place.
    """
    steps: list[tuple[Array, Array] | Callable[[Array], Array]] = []
    for layer in layers:
        if isinstance(layer, nn.Linear) and layer.weight.device.type == "cpu":
            steps.append((layer.weight.detach().numpy().T, layer.bias.detach().numpy()))
        elif type(layer) in _NUMPY:
            steps.append(_NUMPY[type(layer)])
        else:
            return None

    def forward(x: Array) -> Array:
        for step in steps:
            if isinstance(step, tuple):
                x = x @ step[0]
                x += step[1]
            else:
                x = step(x)
        return x

    return forward
