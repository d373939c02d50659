"""An SB3 agent's networks, rebuilt from its tensors alone.

SB3 names parameters by place (`mlp_extractor.policy_net.0.weight`), so names and shapes say what the layers are; only
activations and squashing have to be told (`PolicySpec`). Each network is an `nn.Sequential` from *raw* observations;
small vector ones are also compiled to NumPy, which costs a third of torch's overhead a call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.datasets.errors import InputError
from imitate.datasets.trajectory import Array
from imitate.experts.vecnormalize import Normalisation

__all__ = ["ACTIVATIONS", "Networks", "PolicySpec", "build_networks", "compiled"]

ACTIVATIONS: dict[str, type[nn.Module]] = {
    name: getattr(nn, name)
    for name in ("Tanh", "ReLU", "ELU", "LeakyReLU", "GELU", "SiLU", "Sigmoid", "Softplus", "SELU", "CELU", "Mish", "Softsign",
                 "Hardtanh", "Hardswish", "ReLU6", "LogSigmoid", "Tanhshrink", "Softshrink", "Identity")
}  # fmt: skip


@dataclass(frozen=True)
class PolicySpec:
    """What the tensors don't say.

    squash_output     actions go through tanh and are stretched to the action bounds (else they are clipped to them)
    clip_mean         bound of the mean before tanh, of SAC and TQC with gSDE
    use_expln         gSDE's standard deviation grows linearly above 1 (arXiv:2005.05719)
    exploration_rate  of DQN and QR-DQN when not deterministic
    time_feature      observations get a last column "time left", held at 0 as in sb3-contrib's test mode
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
    time_feature: bool = False


