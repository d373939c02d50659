"""Q*: the action values of an expert's own critic, as learned by SAC, TD3, DDPG, TQC, DQN and QR-DQN."""

from __future__ import annotations

from typing import Protocol, cast

import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.errors import InputError
from imitate.experts.sb3.networks import Networks, PolicySpec
from imitate.nn.policy import ActorPolicy

__all__ = ["CriticOracle", "LogitsOracle", "PolicyOracle", "QOracle"]


class QOracle(Protocol):
    """The expert's value of any action, which AggreVaTeD differentiates.

    gamma         discount of the values
    reward_scale  environment reward = critic's reward x reward_scale
    greedy        the expert is the argmax of these values (DQN, QR-DQN), so they always rate its action highest
    """

    @property
    def gamma(self) -> float: ...

    @property
    def greedy(self) -> bool: ...

    @property
    def reward_scale(self) -> float: ...

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Raw obs (B, *obs_shape), actions in environment units (B, *action_shape) -> (B,).

        Differentiable in continuous actions.
        """
        ...

    def q_all(self, obs: Tensor) -> Tensor:
        """Raw obs (B, *obs_shape) -> values (B, A) of every action; discrete actions only."""
        ...

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Like `q`, but the separate estimates (H, B) of H critics.

        Continuous actions may also be separate, (H, B, *action_shape), so that one backward pass gives every critic's
        gradient.
        """
        ...


class CriticOracle(nn.Module):
    """An expert's own critic. Gradients flow to its inputs but not to its weights; `.to(device)` moves it.

    gamma   the discount it was trained with, from the agent's file

    `q` is the minimum over twin critics (SAC, TD3: arXiv:1802.09477). Distributional critics (TQC, QR-DQN) give the
    mean over all quantiles, and TQC also over all critics.

    Values are in units of the rewards that the critic learned from: under VecNormalize with `norm_reward`, these are
    the environment's divided by `reward_scale`. SAC's and TQC's values include the entropy bonus of future steps.
    """

    def __init__(
        self,
        spec: PolicySpec,
        networks: Networks,
        *,
        gamma: float = 0.99,
        reward_scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.gamma, self.reward_scale = gamma, reward_scale
        self.num_actions = (
            int(spec.action_space.n) if isinstance(spec.action_space, spaces.Discrete) else None
        )
        self.greedy = self.num_actions is not None
        self._mean = spec.algorithm == "TQC"
        if isinstance(spec.action_space, spaces.Box):
            assert networks.critic_features is not None
            assert networks.critics is not None
            self.features, self.critics = networks.critic_features, networks.critics
            self.register_buffer("low", torch.as_tensor(spec.action_space.low, dtype=torch.float32))
            self.register_buffer("high", torch.as_tensor(spec.action_space.high, dtype=torch.float32))
        else:
            self.action_values = nn.Sequential(networks.trunk, networks.head)

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        values = self.heads(obs, actions)
        return values.mean(0) if self._mean else values.min(0).values

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Each critic's estimate (H, B), for distributional critics the mean over quantiles. DQN has one critic."""
        if self.num_actions is not None:
            return self.q_all(obs).gather(1, actions.long().reshape(-1, 1)).T
        low, high = cast(Tensor, self.low), cast(Tensor, self.high)
        scaled = (2.0 * (actions - low) / (high - low) - 1.0).flatten(-low.ndim)  # SB3's critics saw [-1, 1]
        inputs = torch.cat([self.features(obs).expand(*scaled.shape[:-1], -1), scaled.float()], -1)
        each = inputs.expand(len(self.critics), *inputs.shape[-2:])
        return torch.stack([critic(x).mean(1) for critic, x in zip(self.critics, each, strict=True)])

    def q_all(self, obs: Tensor) -> Tensor:
        if self.num_actions is None:
            raise InputError("q_all needs discrete actions; for continuous ones use q(obs, actions)")
        return cast(Tensor, self.action_values(obs))


class PolicyOracle(nn.Module):
    """The critics that our learners of continuous actions store with their policy, such as SAC, TQC and TD3.

    `q` is the mean over critics and quantiles if these are distributional (TQC, Guided), otherwise the minimum over
    critics. Values of learners with an entropy bonus (SAC, TQC, Guided) include that of future steps.
    """

    greedy = False
    reward_scale = 1.0

    def __init__(self, policy: ActorPolicy) -> None:
        super().__init__()
        assert policy.critic is not None
        self.policy, self.critics = policy, policy.critic
        self.gamma: float = policy.architecture["critic"]["gamma"]
        self._mean: bool = policy.architecture["critic"]["mean"]

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        values = self.heads(obs, actions)
        return values.mean(0) if self._mean else values.amin(0)

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Each critic's estimate (H, B)."""
        unit = self.policy.to_unit(actions)
        prepared = self.policy.encoder.prepare(obs).expand(*unit.shape[:-1], -1)
        return self.critics.values(torch.cat([prepared, unit.float()], -1)).mean(-1)

    def q_all(self, obs: Tensor) -> Tensor:  # noqa: ARG002
        raise InputError("q_all needs discrete actions; for continuous ones use q(obs, actions)")


class LogitsOracle(nn.Module):
    """The logits of our DQN's and QDagger's policies, which are action values.

    gamma   the discount they were trained with
    """

    greedy = True
    reward_scale = 1.0

    def __init__(self, policy: ActorPolicy, gamma: float) -> None:
        super().__init__()
        self.policy, self.gamma = policy, gamma

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        return self.heads(obs, actions)[0]

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        """The one estimate (1, B)."""
        return self.q_all(obs).gather(1, self.policy.to_unit(actions).reshape(-1, 1)).T

    def q_all(self, obs: Tensor) -> Tensor:
        encoder = self.policy.encoder
        return cast(Tensor, self.policy.output(encoder(encoder.prepare(obs))))
