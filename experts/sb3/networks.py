"""An SB3 agent's networks, rebuilt from its tensors alone.

SB3 names parameters by position (`mlp_extractor.policy_net.0.weight`), so names and shapes determine the layers. Only
activations, squashing and the like must be given (`PolicySpec`). Every network takes *raw* observations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.errors import InputError
from imitate.experts.sb3.layers import Columns, Combined, Flat, Image, MeanOverQuantiles, Normalise, OneHot
from imitate.experts.sb3.vecnormalize import Normalisation

__all__ = ["ACTIVATIONS", "Networks", "PolicySpec", "build_networks"]

ACTIVATIONS: dict[str, type[nn.Module]] = {
    name: getattr(nn, name)
    for name in (
        "Tanh", "ReLU", "ELU", "LeakyReLU", "GELU", "SiLU", "Sigmoid", "Softplus", "SELU", "CELU", "Mish",
        "Softsign", "Hardtanh", "Hardswish", "ReLU6", "LogSigmoid", "Tanhshrink", "Softshrink", "Identity",
    )
}  # fmt: skip


@dataclass(frozen=True)
class PolicySpec:
    """The options that can't be seen from the tensors.

    squash_output     actions go through tanh and are scaled to the bounds; otherwise they are clipped
    clip_mean         bound of the mean before tanh, for SAC and TQC with gSDE
    use_expln         gSDE's standard deviation grows linearly above 1 (arXiv:2005.05719)
    exploration_rate  epsilon of DQN and QR-DQN when not deterministic
    columns           sources of the inputs, for `layers.Columns`; None: the observation as it is
    """

    algorithm: str
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    activation: str
    squash_output: bool
    clip_mean: float = 2.0
    use_expln: bool = False
    normalize_images: bool = True
    exploration_rate: float = 0.0
    columns: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Networks:
    """The parts of an agent.

    trunk            observations -> (N, latent)
    head             latent -> (N, actions): logits, Q values, or mean actions before tanh and bounds
    log_std          of the actions, (actions,); a layer on the latent (SAC, TQC); or of gSDE's weights, (latent,
                     actions or 1)
    sde_trunk        observations -> (N, latent) that gSDE's weights multiply, if that isn't the trunk
    value            observations -> (N, 1), for PPO, A2C and TRPO
    critic_features  observations -> (N, features)
    critics          each (N, features + actions in [-1, 1]) -> (N, 1 or quantiles)
    """

    trunk: nn.Sequential
    head: nn.Sequential
    log_std: nn.Linear | nn.Parameter | None = None
    sde_trunk: nn.Sequential | None = None
    value: nn.Sequential | None = None
    critic_features: nn.Sequential | None = None
    critics: nn.ModuleList | None = None


def build_networks(
    spec: PolicySpec, tensors: Mapping[str, Tensor], normalisation: Normalisation | None
) -> Networks:
    """Rebuild the networks of a policy from its `state_dict`, `tensors`.

    Raises InputError if a tensor is missing or left over (such as a layer that the policy class doesn't have, an LSTM
    for example), and if shapes don't fit each other or the spaces.
    """
    parts = _Parts(spec, tensors, normalisation)
    try:
        if parts.has("mlp_extractor.") or parts.has("value_net."):
            networks = _actor_and_value(parts)
        elif parts.has("action_net."):
            networks = _ars(parts)
        elif parts.has("q_net.") or parts.has("quantile_net."):
            networks = _action_values(parts)
        elif parts.has("actor."):
            networks = _actor_and_critics(parts)
        else:
            raise InputError(f"no actor among the stored weights: {', '.join(sorted(tensors))[:120]}")
        with torch.inference_mode():
            _check_shapes(networks, spec)
    except (RuntimeError, IndexError) as error:
        problem = str(error).split("\n")[0]
        raise InputError(f"the stored weights don't fit {spec.observation_space}: {problem}") from error
    parts.check_all_used()
    return networks


def _check_shapes(networks: Networks, spec: PolicySpec) -> None:
    """Raise InputError unless the outputs fit the actions, and RuntimeError unless the parts fit each other."""
    obs, actions = _one_observation(spec.observation_space), _num_outputs(spec.action_space)
    latent = networks.trunk(obs)
    outputs = networks.head(latent).shape[-1]
    if outputs != actions:
        raise InputError(
            f"the stored policy gives {outputs} outputs: too many or too few for {spec.action_space}"
        )
    log_std = networks.log_std
    # Where shapes don't fit, `expand` raises.
    if isinstance(log_std, nn.Linear):
        log_std(latent).expand(1, actions)
    elif log_std is not None:
        noisy = latent if networks.sde_trunk is None else networks.sde_trunk(obs)
        (log_std if log_std.ndim == 1 else noisy @ log_std).expand(1, actions)
    if networks.value is not None:
        networks.value(obs).expand(1, 1)
    if networks.critics is not None and networks.critic_features is not None:
        inputs = torch.cat([networks.critic_features(obs), torch.zeros(1, actions)], 1)
        for critic in networks.critics:
            critic(inputs)


def _actor_and_value(parts: _Parts) -> Networks:
    """PPO, A2C, TRPO."""
    features = "pi_" if parts.has("pi_features_extractor.") else ""
    value_features = "vf_" if parts.has("vf_features_extractor.") else ""
    shared = parts.mlp("mlp_extractor.shared_net.", last=True)  # in SB3 before 2.0
    actor = [*parts.encoder(features), *shared, *parts.mlp("mlp_extractor.policy_net.", last=True)]
    critic = [*parts.encoder(value_features), *shared, *parts.mlp("mlp_extractor.value_net.", last=True)]
    head, log_std = parts.linear("action_net."), parts.optional("log_std")
    # SB3 1.x could feed gSDE's noise from separate layers or from the observation (`sde_net_arch`).
    sde = parts.mlp("sde_features_extractor.", last=True)
    own_sde = log_std is not None and log_std.ndim == 2 and (sde or len(log_std) != head.in_features)
    return Networks(
        nn.Sequential(*actor),
        nn.Sequential(head),
        log_std=log_std,
        sde_trunk=nn.Sequential(*parts.encoder(features), *sde) if own_sde else None,
        value=nn.Sequential(*critic, parts.linear("value_net.")),
    )


def _ars(parts: _Parts) -> Networks:
    one_layer = parts.has("action_net.weight")
    layers = [parts.linear("action_net.")] if one_layer else parts.mlp("action_net.", last=False)
    return Networks(nn.Sequential(*parts.encoder("")), nn.Sequential(*layers))


def _action_values(parts: _Parts) -> Networks:
    """DQN, QR-DQN."""
    name = "q_net" if parts.has("q_net.") else "quantile_net"
    trunk = [*parts.encoder(f"{name}."), *parts.mlp(f"{name}.{name}.", last=False)]
    head = [] if name == "q_net" else [MeanOverQuantiles(_num_outputs(parts.spec.action_space))]
    return Networks(nn.Sequential(*trunk), nn.Sequential(*head))


def _actor_and_critics(parts: _Parts) -> Networks:
    """SAC, TQC, TD3, DDPG."""
    trunk, head = parts.encoder("actor."), parts.mlp("actor.mu.", last=False)
    log_std: nn.Linear | nn.Parameter | None = None
    if parts.has("actor.log_std"):  # SAC, TQC
        trunk += parts.mlp("actor.latent_pi.", last=True)
        if head:  # gSDE: a layer and its clipping instead of just the layer
            head.append(nn.Hardtanh(-parts.spec.clip_mean, parts.spec.clip_mean))
        else:
            head = [parts.linear("actor.mu.")]
        log_std = parts.optional("actor.log_std")
        log_std = parts.linear("actor.log_std.") if log_std is None else log_std
    count = sum(parts.has(f"critic.qf{n}.") for n in range(100))
    critics = nn.ModuleList(nn.Sequential(*parts.mlp(f"critic.qf{n}.", last=False)) for n in range(count))
    return Networks(
        nn.Sequential(*trunk),
        nn.Sequential(*head),
        log_std=log_std,
        critic_features=nn.Sequential(*parts.encoder("critic.")) if count else None,
        critics=critics if count else None,
    )


class _Parts:
    """Makes layers from the tensors and records which were used, so that unused ones are found."""

    def __init__(
        self, spec: PolicySpec, tensors: Mapping[str, Tensor], normalisation: Normalisation | None
    ) -> None:
        self.spec, self._tensors, self._normalisation = spec, tensors, normalisation
        self._used: set[str] = set()

    def has(self, prefix: str) -> bool:
        return any(name.startswith(prefix) for name in self._tensors)

    def take(self, name: str) -> nn.Parameter:
        if name not in self._tensors:
            raise InputError(
                f"the archive lacks the tensor {name!r}: not a policy of the class that it names"
            )
        self._used.add(name)
        return nn.Parameter(self._tensors[name].detach().float().cpu().contiguous(), requires_grad=False)

    def optional(self, name: str) -> nn.Parameter | None:
        return self.take(name) if name in self._tensors else None

    def linear(self, prefix: str) -> nn.Linear:
        weight, bias = self.take(f"{prefix}weight"), self.optional(f"{prefix}bias")
        if weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
            raise InputError(f"{prefix}weight is not a linear layer: shape {tuple(weight.shape)}")
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
        layer.weight = weight
        if bias is not None:
            layer.bias = bias
        return layer

    def convolution(self, prefix: str, stride: int) -> nn.Conv2d:
        weight = self.take(f"{prefix}weight")
        if weight.ndim != 4:
            raise InputError(f"{prefix}weight is not a convolution: shape {tuple(weight.shape)}")
        kernel = (weight.shape[2], weight.shape[3])
        layer = nn.Conv2d(weight.shape[1], weight.shape[0], kernel, stride=stride, device="meta")
        layer.weight, layer.bias = weight, self.take(f"{prefix}bias")
        return layer

    def mlp(self, prefix: str, *, last: bool) -> list[nn.Module]:
        """Linear layers `prefix`0, 2, 4, ... with activations in between and, if `last`, after the last."""
        pattern = re.compile(re.escape(prefix) + r"(\d+)\.weight")
        places = sorted(int(match[1]) for name in self._tensors if (match := pattern.fullmatch(name)))
        if places != list(range(0, 2 * len(places), 2)):
            raise InputError(f"{prefix}{places} is no plain MLP: normalisation or dropout is not supported")
        activation = ACTIVATIONS[self.spec.activation]
        layers = [layer for place in places for layer in (self.linear(f"{prefix}{place}."), activation())]
        return layers if last else layers[:-1]

    def encoder(self, prefix: str) -> list[nn.Module]:
        """Raw observations -> (N, features): normalised, then flattened, one-hot encoded or through SB3's NatureCNN."""
        space, layers = self.spec.observation_space, list[nn.Module]()
        normalisation = self._normalisation
        mean = None if normalisation is None else normalisation.mean
        prefix = f"{prefix}features_extractor."
        if isinstance(space, spaces.Dict):
            if mean is not None and self.has(f"{prefix}extractors."):
                raise InputError("normalised dict observations with images are not supported")
            encoders = {
                key: self._encoder_of(inner, f"{prefix}extractors.{key}.")
                for key, inner in space.spaces.items()
            }
            layers.append(Combined({key: nn.Sequential(*each) for key, each in encoders.items()}))
        if self.spec.columns is not None:
            layers.append(Columns(self.spec.columns))
        if normalisation is not None and mean is not None:
            shape = (spaces.flatdim(space),) if isinstance(space, spaces.Dict) else space.shape
            if mean.shape != shape:
                raise InputError(
                    f"the normalisation is for observations {mean.shape}, the policy's are {shape}"
                )
            layers.append(Normalise(normalisation))
        return layers if isinstance(space, spaces.Dict) else [*layers, *self._encoder_of(space, prefix)]

    def _encoder_of(self, space: spaces.Space[Any], prefix: str) -> list[nn.Module]:
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            return [OneHot(space)]
        if isinstance(space, spaces.MultiBinary):
            return [Flat()]
        if not isinstance(space, spaces.Box):
            raise InputError(f"observation space {space} is not supported")
        if self.has(f"{prefix}cnn."):
            cnn = [
                self.convolution(f"{prefix}cnn.{place}.", stride)
                for place, stride in ((0, 4), (2, 2), (4, 1))
            ]
            layers: list[nn.Module] = [Image(cnn[0].in_channels, normalize=self.spec.normalize_images)]
            layers += [layer for convolution in cnn for layer in (convolution, nn.ReLU())]
            return [*layers, Flat(), self.linear(f"{prefix}linear.0."), nn.ReLU()]
        is_bytes = space.dtype == np.uint8 and (space.low == 0).all() and (space.high == 255).all()
        if len(space.shape) == 3 and is_bytes:
            return [Image(space.shape[0], normalize=self.spec.normalize_images), Flat()]
        return [Flat()]

    def check_all_used(self) -> None:
        # Target networks don't act, and a shared feature extractor is stored under several names.
        def same(name: str) -> str:
            return re.sub(r"^(pi_|vf_)features_extractor\.", "features_extractor.", name)

        used = {same(name) for name in self._used}
        left = sorted(name for name in self._tensors if same(name) not in used and "_target." not in name)
        if left:
            raise InputError(f"the policy has layers that can't be rebuilt without its code: {left[:3]} ...")


def _one_observation(space: spaces.Space[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _one_observation(inner) for key, inner in space.spaces.items()}
    whole = space.dtype is not None and space.dtype.kind != "f"
    return torch.zeros((1, *(space.shape or ())), dtype=torch.int64 if whole else torch.float32)


def _num_outputs(space: spaces.Space[Any]) -> int:
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.Box):
        return int(np.prod(space.shape))
    raise InputError(f"action space {space} is not supported: wanted Discrete or Box")
