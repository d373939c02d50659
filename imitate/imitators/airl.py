"""The discriminator of adversarial inverse reinforcement learning, AIRL (arXiv:1710.11248): GAIL with `reward` "airl".

GAIL's discriminator knows which actions the expert took where, which is worth nothing once the same action has another
effect. AIRL's is made of a reward of states and a potential:

    f(s, s') = g(s) + gamma h(s') - h(s)        D(s, a, s') = exp f / (exp f + pi(a|s))

so its logit is f(s, s') - log pi(a|s), which is also what the learner is rewarded with. A potential h changes no
optimal policy (Ng, Harada and Russell 1999). So h can take what belongs to the dynamics that were learned in, and g is
a reward from which one can learn under others (the paper's theorems 5.1 and 5.2, for deterministic dynamics).

Departures. A step that terminates has no successor, so h is 0 there. The actions of continuous policies are clipped as
the environment took them, and log pi is the density at the clipped ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from gymnasium import spaces
from torch import Tensor, nn

from imitate.configs.gail import GAILConfig
from imitate.datasets.storage.batches import Field
from imitate.imitators.architecture import Architecture, Kind
from imitate.nn.networks import MLP, Encoder

__all__ = ["ShapedNet"]

LogProbs = Callable[[Tensor, Tensor], Tensor]
"""Raw observations (B, *obs_shape) and actions from `ActorPolicy.to_unit` to log-probabilities (B,)."""


class ShapedNet(nn.Module):
    """Logit of "this step is the expert's", from observations, their successors and the policy's log-probabilities.

    fields        columns of a step that `prepare` takes
    architecture  what a stored reward needs to make the network again (`learned_reward`)
    log_probs     of the policy as it is now; None if only the reward g is wanted
    """

    kind: ClassVar[Kind] = "airl"
    fields: ClassVar[tuple[Field, ...]] = ("obs", "labels", "next_obs", "terminated")

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        config: GAILConfig,
        gamma: float = 1.0,
        log_probs: LogProbs | None = None,
    ) -> None:
        super().__init__()
        self.architecture = Architecture(self.kind, config.hidden, config.activation)
        self.gamma, self.log_probs = gamma, log_probs
        self.encoder = Encoder(observation_space, (), config.activation, normalize=True)
        self.reward = _head(self.encoder.features, config)
        self.potential = _head(self.encoder.features, config)

    def prepare(
        self, obs: Tensor, actions: Tensor, next_obs: Tensor, terminated: Tensor
    ) -> tuple[Tensor, ...]:
        """Inputs of `forward`, from raw observations (B, *obs_shape), actions from `ActorPolicy.to_unit`, raw
        successors and end flags (B,)."""
        assert self.log_probs is not None
        discounts = self.gamma * (~terminated).float()
        prepared = self.encoder.prepare(obs), self.encoder.prepare(next_obs)
        return *prepared, discounts, self.log_probs(obs, actions)

    def forward(self, obs: Tensor, next_obs: Tensor, discounts: Tensor, log_probs: Tensor) -> Tensor:
        """Prepared observations (B, ...) and successors, discounts (B,), 0 at a termination, to logits (B,)."""
        now, then = self.encoder(obs), self.encoder(next_obs)
        shaping = discounts * self.potential(then).squeeze(-1) - self.potential(now).squeeze(-1)
        return self.reward(now).squeeze(-1) + shaping - log_probs  # type: ignore[no-any-return]

    def judge(self, obs: Tensor, *_: Tensor) -> Tensor:
        """The reward g(s) (B,) of raw observations (B, *obs_shape), whatever the action and its successor."""
        return self.reward(self.encoder(self.encoder.prepare(obs))).squeeze(-1)  # type: ignore[no-any-return]


def _head(features: int, config: GAILConfig) -> nn.Sequential:
    width = config.hidden[-1] if config.hidden else features
    return nn.Sequential(MLP([features, *config.hidden], config.activation), nn.Linear(width, 1))
