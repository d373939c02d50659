"""Networks: bodies (MLP, NatureCNN), policy heads and what stands on them. Everything takes raw observations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from imitate.datasets.environments import check_supported, space_from_json, space_to_json
from imitate.datasets.errors import InputError
from imitate.datasets.trajectory import Array
from imitate.normalize import RunningMoments

__all__ = [
    "MLP",
    "ActorPolicy",
    "Categorical",
    "Encoder",
    "Gaussian",
    "Head",
    "ValueNet",
    "orthogonal_",
    "seeded",
]

Head = Literal["categorical", "squashed", "clipped"]
Activation = Literal["tanh", "relu"]
_ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}
LOG_STD_RANGE = (-10.0, 2.0)


@dataclass(frozen=True, slots=True)
class Categorical:
    """Discrete actions 0 .. A-1 with logits (B, A)."""

    logits: Tensor

    def mode(self) -> Tensor:
        return self.logits.argmax(-1)

    def sample(self, generator: torch.Generator) -> Tensor:
        # The largest of logits plus Gumbel noise is a draw from the softmax, without computing it.
        noise = torch.empty_like(self.logits).exponential_(generator=generator)
        return (self.logits - noise.log()).argmax(-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        return -F.cross_entropy(self.logits, actions, reduction="none")  # (B,)

    def entropy(self) -> Tensor:
        log_probs = self.logits.log_softmax(-1)
        return -(log_probs.exp() * log_probs).sum(-1)  # (B,)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Diagonal Gaussian over *raw* actions u (B, D); the environment gets tanh(u) where `squashed`, else u clipped
    to [-1, 1], either scaled to its bounds. Log-probabilities are of tanh(u) in the one case, of u in the other."""

    mean: Tensor
    log_std: Tensor
    squashed: bool

    def mode(self) -> Tensor:
        return self.mean

    def sample(self, generator: torch.Generator) -> Tensor:
        """Reparameterised: gradients reach mean and log_std."""
        noise = torch.randn(self.mean.shape, generator=generator, device=self.mean.device)
        return self.mean + self.log_std.exp() * noise

    def log_prob(self, raw: Tensor) -> Tensor:
        z = (raw - self.mean) * torch.exp(-self.log_std)
        log_density = -0.5 * z**2 - self.log_std - 0.5 * math.log(2 * math.pi)
        if self.squashed:
            log_density = log_density - _log_tanh_slope(raw)
        return log_density.sum(-1)  # (B,)

    def entropy(self) -> Tensor:
        """Exact without squashing; with it, the correction is taken at the mean (there is no closed form)."""
        entropy = (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).expand_as(self.mean)
        if self.squashed:
            entropy = entropy + _log_tanh_slope(self.mean)
        return entropy.sum(-1)  # (B,)


def _log_tanh_slope(raw: Tensor) -> Tensor:
    """log(1 - tanh(u)^2) in a form that does not underflow (arXiv:1801.01290, appendix C)."""
    return 2.0 * (math.log(2.0) - raw - F.softplus(-2.0 * raw))


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


class ActorPolicy(nn.Module):
    """The policy of every learner: encoder and head. It knows its spaces, so it can be stored and read back.

    `forward` takes *prepared* observations (see `Encoder.prepare`) and gives a distribution over raw actions;
    `to_env` turns raw actions into the environment's; `act` does all of it on NumPy arrays.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        hidden: Sequence[int] = (64, 64),
        activation: Activation = "tanh",
        head: Head | None = None,
        log_std_init: float = 0.0,
        normalize_obs: bool = False,
    ) -> None:
        super().__init__()
        check_supported(observation_space, action_space)
        discrete = isinstance(action_space, spaces.Discrete)
        self.head: Head = head or ("categorical" if discrete else "clipped")
        if (self.head == "categorical") != discrete:
            raise InputError(f"policy head {self.head!r} does not fit action space {action_space}")
        self.observation_space, self.action_space = observation_space, action_space
        self.architecture: dict[str, Any] = {
            "hidden": list(hidden),
            "activation": activation,
            "head": self.head,
            "normalize_obs": normalize_obs,
        }
        self.encoder = Encoder(observation_space, hidden, activation, normalize=normalize_obs)
        self._generator = torch.Generator().manual_seed(0)
        if isinstance(action_space, spaces.Discrete):
            self.output = nn.Linear(self.encoder.features, int(action_space.n))
            return
        assert isinstance(action_space, spaces.Box)
        size = action_space.shape[0]
        self.output = nn.Linear(self.encoder.features, size)
        self.log_std = nn.Parameter(torch.full((size,), float(log_std_init)))
        self.register_buffer(
            "center", torch.as_tensor((action_space.high + action_space.low) / 2), persistent=False
        )
        self.register_buffer(
            "scale", torch.as_tensor((action_space.high - action_space.low) / 2), persistent=False
        )

    def forward(self, prepared: Tensor) -> Categorical | Gaussian:
        return self.distribution(self.encoder(prepared))

    def distribution(self, features: Tensor) -> Categorical | Gaussian:
        """What `forward` gives, from the encoder's features (B, F)."""
        out = self.output(features)
        if self.head == "categorical":
            return Categorical(out)
        return Gaussian(out, self.log_std.clamp(*LOG_STD_RANGE), self.head == "squashed")

    def to_env(self, raw: Tensor) -> Tensor:
        """Raw actions to the environment's units, differentiable where they are continuous."""
        if isinstance(self.action_space, spaces.Discrete):
            return raw + int(self.action_space.start)
        unit = raw.tanh() if self.head == "squashed" else raw.clamp(-1.0, 1.0)
        return self.center + self.scale * unit  # type: ignore[operator]

    def to_unit(self, actions: Tensor) -> Tensor:
        """The environment's actions to [-1, 1]^D, or to indices from 0."""
        if isinstance(self.action_space, spaces.Discrete):
            return actions.long() - int(self.action_space.start)
        return (actions - self.center) / self.scale  # type: ignore[operator]

    @torch.inference_mode()
    def act(self, obs: Array, *, deterministic: bool = False) -> Array:
        """Raw observations (N, *obs_shape) to the environment's actions (N, *action_shape). Samples come from a
        generator of the policy's own; `seed` sets it."""
        distribution = self(self.encoder.prepare(torch.as_tensor(obs, device=self.output.weight.device)))
        raw = distribution.mode() if deterministic else distribution.sample(self._generator)
        actions: Array = self.to_env(raw).cpu().numpy()
        return actions

    def seed(self, seed: int) -> None:
        """Seed the generator that `act` samples from."""
        self._generator = torch.Generator(self.output.weight.device).manual_seed(seed)

    def describe(self) -> dict[str, Any]:
        """Plain data that `from_description` makes the same architecture of."""
        spaces_json = {
            "observation_space": space_to_json(self.observation_space),
            "action_space": space_to_json(self.action_space),
        }
        return spaces_json | self.architecture

    @staticmethod
    def from_description(data: dict[str, Any]) -> ActorPolicy:
        arguments = dict(data)
        observation_space = space_from_json(arguments.pop("observation_space"))
        return ActorPolicy(observation_space, space_from_json(arguments.pop("action_space")), **arguments)


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