@dataclass(frozen=True)
class Networks:
    """The parts of an agent, from raw observations.

    trunk    observations -> (N, latent)
    head     latent -> (N, actions) logits, Q values, or mean actions before tanh and bounds
    log_std  of the actions (actions,), or from latent by a layer (SAC, TQC), or of gSDE's weights (latent, actions or 1)
    sde_trunk  observations -> (N, latent) that gSDE's weights multiply, where that isn't the trunk
    value    observations -> (N, 1), of PPO, A2C and TRPO
    critics  each of (N, critic_features + actions in [-1, 1]) -> (N, 1 or quantiles)
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
    """The networks that `tensors`, a policy's `state_dict`, belong to.

    Raises InputError where a tensor is missing, left over (a layer that this policy class doesn't have, say an LSTM),
    or where the shapes fit neither each other nor the spaces.
    """
    weights = _Weights(tensors)
    try:
        networks = _build(spec, weights, normalisation)
        with torch.inference_mode():
            rows = networks.head(networks.trunk(_zeros(spec))).shape[-1]
    except (RuntimeError, IndexError) as error:
        problem = str(error).split("\n")[0]
        raise InputError(
            f"the stored weights don't fit observations {spec.observation_space}: {problem}"
        ) from error
    wanted = _num_outputs(spec)
    if rows != wanted:
        raise InputError(f"the stored policy gives {rows} outputs, but {spec.action_space} takes {wanted}")
    weights.check_all_used()
    return networks


def _build(spec: PolicySpec, weights: _Weights, normalisation: Normalisation | None) -> Networks:
    def encoder(*prefixes: str) -> list[nn.Module]:
        prefix = next((p for p in prefixes if weights.has(p)), prefixes[-1])
        return _encoder(spec, weights, f"{prefix}features_extractor.", normalisation)

    def mlp(prefix: str, *, last: bool) -> list[nn.Module]:
        return weights.mlp(prefix, ACTIVATIONS[spec.activation], last)

    if weights.has("mlp_extractor.") or weights.has("value_net."):  # PPO, A2C, TRPO
        shared = mlp("mlp_extractor.shared_net.", last=True)  # of SB3 before 2.0
        trunk = [*encoder("pi_", ""), *shared, *mlp("mlp_extractor.policy_net.", last=True)]
        value = [
            *encoder("vf_", ""),
            *shared,
            *mlp("mlp_extractor.value_net.", last=True),
            weights.linear("value_net."),
        ]
        sde = mlp("sde_features_extractor.", last=True)
        return Networks(
            nn.Sequential(*trunk),
            nn.Sequential(weights.linear("action_net.")),
            log_std=weights.optional_parameter("log_std"),
            sde_trunk=nn.Sequential(*encoder("pi_", ""), *sde) if sde else None,
            value=nn.Sequential(*value),
        )
    if weights.has("action_net."):  # ARS
        linear = (
            [weights.linear("action_net.")]
            if weights.has("action_net.weight")
            else mlp("action_net.", last=False)
        )
        return Networks(nn.Sequential(*encoder("")), nn.Sequential(*linear))
    if weights.has("q_net."):  # DQN
        return Networks(nn.Sequential(*encoder("q_net."), *mlp("q_net.q_net.", last=False)), nn.Sequential())
    if weights.has("quantile_net."):  # QR-DQN
        assert isinstance(spec.action_space, spaces.Discrete)
        layers = [*encoder("quantile_net."), *mlp("quantile_net.quantile_net.", last=False)]
        return Networks(nn.Sequential(*layers), nn.Sequential(_MeanOverQuantiles(int(spec.action_space.n))))
    if not weights.has("actor."):
        raise InputError(f"no actor among the stored weights: {', '.join(sorted(weights.tensors))[:120]}")

    count = len({name.split(".")[1] for name in weights.tensors if re.match(r"critic\.qf\d+\.", name)})
    critics = nn.ModuleList(nn.Sequential(*mlp(f"critic.qf{n}.", last=False)) for n in range(count))
    trunk = encoder("actor.")
    log_std: nn.Linear | nn.Parameter | None = None
    if weights.has("actor.latent_pi.") or weights.has("actor.log_std"):  # SAC, TQC
        trunk += mlp("actor.latent_pi.", last=True)
        gsde = weights.has("actor.mu.0.")
        head: list[nn.Module] = [weights.linear("actor.mu.0." if gsde else "actor.mu.")]
        head += [nn.Hardtanh(-spec.clip_mean, spec.clip_mean)] if gsde else []
        log_std = weights.optional_parameter("actor.log_std")
        log_std = weights.linear("actor.log_std.") if log_std is None else log_std
    else:  # TD3, DDPG
        head = mlp("actor.mu.", last=False)
    features = encoder("critic.")
    return Networks(
        nn.Sequential(*trunk),
        nn.Sequential(*head),
        log_std=log_std,
        critic_features=nn.Sequential(*features),
        critics=critics if count else None,
    )


class _Weights:
    """The tensors, each noted when taken, so that what nobody took shows."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = dict(tensors)
        self._used: set[str] = set()

    def has(self, prefix: str) -> bool:
        return any(name.startswith(prefix) for name in self.tensors)

    def take(self, name: str) -> nn.Parameter:
        if name not in self.tensors:
            raise InputError(
                f"the archive lacks the tensor {name!r}: not a policy of the class that it names"
            )
        self._used.add(name)
        return nn.Parameter(self.tensors[name].detach().float().cpu().contiguous(), requires_grad=False)

    def optional_parameter(self, name: str) -> nn.Parameter | None:
        return self.take(name) if name in self.tensors else None

    def linear(self, prefix: str) -> nn.Linear:
        weight, bias = self.take(f"{prefix}weight"), self.optional_parameter(f"{prefix}bias")
        if weight.ndim != 2:
            raise InputError(f"{prefix}weight is not a linear layer: shape {tuple(weight.shape)}")
        layer: nn.Linear = nn.utils.skip_init(
            nn.Linear, weight.shape[1], weight.shape[0], bias=bias is not None
        )
        layer.weight = weight
        if bias is not None:
            layer.bias = bias
        return layer

    def conv(self, prefix: str, stride: int) -> nn.Conv2d:
        weight = self.take(f"{prefix}weight")
        layer: nn.Conv2d = nn.utils.skip_init(
            nn.Conv2d, weight.shape[1], weight.shape[0], tuple(weight.shape[2:]), stride=stride
        )
        layer.weight, layer.bias = weight, self.take(f"{prefix}bias")
        return layer

    def mlp(self, prefix: str, activation: type[nn.Module], last: bool) -> list[nn.Module]:
        """Linear layers at `prefix`0, 2, 4, ... with activations between; `last`: one after the last layer too."""
        pattern = re.compile(re.escape(prefix) + r"(\d+)\.weight")
        places = sorted(int(match[1]) for name in self.tensors if (match := pattern.fullmatch(name)))
        if places != list(range(0, 2 * len(places), 2)):
            raise InputError(
                f"the layers {prefix}{places} are no plain MLP (normalisation or dropout between?): not supported"
            )
        layers = [layer for place in places for layer in (self.linear(f"{prefix}{place}."), activation())]
        return layers if last else layers[:-1]

    def check_all_used(self) -> None:
        # Target networks don't act, and an agent with one feature extractor stores it under several names.
        aliases = r"(actor|critic|q_net|quantile_net)_target\.|(pi_|vf_)?features_extractor\."
        left = sorted(name for name in self.tensors.keys() - self._used if not re.match(aliases, name))
        if left:
            raise InputError(
                f"the policy has layers that can't be rebuilt without its code: {', '.join(left[:3])} ..."
            )


def _encoder(
    spec: PolicySpec, weights: _Weights, prefix: str, normalisation: Normalisation | None
) -> list[nn.Module]:
    """Raw observations to features: normalise, then flatten, one-hot or SB3's NatureCNN."""
    space = spec.observation_space
    layers: list[nn.Module] = []
    if isinstance(space, spaces.Dict):
        layers.append(_Combined(spec, weights, prefix))
        if weights.has(f"{prefix}extractors.") and normalisation and normalisation.mean is not None:
            raise InputError("normalised dict observations with images are not supported")
    if spec.time_feature:
        layers.append(_TimeFeature(spaces.flatdim(space)))
    if normalisation is not None and normalisation.mean is not None:
        layers.append(_Normalise(normalisation))
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        layers.append(_OneHot(space))
    elif isinstance(space, spaces.Box):
        layers += _box_encoder(space, weights, prefix, spec.normalize_images)
    elif isinstance(space, spaces.MultiBinary):
        layers.append(_Flat())
    elif not isinstance(space, spaces.Dict):
        raise InputError(f"observation space {space} is not supported")
    return layers


def _box_encoder(
    space: spaces.Box, weights: _Weights, prefix: str, normalize_images: bool
) -> list[nn.Module]:
    cnn = weights.has(f"{prefix}cnn.")
    image = space.dtype == np.uint8 and len(space.shape) == 3
    layers: list[nn.Module] = [_Image(space.shape, normalize_images)] if image or cnn else []
    if not cnn:
        return [*layers, _Flat()]
    for place, stride in ((0, 4), (2, 2), (4, 1)):
        layers += [weights.conv(f"{prefix}cnn.{place}.", stride), nn.ReLU()]
    return [*layers, _Flat(), weights.linear(f"{prefix}linear.0."), nn.ReLU()]


class _Normalise(nn.Module):
    """In float64, as SB3 does: a variance near 0 leaves nothing of a difference in float32."""

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


class _Flat(nn.Module):
    def forward(self, obs: Tensor) -> Tensor:
        return obs.flatten(1).float()


class _TimeFeature(nn.Module):
    def __init__(self, wanted: int) -> None:
        super().__init__()
        self.wanted = wanted

    def forward(self, obs: Tensor) -> Tensor:
        return nn.functional.pad(obs, (0, self.wanted - obs.shape[-1]))


class _Image(nn.Module):
    """uint8 images to float from 0 to 1, channels first, as SB3's VecTransposeImage gave them in training."""

    def __init__(self, shape: tuple[int, ...], normalize: bool) -> None:
        super().__init__()
        self.shape, self.scale = shape, 255.0 if normalize else 1.0

    def forward(self, obs: Tensor) -> Tensor:
        if tuple(obs.shape[1:]) != self.shape and len(self.shape) == 3:
            obs = obs.permute(0, 3, 1, 2)
        return obs.float() / self.scale


class _OneHot(nn.Module):
    def __init__(self, space: spaces.Discrete | spaces.MultiDiscrete) -> None:
        super().__init__()
        self.sizes = [int(n) for n in np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec)]

    def forward(self, obs: Tensor) -> Tensor:
        columns = obs.long().reshape(len(obs), len(self.sizes)).unbind(1)
        one_hot = [nn.functional.one_hot(column, n) for column, n in zip(columns, self.sizes, strict=True)]
        return torch.cat(one_hot, 1).float()


