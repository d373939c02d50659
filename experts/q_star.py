"""Q*: the action values that experts bring along, as SAC, TD3, DDPG, TQC, DQN and QR-DQN learned them."""

from __future__ import annotations

from typing import Literal, Protocol, cast

import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.datasets.errors import InputError
from imitate.experts.networks import Networks, PolicySpec

__all__ = ["CriticOracle", "QOracle"]


class QOracle(Protocol):
    """The expert's action value: what AggreVaTeD differentiates."""

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Raw obs (B, *obs_shape), actions in environment units (B, *action_shape) -> (B,).

        Differentiable in the actions, where they are continuous.
        """
        ...

    def q_all(self, obs: Tensor) -> Tensor:
        """Raw obs (B, *obs_shape) -> (B, A), of every action; discrete actions only."""
        ...


class CriticOracle(nn.Module):
    """An expert's own critic. `.to(device)` moves it; its weights take no gradient, its inputs do.

    reduce  "min" over twin critics (SAC, TD3: arXiv:1802.09477) or "mean". Distributional critics (TQC,
            QR-DQN) always give the mean over all quantiles, and TQC over all critics.

    Values are in the rewards that the critic learned from: under VecNormalize with `norm_reward`, the
    environment's divided by `expert.normalisation.reward_scale`.
    """

    def __init__(
        self, spec: PolicySpec, networks: Networks, *, reduce: Literal["min", "mean"] = "min"
    ) -> None:
        super().__init__()
        self.num_actions = (
            int(spec.action_space.n) if isinstance(spec.action_space, spaces.Discrete) else None
        )
        self.reduce = "mean" if spec.algorithm == "TQC" else reduce
        if isinstance(spec.action_space, spaces.Box):
            assert networks.critic_features is not None
            assert networks.critics is not None
            self.features, self.critics = networks.critic_features, networks.critics
            self.register_buffer("low", torch.as_tensor(spec.action_space.low, dtype=torch.float32))
            self.register_buffer("high", torch.as_tensor(spec.action_space.high, dtype=torch.float32))
        else:
            self.action_values = nn.Sequential(networks.trunk, networks.head)

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        if self.num_actions is not None:
            return self.q_all(obs).gather(1, actions.long().reshape(-1, 1)).squeeze(1)  # (B,)
        low, high = cast(Tensor, self.low), cast(Tensor, self.high)
        scaled = 2.0 * (actions - low) / (high - low) - 1.0  # SB3's critics saw actions in [-1, 1]
        inputs = torch.cat([self.features(obs), scaled.flatten(1)], 1)
        values = torch.stack([critic(inputs).mean(1) for critic in self.critics])  # (critics, B)
        return values.mean(0) if self.reduce == "mean" else values.min(0).values

    def q_all(self, obs: Tensor) -> Tensor:
        if self.num_actions is None:
            raise InputError("q_all needs discrete actions; for continuous ones use q(obs, actions)")
        return cast(Tensor, self.action_values(obs))
