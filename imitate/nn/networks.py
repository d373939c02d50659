"""Networks: bodies (MLP, NatureCNN), and the value function. Everything takes raw observations."""

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

from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.nn.normalize import RunningMoments

__all__ = [
    "MLP",
    "Activation",
    "Encoder",
    "ValueNet",
    "numpy_forward",
    "orthogonal_",
    "seeded",
]
Activation = Literal["tanh", "relu"]
_ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


class Encoder(nn.Module):
    """Raw observations (B, *obs_shape) to features (B, F): pixels by NatureCNN (Mnih et al. 2015) from values
    / 255, Discrete observations by one-hot, vectors standardised by running moments where `normalize`.

    in_bfloat16  a learner's choice, not stored with it: multiply in bfloat16, the weights stay float32
    """

    def __init__(
        self, space: spaces.Space[Any], hidden: Sequence[int], activation: Activation, *, normalize: bool
    ) -> None:
        super().__init__()
        if any(width < 1 for width in hidden):
            raise InputError(f"hidden layers need a width of at least 1, got {list(hidden)}")
        self.moments: RunningMoments | None = None
        self.is_image = isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8
        self.in_bfloat16 = False
        self.one_hot = int(space.n) if isinstance(space, spaces.Discrete) else 0
        if self.is_image:
            assert space.shape is not None
            self.net = _nature_cnn(space.shape)
            self.features = 512
            return
        inputs = self.one_hot or int(np.prod(space.shape or ()))
        if normalize and not self.one_hot:
            self.moments = RunningMoments((inputs,))
        self.net = MLP([inputs, *hidden], activation)
        self.features = hidden[-1] if hidden else inputs

    def prepare(self, obs: Tensor) -> Tensor:
        """The network's input for raw observations: what need not be computed again in every epoch."""
        if self.is_image:
            return obs
        if self.one_hot:
            return F.one_hot(obs.long(), self.one_hot).float()
        x = obs.flatten(1).float()
        return x if self.moments is None else self.moments(x)

    def observe(self, obs: Tensor) -> None:
        """Take raw observations (B, *obs_shape) into the running moments, if there are any."""
        if self.moments is not None:
            self.moments.update(obs.flatten(1))

    def forward(self, prepared: Tensor) -> Tensor:
        if self.is_image:  # channels last: a fifth less time for a gradient step on a CPU
            dtype = torch.bfloat16 if self.in_bfloat16 else torch.float32
            prepared = prepared.contiguous(memory_format=torch.channels_last).to(dtype).div_(255.0)
        if not self.in_bfloat16:
            return self.net(prepared)  # type: ignore[no-any-return]
        with torch.autocast(prepared.device.type, torch.bfloat16):
            return self.net(prepared).float()  # type: ignore[no-any-return]


class ValueNet(nn.Module):
    """V(s) from prepared observations (B, ...) to (B,), with a body of its own unless it is handed one."""

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
    """Linear layers of these sizes, each followed by the activation."""

    def __init__(self, sizes: Sequence[int], activation: Activation) -> None:
        linear = [nn.Linear(inputs, outputs) for inputs, outputs in itertools.pairwise(sizes)]
        super().__init__(
            *itertools.chain.from_iterable((layer, _ACTIVATIONS[activation]()) for layer in linear)
        )
        self._linear = linear
        self._activation = torch.tanh if activation == "tanh" else torch.relu

    def forward(self, x: Tensor) -> Tensor:
        """(B, sizes[0]) to (B, sizes[-1]). Calls of modules would take as long as the arithmetic of small layers."""
        for layer in self._linear:
            x = self._activation(F.linear(x, layer.weight, layer.bias))
        return x


def orthogonal_(network: nn.Module, output: nn.Linear, *, output_gain: float) -> None:
    """Orthogonal weights with gain sqrt(2), `output_gain` for the last layer, zero biases (arXiv:2006.05990)."""
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(module.weight, output_gain if module is output else math.sqrt(2))
            assert module.bias is not None
            nn.init.zeros_(module.bias)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Networks made inside get weights that depend on `seed` alone; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _nature_cnn(shape: Sequence[int]) -> nn.Sequential:
    convolutions = nn.Sequential(
        nn.Conv2d(shape[0], 32, 8, stride=4), nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=1), nn.ReLU(),
        nn.Flatten(),
    )  # fmt: skip
    with torch.no_grad():
        flat = convolutions(torch.zeros(1, *shape)).shape[1]
    return nn.Sequential(*convolutions, nn.Linear(flat, 512), nn.ReLU())


# In place: what goes in is the output of a linear layer.
_NUMPY: dict[type[nn.Module], Callable[[Array], Array]] = {
    nn.ReLU: lambda x: np.maximum(x, 0.0, out=x),
    nn.Tanh: lambda x: np.tanh(x, out=x),
}


def numpy_forward(layers: nn.Sequential) -> Callable[[Array], Array] | None:
    """The function (B, in) -> (B, out) of linear layers and activations in NumPy, for float32 and networks on the CPU;
    None for others.

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