class _Combined(nn.Module):
    """Dict observations: each key encoded, then side by side in sorted order, as SB3's CombinedExtractor."""

    def __init__(self, spec: PolicySpec, weights: _Weights, prefix: str) -> None:
        super().__init__()
        assert isinstance(spec.observation_space, spaces.Dict)
        self.keys = sorted(spec.observation_space.spaces)
        self.encoders = nn.ModuleList(
            nn.Sequential(*_encoder(replace(spec, observation_space=spec.observation_space[key], time_feature=False),
                                    weights, f"{prefix}extractors.{key}.", None))
            for key in self.keys
        )  # fmt: skip

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        return torch.cat(
            [encode(obs[key]).float() for key, encode in zip(self.keys, self.encoders, strict=True)], 1
        )


class _MeanOverQuantiles(nn.Module):
    def __init__(self, num_actions: int) -> None:
        super().__init__()
        self.num_actions = num_actions

    def forward(self, quantiles: Tensor) -> Tensor:
        return quantiles.unflatten(-1, (-1, self.num_actions)).mean(-2)  # (N, actions)


def _zeros(spec: PolicySpec) -> Any:
    def one(space: spaces.Space[Any]) -> Any:
        if isinstance(space, spaces.Dict):
            return {key: one(inner) for key, inner in space.spaces.items()}
        assert space.dtype is not None
        return torch.zeros(
            (1, *(space.shape or ())), dtype=torch.float32 if space.dtype.kind == "f" else torch.int64
        )

    return one(spec.observation_space)


