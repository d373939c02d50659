"""Networks: bodies (MLP, NatureCNN) and the value function."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from imitate.envs.numbers import indicators
from imitate.envs.seeds import check_seed
from imitate.envs.spaces import Array
from imitate.errors import InputError, one_line
from imitate.nn.normalize import LEAST_VARIANCE, RunningMoments

__all__ = [
    "MLP",
    "Activation",
    "Encoder",
    "ValueNet",
    "channels_last",
    "check_device",
    "is_image",
    "layer_norm",
    "nature_cnn",
    "numpy_forward",
    "one_hot",
    "orthogonal_",
    "seeded",
]
_LEAST_PIXELS = 36  # a side of the smallest image that NatureCNN takes
Activation = Literal["tanh", "relu"]
_ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


class Encoder(nn.Module):
    """Maps raw observations (B, *obs_shape) to features (B, F).

    Images of bytes, (H, W, C) if C is the least and otherwise (C, H, W), from 36 x 36 pixels on go through NatureCNN
    (Mnih et al. 2015); smaller ones count as numbers. Other uint8 observations are scaled from [0, 255] to [0, 1],
    Discrete ones are one-hot encoded, and vectors are standardised by running statistics if `normalize` is set.

    in_bfloat16  multiply in bfloat16, with weights in float32; set by the learner, not stored
    """

    def __init__(
        self,
        space: spaces.Space[Any],
        hidden: Sequence[int],
        activation: Activation,
        *,
        normalize: bool,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        if any(width < 1 for width in hidden):
            raise InputError(f"hidden layers need a width of at least 1, got {list(hidden)}")
        self.moments: RunningMoments | None = None
        self.is_image = is_image(space)
        self.in_bfloat16 = False
        self.one_hot = int(space.n) if isinstance(space, spaces.Discrete) else 0
        self.start = int(space.start) if isinstance(space, spaces.Discrete) else 0
        self.is_bytes = space.dtype == np.uint8
        shape = space.shape or ()
        self.channels_last = channels_last(space)
        if self.is_image:
            self.net = nature_cnn(space)
            self.features = 512
            return
        self.inputs = inputs = self.one_hot or int(np.prod(shape))
        if normalize and not self.one_hot:
            self.moments = RunningMoments((inputs,))
        self.net = MLP([inputs, *hidden], activation, layer_norm=layer_norm)
        self.features = hidden[-1] if hidden else inputs

    def prepare(self, obs: Tensor) -> Tensor:
        """Raw observations to the network's input; computed once, not in every epoch."""
        if self.is_image:
            return obs.permute(0, 3, 1, 2) if self.channels_last else obs
        if self.one_hot:
            return one_hot(obs, self.start, self.one_hot)
        x = self.numbers(obs)
        if self.moments is not None:
            return self.moments(x)  # type: ignore[no-any-return]  # bytes are standardised too
        return x.float() / 255.0 if self.is_bytes else x.float()

    def prepare_numpy(self, obs: Array) -> Array:
        """`prepare` in NumPy, for anything but images; the statistics must be on the CPU."""
        if self.one_hot:
            return indicators(obs, self.start, self.one_hot, np.float32)
        x = obs.reshape(-1, self.inputs)
        if self.moments is not None:
            mean, var = self.moments.mean.numpy(), self.moments.var.numpy()
            std = np.sqrt(np.maximum(var, LEAST_VARIANCE))
            standardised: Array = np.clip((x - mean) / std, -10.0, 10.0).astype(np.float32)
            return standardised
        numbers: Array = x.astype(np.float32, copy=False)
        return numbers / np.float32(255) if self.is_bytes else numbers

    def observe(self, obs: Tensor) -> None:
        """Update the running statistics, if there are any, with raw observations (B, *obs_shape)."""
        if self.moments is not None:
            self.moments.update(self.numbers(obs))

    def numbers(self, obs: Tensor) -> Tensor:
        """Raw observations (B, *obs_shape) to what the statistics are of (B, N)."""
        return obs.reshape(-1, self.inputs)

    def forward(self, prepared: Tensor) -> Tensor:
        if self.is_image:  # channels last: saves a fifth of the time of a gradient step on a CPU
            dtype = torch.bfloat16 if self.in_bfloat16 else torch.float32
            prepared = prepared.to(dtype, memory_format=torch.channels_last, copy=True).div_(255.0)
        if not self.in_bfloat16:
            return self.net(prepared)  # type: ignore[no-any-return]
        with torch.autocast(prepared.device.type, torch.bfloat16):
            return self.net(prepared).float()  # type: ignore[no-any-return]


def one_hot(values: Tensor, first: int, count: int) -> Tensor:
    """Numbers (B,) from `first` on to floats (B, count). Raises InputError for a number that is not one of `count`."""
    try:
        return F.one_hot(values.long() - first, count).float()
    except RuntimeError as error:
        beyond = values[(values < first) | (values >= first + count)]
        if not len(beyond):
            raise
        raise InputError(
            f"an observation holds {beyond[0].item()}, wanted {first} to {first + count - 1}: correct the "
            "environment that gave it"
        ) from error


def is_image(space: spaces.Space[Any]) -> bool:
    """True if observations are images that NatureCNN takes."""
    shape = space.shape or ()
    if not isinstance(space, spaces.Box) or len(shape) != 3 or space.dtype != np.uint8:
        return False
    return min(shape[:2] if channels_last(space) else shape[1:]) >= _LEAST_PIXELS


def channels_last(space: spaces.Space[Any]) -> bool:
    """True if observations are images (H, W, C), False if (C, H, W) or stacks of grey frames. C is the least."""
    shape = space.shape or ()
    return len(shape) == 3 and space.dtype == np.uint8 and shape[2] < min(shape[:2])


