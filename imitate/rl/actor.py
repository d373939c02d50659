"""Acting by sampling from a policy."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.configs.shared import LOG_STD_RANGE
from imitate.envs.spaces import Array, center_and_scale
from imitate.nn.distributions import sample_gaussian, sample_softmax
from imitate.nn.graphed import Graphed
from imitate.nn.networks import numpy_forward
from imitate.nn.policy import ActorPolicy

__all__ = ["Actor", "encode", "on_device"]


def encode(policy: ActorPolicy, obs: Array) -> Tensor:
    """Raw observations (B, *obs_shape), prepared for the networks."""
    prepared: Tensor = policy.encoder.prepare(on_device(policy, obs))
    return prepared


def on_device(policy: ActorPolicy, obs: Array) -> Tensor:
    """Raw observations (B, *obs_shape) as they are, on the policy's device."""
    return torch.from_numpy(obs).to(policy.output.weight.device)


class Actor:
    """Acts with a policy, in NumPy if its network is a small one on the CPU, and on a GPU as a CUDA graph.

    For small networks the overhead of a torch call is as large as the arithmetic of a layer.
    """

    def __init__(self, policy: ActorPolicy) -> None:
        # A module looks its parts up slowly.
        self.policy, self._encoder = policy, policy.encoder
        layers = nn.Sequential(*policy.encoder.net, policy.output)
        self._forward = None if policy.encoder.is_image else numpy_forward(layers)
        self._graphed = Graphed(self._outputs, network=policy)
        space = policy.action_space
        if isinstance(space, spaces.Box):
            self._center, self._scale = center_and_scale(space)

    def outputs(self, obs: Array) -> Array:
        """The network's outputs (N, A) for raw observations (N, *obs_shape).

        They are logits, or means of raw actions, then log standard deviations if these depend on the state.
        """
        if self._forward is not None:
            return self._forward(self._encoder.prepare_numpy(obs))
        with torch.no_grad():
            outputs: Array = self._graphed({"obs": on_device(self.policy, obs)})["outputs"].cpu().numpy()
        return outputs

    def _outputs(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        encoder = self.policy.encoder
        return {"outputs": self.policy.output(encoder(encoder.prepare(batch["obs"])))}

    def sample(self, obs: Array, rng: np.random.Generator, moved: Array | None = None) -> tuple[Array, Array]:
        """Actions for the environment, and the raw actions, on which log-probabilities are defined.

        moved   (N, D) is added to the means of continuous actions
        """
        outputs = self.outputs(obs)
        if isinstance(self.policy.action_space, spaces.Discrete):
            raw = sample_softmax(outputs, np.log(rng.standard_exponential(outputs.shape)))
            actions = raw + int(self.policy.action_space.start)
            return actions.astype(self.policy.action_space.dtype, copy=False), raw
        if self.policy.state_std:
            mean, log_std = np.split(outputs, 2, -1)
            log_std = log_std.clip(*LOG_STD_RANGE)
        else:
            mean, log_std = outputs, self.policy.log_std.detach().cpu().numpy()
        mean = mean if moved is None else mean + moved
        raw = sample_gaussian(mean, np.exp(log_std), rng.standard_normal(mean.shape, np.float32))
        unit = np.tanh(raw) if self.policy.head == "squashed" else raw.clip(-1.0, 1.0)
        return self.from_unit(unit), raw

    def from_unit(self, unit: Array) -> Array:
        """Actions (N, D) in [-1, 1] to the environment's."""
        actions: Array = self._center + self._scale * unit
        return actions.astype(self.policy.action_space.dtype, copy=False)
