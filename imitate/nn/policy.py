"""A policy: network, distribution and action space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import msgspec
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.configs.shared import LOG_STD_RANGE, Head, Widths
from imitate.datasets.trajectory import tensor_of
from imitate.envs.fields import as_fields, batch_of
from imitate.envs.seeds import check_seed
from imitate.envs.spaces import (
    Array,
    center_and_scale,
    check_supported,
    space_from_json,
    space_to_json,
    values_of,
)
from imitate.errors import InputError
from imitate.nn.distributions import Categorical, Choices, Distribution, Gaussian
from imitate.nn.fields import FieldEncoder
from imitate.nn.networks import Activation, Encoder, seeded
from imitate.nn.stacked import CriticShape, Stack

__all__ = ["ActorPolicy"]


class ActorPolicy(nn.Module):
    """The policy of every learner: encoder and head. It knows its spaces, so it can be stored and loaded.

    `forward` takes *prepared* observations (see `Encoder.prepare`) and gives a distribution over raw actions;
    `to_env` turns raw actions into the environment's; `act` does all of it on NumPy arrays.
    """

    critic: Stack | None
    first: Tensor  # (D,) of MultiDiscrete and MultiBinary actions, the first value of each part

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
        state_std: bool = False,
        layer_norm: bool = False,
        critic: CriticShape | None = None,
    ) -> None:
        """state_std   the standard deviation of a Gaussian head is an output of the network, and no parameter
        layer_norm  normalise before each activation of a perceptron, without a learned scale
        critic      action values to be stored with the policy, of prepared observations beside actions in [-1, 1]
        """
        super().__init__()
        check_supported(observation_space, action_space)
        observation_space, discrete = as_fields(observation_space), values_of(action_space)
        self.head: Head = head or ("clipped" if discrete is None else "categorical")
        wanted = ("squashed", "clipped") if discrete is None else ("categorical",)
        if self.head not in wanted:
            raise InputError(
                f"policy head {self.head!r} does not fit action space {action_space}: wanted {' or '.join(wanted)}"
            )
        self.observation_space, self.action_space = observation_space, action_space
        self.architecture: dict[str, Any] = (
            {
                "hidden": list(hidden),
                "activation": activation,
                "head": self.head,
                "normalize_obs": normalize_obs,
            }
            | ({"state_std": True} if state_std else {})
            | ({"layer_norm": True} if layer_norm else {})
            | ({} if critic is None else {"critic": asdict(critic)})
        )
        self.state_std = state_std
        plain = isinstance(observation_space, spaces.Box | spaces.Discrete)
        encoder: Any = Encoder if plain else FieldEncoder
        self.encoder = encoder(
            observation_space, hidden, activation, normalize=normalize_obs, layer_norm=layer_norm
        )
        self._generator = torch.Generator().manual_seed(0)
        self.critic = None
        if discrete is not None:
            first, counts = discrete
            self.sizes = tuple(np.ravel(counts).tolist())
            self.output = nn.Linear(self.encoder.features, sum(self.sizes))
            self.register_buffer("first", torch.as_tensor(first), persistent=False)
            return
        assert isinstance(action_space, spaces.Box)
        size = action_space.shape[0]
        self.output = nn.Linear(self.encoder.features, 2 * size if state_std else size)
        if not state_std:
            # Not by `project_`: on the device `meta`, which describes stored policies, it imports torch's compiler.
            low, high = LOG_STD_RANGE
            self.log_std = nn.Parameter(torch.full((size,), min(max(float(log_std_init), low), high)))
        for name, numbers in zip(("center", "scale"), center_and_scale(action_space), strict=True):
            self.register_buffer(name, torch.as_tensor(numbers), persistent=False)
        if critic is not None:
            self.critic = critic.stack(self.encoder.inputs + size)

    def forward(self, prepared: Tensor) -> Distribution:
        return self.distribution(self.encoder(prepared))

    def distribution(self, features: Tensor) -> Distribution:
        """The distribution for the encoder's features (B, F)."""
        return self.of_outputs(self.output(features))

    def of_outputs(self, out: Tensor) -> Distribution:
        """The distribution for the network's outputs (B, A)."""
        if isinstance(self.action_space, spaces.Discrete):
            return Categorical(out)
        if self.head == "categorical":
            return Choices(out, self.sizes)
        return self.gaussian(out)

    def gaussian(self, out: Tensor) -> Gaussian:
        """The distribution of continuous actions for the network's outputs (B, A)."""
        if not self.state_std:
            return Gaussian(out, self.log_std, self.head == "squashed")
        mean, log_std = out.chunk(2, -1)
        return Gaussian(mean, log_std.clamp(*LOG_STD_RANGE), self.head == "squashed")

    @torch.no_grad()
    def project_(self) -> None:
        """Clip the log standard deviation into its range; call after each update.

        A clamp in `forward` would have no gradient beyond the bounds, so the parameter could never come back.
        """
        if self.head != "categorical" and not self.state_std:
            self.log_std.clamp_(*LOG_STD_RANGE)

    def to_env(self, raw: Tensor) -> Tensor:
        """Raw actions to the environment's units; differentiable if continuous."""
        if isinstance(self.action_space, spaces.Discrete):
            return raw + int(self.action_space.start)
        if self.head == "categorical":
            return raw + self.first
        return self.from_unit(raw.tanh() if self.head == "squashed" else raw.clamp(-1.0, 1.0))

    def from_unit(self, unit: Tensor) -> Tensor:
        """Actions in [-1, 1]^D to the environment's."""
        return self.center + self.scale * unit  # type: ignore[operator]

    def to_unit(self, actions: Tensor) -> Tensor:
        """The environment's actions to [-1, 1]^D in float32, or to indices from 0."""
        if isinstance(self.action_space, spaces.Discrete):
            return actions.long() - int(self.action_space.start)
        if self.head == "categorical":
            return actions.long() - self.first
        # Bounds that are equal leave nothing to divide by: the unit is 0, and so is its slope.
        scale = torch.where(self.scale > 0, self.scale, 1.0)  # type: ignore[operator, arg-type]
        return ((actions - self.center) / scale * (self.scale > 0)).float()  # type: ignore[operator]

    @torch.inference_mode()
    def act(self, obs: Any, *, deterministic: bool = True) -> Array:
        """Raw observations (N, *obs_shape) to the environment's actions (N, *action_shape).

        A single observation (*obs_shape) gives a single action. Dict observations are a dict of arrays (N, *shape) or
        (*shape), or rows of a structured array. Samples come from the policy's own generator, which `seed` sets.

        Raises InputError for observations of another shape, without a key, or with NaN.
        """
        batch, single = batch_of(self.observation_space, obs)
        device = self.output.weight.device
        distribution = self(self.encoder.prepare(tensor_of(batch).to(device)))
        if self._generator.device != device:  # the policy was moved: restart from the same seed there
            self.seed(self._generator.initial_seed())
        raw = distribution.mode() if deterministic else distribution.sample(self._generator)
        actions: Array = self.to_env(raw).cpu().numpy().astype(self.action_space.dtype, copy=False)
        return actions[0] if single else actions

    def predict(
        self,
        obs: Any,
        state: Any = None,
        episode_start: Any = None,  # noqa: ARG002
        deterministic: bool = True,
    ) -> tuple[Array, Any]:
        """`act` with Stable-Baselines3's signature, so that its `evaluate_policy` measures this policy.

        `state` is returned as it is and `episode_start` is ignored, since no policy here is recurrent.
        """
        return self.act(obs, deterministic=deterministic), state

    def seed(self, seed: int) -> None:
        """Seed the generator that `act` samples from. Raises InputError for what is no seed."""
        check_seed(seed)
        self._generator = torch.Generator(self.output.weight.device).manual_seed(int(seed))

    def describe(self) -> dict[str, Any]:
        """The architecture as plain data, for `from_description`."""
        spaces_json = {
            "observation_space": space_to_json(self.observation_space),
            "action_space": space_to_json(self.action_space),
        }
        return spaces_json | self.architecture

    def adapted(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> ActorPolicy:
        """The same policy for spaces of the same `kind`. Continuous actions keep their bounds, which scale them.

        A critic stays behind: it values this policy's actions, and not those of what the new one becomes.
        """
        described = self.describe()
        described.pop("critic", None)
        described["observation_space"] = space_to_json(as_fields(observation_space))
        described["action_space"]["dtype"] = str(action_space.dtype)
        policy = ActorPolicy.from_description(described)
        state = self.state_dict()
        policy.load_state_dict({name: state[name] for name in policy.state_dict()})
        return policy.to(self.output.weight.device)

    @staticmethod
    def from_description(data: dict[str, Any]) -> ActorPolicy:
        """The policy that `describe` described, whose weights are still to be loaded."""
        arguments = dict(data)
        if "critic" in arguments:
            arguments["critic"] = msgspec.convert(arguments["critic"], CriticShape)
        if "hidden" in arguments:
            arguments["hidden"] = msgspec.convert(arguments["hidden"], Widths)
        observation_space = space_from_json(arguments.pop("observation_space"))
        with seeded(0):
            return ActorPolicy(observation_space, space_from_json(arguments.pop("action_space")), **arguments)