class ValueNet(nn.Module):
    """V(s): prepared observations (B, ...) to values (B,); makes its own body unless one is given."""

    def __init__(
        self,
        space: spaces.Space[Any],
        hidden: Sequence[int],
        activation: Activation,
        encoder: Encoder | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder or Encoder(space, hidden, activation, normalize=False)
        self.output = nn.Linear(self.encoder.features, 1)

    def forward(self, prepared: Tensor) -> Tensor:
        return self.output(self.encoder(prepared)).squeeze(-1)  # type: ignore[no-any-return]  # (B,)


class MLP(nn.Sequential):
    """Linear layers of these sizes, each followed by the activation; with `layer_norm`, a normalisation without a
    learned scale stands before that (arXiv:2302.02948)."""

    def __init__(self, sizes: Sequence[int], activation: Activation, *, layer_norm: bool = False) -> None:
        if activation not in _ACTIVATIONS:
            raise InputError(f"activation must be {' or '.join(_ACTIVATIONS)}, got {activation!r}")
        linear = [nn.Linear(inputs, outputs) for inputs, outputs in itertools.pairwise(sizes)]
        layers: list[nn.Module] = []
        for layer in linear:
            norms = [nn.LayerNorm(layer.out_features, elementwise_affine=False)] if layer_norm else []
            layers += [layer, *norms, _ACTIVATIONS[activation]()]
        super().__init__(*layers)
        self.linear, self.layer_norm = linear, layer_norm
        self.activation: Activation = activation
        self.function = torch.tanh if activation == "tanh" else torch.relu

    def forward(self, x: Tensor) -> Tensor:
        """(B, sizes[0]) to (B, sizes[-1]). It avoids module calls, which take as long as a small layer's arithmetic."""
        for layer in self.linear:
            x = F.linear(x, layer.weight, layer.bias)
            x = self.function(F.layer_norm(x, (layer.out_features,)) if self.layer_norm else x)
        return x


def orthogonal_(network: nn.Module, output: nn.Linear, *, output_gain: float) -> None:
    """Orthogonal weights with gain sqrt(2), `output_gain` for the last layer, zero biases (arXiv:2006.05990)."""
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(module.weight, output_gain if module is output else math.sqrt(2))
            assert module.bias is not None
            nn.init.zeros_(module.bias)


def check_device(device: torch.device | str) -> None:
    """Raise InputError unless torch can use the device here."""
    try:
        torch.empty(0, device=torch.device(device))
    except (AssertionError, RuntimeError, TypeError) as error:
        raise InputError(
            f"torch can't use device {str(device)!r} here: take 'cpu', or 'cuda' if it sees a GPU ({one_line(error)})"
        ) from error


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Networks made in this block get weights that depend on `seed` alone; torch's global generator is restored.

    Raises InputError for what is no seed, and if torch's default type is not float32, that of all networks here.
    """
    check_seed(seed)
    if (default := torch.get_default_dtype()) != torch.float32:
        raise InputError(
            f"networks are made of float32, torch's default type is {default}: call "
            "torch.set_default_dtype(torch.float32) first"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def nature_cnn(space: spaces.Space[Any]) -> nn.Sequential:
    """NatureCNN for images (B, C, H, W) of this space, to (B, 512)."""
    shape = space.shape or ()
    shape = (shape[2], shape[0], shape[1]) if channels_last(space) else shape
    convolutions = nn.Sequential(
        nn.Conv2d(shape[0], 32, 8, stride=4), nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=1), nn.ReLU(),
        nn.Flatten(),
    )  # fmt: skip
    with torch.no_grad():
        flat = convolutions(torch.zeros(1, *shape)).shape[1]
    return nn.Sequential(*convolutions, nn.Linear(flat, 512), nn.ReLU())


def layer_norm(x: Array) -> Array:
    """`F.layer_norm` of (B, N) in NumPy, in place."""
    x -= x.mean(-1, keepdims=True)
    x /= np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-5)
    return x


# In place, since the input is always the output of a linear layer.
_NUMPY: dict[type[nn.Module], Callable[[Array], Array]] = {
    nn.ReLU: lambda x: np.maximum(x, 0.0, out=x),
    nn.Tanh: lambda x: np.tanh(x, out=x),
    nn.LayerNorm: layer_norm,  # MLP's, which has no learned scale
}


def numpy_forward(layers: nn.Sequential) -> Callable[[Array], Array] | None:
    """The layers of a policy's MLP as a NumPy function (B, in) -> (B, out); None for other layers, and off the CPU.

    It shares memory with the parameters, so it computes what they do now, wherever an optimiser has moved them.
    """
    if any(type(layer) is not nn.Linear and type(layer) not in _NUMPY for layer in layers):
        return None
    parameters = list(layers.parameters())
    if any(parameter.device.type != "cpu" for parameter in parameters):
        return None
    addresses: list[int] = []
    steps: list[tuple[Array, Array] | Callable[[Array], Array]] = []

    def forward(x: Array) -> Array:
        if addresses != (now := [parameter.data_ptr() for parameter in parameters]):
            addresses[:], steps[:] = now, map(_in_numpy, layers)
        for step in steps:
            if isinstance(step, tuple):
                x = x @ step[0]
                x += step[1]
            else:
                x = step(x)
        return x

    return forward


def _in_numpy(layer: nn.Module) -> tuple[Array, Array] | Callable[[Array], Array]:
    if isinstance(layer, nn.Linear):
        return layer.weight.detach().numpy().T, layer.bias.detach().numpy()
    return _NUMPY[type(layer)]
