"""A policy without torch in its calls, for control loops of one's own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from torch import nn

from imitate.envs.fields import batch_of
from imitate.envs.spaces import Array, center_and_scale, values_of
from imitate.errors import InputError
from imitate.nn.networks import Encoder, layer_norm
from imitate.nn.normalize import LEAST_VARIANCE, RunningMoments
from imitate.nn.policy import ActorPolicy

__all__ = ["NumpyPolicy"]


class NumpyPolicy:
    """The deterministic actions of a policy, computed in NumPy: what `policy.act` gives, up to rounding.

    A call takes a fraction of torch's time, since the overhead of its operations is larger than the arithmetic of a
    small network. It is a copy: training the policy further does not change it.

    Raises InputError for what is no ActorPolicy, and for policies of pictures and of Dict, MultiDiscrete or
    MultiBinary observations, whose networks are no plain layers.
    """

    def __init__(self, policy: ActorPolicy) -> None:
        if not isinstance(policy, ActorPolicy):
            raise InputError(
                "a NumPy policy is made of an ActorPolicy, such as learner.policy or load_policy(folder), got "
                f"{type(policy).__name__}"
            )
        policy = copy.deepcopy(policy).cpu()
        encoder = policy.encoder
        if not isinstance(encoder, Encoder) or encoder.is_image:
            raise InputError(
                f"no NumPy policy of {policy.observation_space}: its network has more than linear layers; use the "
                "policy itself, or export it to onnx"
            )
        self.observation_space, self.action_space = policy.observation_space, policy.action_space
        self._sizes, self._squashed = getattr(policy, "sizes", ()), policy.head == "squashed"
        self._prepare = encoder.prepare_numpy if encoder.moments is None else _standardiser(encoder.moments)
        linear = [layer for layer in (*encoder.net, policy.output) if isinstance(layer, nn.Linear)]
        self._layers = [(x.weight.detach().numpy().T.copy(), x.bias.detach().numpy().copy()) for x in linear]
        self._tanh = policy.architecture["activation"] == "tanh"
        self._normalises = bool(policy.architecture.get("layer_norm"))
        discrete = values_of(policy.action_space)
        self._first = None if discrete is None else discrete[0]
        if isinstance(policy.action_space, spaces.Box):
            self._center, self._scale = center_and_scale(policy.action_space)

    def act(self, obs: Any, *, deterministic: bool = True) -> Array:
        """One observation (*obs_shape) to one action (*action_shape), or a batch (N, *obs_shape) to (N, *action_shape).

        Raises InputError for observations of another shape, with NaN or outside a Discrete space, and if actions should
        be random.
        """
        if not deterministic:
            raise InputError("a NumPy policy acts deterministically only: use the policy itself")
        batch, single = batch_of(self.observation_space, obs)
        if isinstance(self.observation_space, spaces.Discrete):
            states = batch - self.observation_space.start
            if ((states < 0) | (states >= self.observation_space.n)).any():
                raise InputError(
                    f"an observation is outside {self.observation_space}: correct the environment"
                )
        outputs = self._outputs(self._prepare(batch))
        actions = self._continuous(outputs) if self._first is None else self._chosen(outputs)
        return actions[0] if single else actions

    def predict(
        self,
        obs: Any,
        state: Any = None,
        episode_start: Any = None,  # noqa: ARG002
        deterministic: bool = True,
    ) -> tuple[Array, Any]:
        """`act` with Stable-Baselines3's signature."""
        return self.act(obs, deterministic=deterministic), state

    def _outputs(self, x: Array) -> Array:
        *hidden, (weight, bias) = self._layers
        for layer, shift in hidden:
            x = x @ layer
            x += shift
            x = layer_norm(x) if self._normalises else x
            x = np.tanh(x, out=x) if self._tanh else np.maximum(x, 0.0, out=x)
        return np.asarray(x @ weight + bias)

    def _continuous(self, outputs: Array) -> Array:
        raw = outputs[:, : len(self._scale)]  # then log standard deviations, if these depend on the state
        unit = np.tanh(raw) if self._squashed else np.minimum(np.maximum(raw, -1.0), 1.0)
        return np.asarray(self._center + self._scale * unit, self.action_space.dtype)

    def _chosen(self, outputs: Array) -> Array:
        if isinstance(self.action_space, spaces.Discrete):
            return np.asarray(outputs.argmax(1) + self._first, self.action_space.dtype)
        parts = np.split(outputs, np.cumsum(self._sizes)[:-1], 1)
        chosen = np.stack([part.argmax(1) for part in parts], 1).reshape(-1, *(self.action_space.shape or ()))
        return np.asarray(chosen + self._first, self.action_space.dtype)


def _standardiser(moments: RunningMoments) -> Callable[[Array], Array]:
    """`RunningMoments.forward` for observations (N, *obs_shape), with the statistics as they are now."""
    mean, std = moments.mean.numpy().copy(), np.sqrt(np.maximum(moments.var.numpy(), LEAST_VARIANCE))

    def standardise(obs: Array) -> Array:
        x = (obs.reshape(len(obs), mean.size) - mean) / std
        clipped = np.minimum(np.maximum(x, -10.0), 10.0)  # in a third of np.clip's time
        return np.asarray(clipped, np.float32)

    return standardise
