"""Layers of SB3's agents that torch lacks, and networks as functions of NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.datasets.trajectory import tensors_of
from imitate.envs.spaces import Array
from imitate.experts.sb3.vecnormalize import Normalisation

__all__ = [
    "ONE",
    "ZERO",
    "Columns",
    "Combined",
    "Flat",
    "Image",
    "MeanOverQuantiles",
    "Normalise",
    "OneHot",
    "compiled",
]

_FEW_ROWS = 64  # above this many, torch is as fast and rounds exactly as SB3 does


class Normalise(nn.Module):
    """Normalises in float64, as SB3 does: float32 is too coarse for variances near 0."""

    mean: Tensor
    scale: Tensor

    def __init__(self, normalisation: Normalisation) -> None:
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(normalisation.mean, dtype=torch.float64))
        scale = np.sqrt(np.asarray(normalisation.var) + normalisation.epsilon)
        self.register_buffer("scale", torch.as_tensor(scale, dtype=torch.float64))
        self.clip = normalisation.clip_obs

    def forward(self, obs: Tensor) -> Tensor:
        return ((obs.double() - self.mean) / self.scale).clamp(-self.clip, self.clip).float()


class Flat(nn.Module):
    def forward(self, obs: Tensor) -> Tensor:
        return obs.flatten(1).float()


ZERO, ONE = -2, -1  # constants, where a column is expected


class Columns(nn.Module):
    """Selects a policy's inputs from observations (N, columns): each is a column, ZERO or ONE."""

    index: Tensor

    def __init__(self, columns: Sequence[int]) -> None:
        super().__init__()
        self.register_buffer("index", torch.tensor(columns))

    def forward(self, obs: Tensor) -> Tensor:
        zero_and_one = obs.new_tensor([0, 1]).expand(len(obs), 2)
        return torch.cat([obs, zero_and_one], 1)[:, self.index]


class Image(nn.Module):
    """Converts uint8 images to floats in [0, 1], channels first, as SB3's VecTransposeImage did in training."""

    def __init__(self, channels: int, *, normalize: bool) -> None:
        super().__init__()
        self.channels, self.scale = channels, 255.0 if normalize else 1.0

    def forward(self, obs: Tensor) -> Tensor:
        if obs.shape[1] != self.channels:
            obs = obs.permute(0, 3, 1, 2)
        return obs.float() / self.scale


class OneHot(nn.Module):
    def __init__(self, space: spaces.Discrete | spaces.MultiDiscrete) -> None:
        super().__init__()
        self.sizes = [int(n) for n in np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec)]

    def forward(self, obs: Tensor) -> Tensor:
        columns = obs.long().reshape(len(obs), len(self.sizes)).unbind(1)
        one_hot = [nn.functional.one_hot(column, n) for column, n in zip(columns, self.sizes, strict=True)]
        return torch.cat(one_hot, 1).float()


class Combined(nn.Module):
    """Encodes each key of dict observations and concatenates in the space's order, as SB3 does."""

    def __init__(self, encoders: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.keys, self.encoders = list(encoders), nn.ModuleList(encoders.values())

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        encoded = [encode(obs[key]) for key, encode in zip(self.keys, self.encoders, strict=True)]
        return torch.cat(encoded, 1)


class MeanOverQuantiles(nn.Module):
    def __init__(self, num_actions: int) -> None:
        super().__init__()
        self.num_actions = num_actions

    def forward(self, quantiles: Tensor) -> Tensor:
        each = quantiles.shape[1] // self.num_actions
        return quantiles.view(len(quantiles), each, self.num_actions).mean(1)  # (N, actions)


def compiled(network: nn.Sequential) -> Callable[[Any], Array]:
    """The network as a function of arrays (N, *) -> (N, *).

    For few rows it runs in NumPy if the layers allow it, with a third of torch's overhead per call.
    """
    steps = [step for layer in network if (step := _numpy_step(layer)) is not None]
    plain = len(steps) == len(network)

    def forward(values: Any) -> Array:
        if not plain or len(values) > _FEW_ROWS:
            with torch.inference_mode():
                return np.asarray(network(tensors_of(values)))
        # Extreme observations are the environment's responsibility.
        with np.errstate(over="ignore", invalid="ignore"):
            for step in steps:
                values = step(values)
        return np.asarray(values)

    return forward


def _numpy_step(layer: nn.Module) -> Callable[[Array], Array] | None:
    if isinstance(layer, nn.Linear):
        weight = np.ascontiguousarray(layer.weight.numpy().T)
        if layer.bias is None:
            return lambda x: x @ weight
        bias = layer.bias.numpy()
        return lambda x: np.add(y := x @ weight, bias, out=y)
    if isinstance(layer, nn.Tanh):
        return np.tanh
    if isinstance(layer, nn.ReLU):
        zero = np.float32(0)
        return lambda x: np.maximum(x, zero)
    if isinstance(layer, nn.Hardtanh):
        low, high = layer.min_val, layer.max_val
        return lambda x: np.minimum(np.maximum(x, low), high)
    if isinstance(layer, Flat):
        return lambda x: x.reshape(len(x), math.prod(x.shape[1:])).astype(np.float32, copy=False)
    if isinstance(layer, Columns):
        index = layer.index.numpy()
        return lambda x: np.pad(np.pad(x, ((0, 0), (0, 1))), ((0, 0), (0, 1)), constant_values=1)[:, index]
    if isinstance(layer, MeanOverQuantiles):
        num_actions = layer.num_actions
        return lambda x: x.reshape(len(x), x.shape[1] // num_actions, num_actions).mean(1)
    if isinstance(layer, Normalise):
        mean, scale, clip = layer.mean.numpy(), layer.scale.numpy(), layer.clip
        return lambda x: np.minimum(np.maximum((x - mean) / scale, -clip), clip).astype(np.float32)
    return None
