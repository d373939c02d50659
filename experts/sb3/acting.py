"""From an agent's network outputs to actions in the environment's own units."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from torch import nn

from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.experts.sb3.layers import compiled
from imitate.experts.sb3.networks import Networks, PolicySpec
from imitate.nn.distributions import sample_gaussian, sample_softmax

__all__ = ["AgentPolicy"]


class AgentPolicy:
    """Acts on raw observations (N, *obs_shape), in NumPy if the networks allow it.

    deterministic  PPO, A2C, TRPO: the most likely action. SAC, TQC: tanh of the mean.
                   DQN, QR-DQN: the action of highest value.
    stochastic     PPO, A2C, TRPO, SAC, TQC: a sample from the policy. With gSDE each action is sampled
                   independently, from the noise's distribution given the observation (SB3 keeps one noise matrix).
                   DQN, QR-DQN: epsilon-greedy with the last exploration rate of training, as in SB3.

    TD3, DDPG and ARS have only a deterministic action.
    """

    def __init__(self, spec: PolicySpec, networks: Networks) -> None:
        self._spec = spec
        self._trunk, self._head = compiled(networks.trunk), compiled(networks.head)
        self._forward = compiled(nn.Sequential(*networks.trunk, *networks.head))
        self._sde_trunk = None if networks.sde_trunk is None else compiled(networks.sde_trunk)
        self._num_actions = 0
        if isinstance(spec.action_space, spaces.Discrete):
            self._num_actions = int(spec.action_space.n)
        else:
            assert isinstance(spec.action_space, spaces.Box)
            self._low, self._high = spec.action_space.low, spec.action_space.high
            self._half_range = (self._high - self._low) / 2
            self._shape, self._dtype = spec.action_space.shape, spec.action_space.dtype
        log_std = networks.log_std
        self._log_std_layer = compiled(nn.Sequential(log_std)) if isinstance(log_std, nn.Linear) else None
        self._log_std: Array | None = log_std.numpy() if isinstance(log_std, nn.Parameter) else None

        self._rng = np.random.default_rng(0)

    def seed(self, seed: int) -> None:
        """Seed the generator of stochastic actions."""
        self._rng = np.random.default_rng(seed)

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:
        """Actions (N, *action_shape)."""
        if not deterministic and self._spec.algorithm not in ("TD3", "DDPG", "ARS"):
            return self._sample(obs, self._rng)
        outputs = self._forward(obs)
        return np.argmax(outputs, 1) if self._num_actions else self._in_bounds(outputs)

    def _sample(self, obs: Array, rng: np.random.Generator) -> Array:
        latent = self._trunk(obs)
        outputs = self._head(latent)  # (N, actions)
        if self._spec.algorithm in ("DQN", "QRDQN"):
            explore = rng.random(len(outputs)) < self._spec.exploration_rate
            anything = rng.integers(self._num_actions, size=len(outputs))
            return np.asarray(np.where(explore, anything, outputs.argmax(1)))
        if self._num_actions:
            return sample_softmax(outputs, -rng.gumbel(size=outputs.shape))
        noise = rng.standard_normal(outputs.shape, np.float32)
        return self._in_bounds(sample_gaussian(outputs, self._std(obs, latent), noise))

    def _std(self, obs: Array, latent: Array) -> Array:
        if self._log_std_layer is not None:  # SAC and TQC clamp like this
            return np.asarray(np.exp(np.clip(self._log_std_layer(latent), -20.0, 2.0)))
        if self._log_std is None:
            raise InputError("the stored policy has no standard deviation: it can only act deterministically")
        if self._log_std.ndim == 1:
            return np.asarray(np.exp(self._log_std))
        weights_std = _expln(self._log_std) if self._spec.use_expln else np.exp(self._log_std)
        noise_latent = latent if self._sde_trunk is None else self._sde_trunk(obs)
        variance = noise_latent**2 @ weights_std**2  # (N, actions), or (N, 1) if actions share it
        return np.asarray(np.sqrt(variance + 1e-6))

    def _in_bounds(self, outputs: Array) -> Array:
        outputs = outputs.reshape(len(outputs), *self._shape)
        if self._spec.squash_output:
            # SB3's formula; rounding may leave the bounds.
            outputs = self._low + (np.tanh(outputs) + 1.0) * self._half_range
        actions = np.minimum(np.maximum(outputs, self._low), self._high)
        return actions.astype(self._dtype, copy=False)


def _expln(log_std: Array) -> Array:
    below, above = np.exp(np.minimum(log_std, 0)), np.log1p(np.maximum(log_std, 0) + 1e-6) + 1.0
    return np.asarray(np.where(log_std <= 0, below, above))
