"""Acting with small networks: on a few rows, calls of torch take several times as long as the arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor, nn

from imitate.datasets.trajectory import Array

__all__ = ["numpy_forward"]

_ACTIVATIONS: dict[type[nn.Module], Callable[..., Array]] = {
    nn.ReLU: lambda x: np.maximum(x, 0.0, out=x),
    nn.Tanh: lambda x: np.tanh(x, out=x),
}


def numpy_forward(layers: nn.Sequential) -> Callable[[Array], Array] | None:
    """The function (B, in) -> (B, out) of linear layers and activations on the CPU, in NumPy; None for other networks.

    It reads the parameters where torch writes them, so it stays up to date as long as they are changed in place.
    """
    steps: list[tuple[Array, Array] | Callable[..., Array]] = []
    for layer in layers:
        if isinstance(layer, nn.Linear) and layer.weight.device.type == "cpu":
            steps.append((_shared(layer.weight).T, _shared(layer.bias)))
        elif type(layer) in _ACTIVATIONS:
            steps.append(_ACTIVATIONS[type(layer)])
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


def _shared(tensor: Tensor) -> Array:
    array: Array = tensor.detach().numpy()
    return array