def _num_outputs(spec: PolicySpec) -> int:
    if isinstance(spec.action_space, spaces.Discrete):
        return int(spec.action_space.n)
    if isinstance(spec.action_space, spaces.Box):
        return int(np.prod(spec.action_space.shape))
    raise InputError(f"action space {spec.action_space} is not supported: wanted Discrete or Box")


def compiled(network: nn.Sequential) -> Callable[[Any], Array]:
    """The network as a function of arrays (N, *) -> (N, *): plain NumPy where its layers allow, else through torch."""
    steps = [_numpy_step(layer) for layer in network]
    if all(step is not None for step in steps):

        def through_numpy(values: Any) -> Array:
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # absurd observations are the environment's affair
                for step in steps:
                    values = step(values)  # type: ignore[misc]
            return np.asarray(values)

        return through_numpy

    def through_torch(values: Any) -> Array:
        with torch.inference_mode():
            return np.asarray(network(_to_tensor(values)))

    return through_torch


def _to_tensor(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {key: _to_tensor(value) for key, value in values.items()}
    return torch.as_tensor(np.ascontiguousarray(values))


def _numpy_step(layer: nn.Module) -> Callable[[Array], Array] | None:
    if isinstance(layer, nn.Linear):
        weight = np.ascontiguousarray(layer.weight.numpy().T)
        bias = None if layer.bias is None else layer.bias.numpy()
        if bias is None:
            return lambda x: x @ weight
        return lambda x: np.add(y := x @ weight, bias, out=y)
    if isinstance(layer, nn.Tanh):
        return np.tanh
    if isinstance(layer, nn.ReLU):
        zero = np.float32(0)
        return lambda x: np.maximum(x, zero)
    if isinstance(layer, nn.Hardtanh):
        low, high = layer.min_val, layer.max_val
        return lambda x: np.minimum(np.maximum(x, low), high)
    if isinstance(layer, _Flat):
        return lambda x: x.reshape(len(x), -1).astype(np.float32, copy=False)
    if isinstance(layer, _MeanOverQuantiles):
        num_actions = layer.num_actions
        return lambda x: x.reshape(len(x), -1, num_actions).mean(1)
    if isinstance(layer, _Normalise):
        mean, scale, clip = layer.mean.numpy(), layer.scale.numpy(), layer.clip
        return lambda x: np.minimum(np.maximum((x - mean) / scale, -clip), clip).astype(np.float32)
    return None
