"""The discriminator of GAIL: its network, loss and gradient penalty, and the rewards that are made of its logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from imitate.configs.gail import GAILConfig, Reward
from imitate.datasets.storage.batches import Field
from imitate.imitators.architecture import Architecture, Kind
from imitate.nn.networks import MLP, Encoder

__all__ = ["Discriminator", "bce", "gradient_penalty", "reward_of"]


class Discriminator(nn.Module):
    """Logit of "this pair is the expert's", from observations and actions, encoded as for a policy.

    fields        columns of a step that `prepare` takes
    architecture  what a stored reward needs to make the network again (`learned_reward`)
    """

    kind: ClassVar[Kind] = "gail"
    fields: ClassVar[tuple[Field, ...]] = ("obs", "labels")

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], config: GAILConfig
    ) -> None:
        super().__init__()
        self.architecture = Architecture(self.kind, config.hidden, config.activation)
        self.encoder = Encoder(observation_space, (), config.activation, normalize=True)
        self.num_actions = int(action_space.n) if isinstance(action_space, spaces.Discrete) else 0
        size = self.num_actions or int(np.prod(action_space.shape or ()))
        self.net = MLP([self.encoder.features + size, *config.hidden], config.activation)
        self.output = nn.Linear(config.hidden[-1] if config.hidden else self.encoder.features + size, 1)
        if config.spectral_norm:
            for module in list(self.modules()):
                if isinstance(module, nn.Linear | nn.Conv2d):
                    parametrizations.spectral_norm(module)

    def prepare(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs of `forward`, from raw observations (B, *obs_shape) and actions from `ActorPolicy.to_unit`."""
        if self.num_actions:
            actions = F.one_hot(actions, self.num_actions)
        return self.encoder.prepare(obs), actions.float()

    def forward(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Prepared observations (B, ...) and actions (B, A) to logits (B,)."""
        features = torch.cat([self.encoder(obs), actions], -1)
        return self.output(self.net(features)).squeeze(-1)  # type: ignore[no-any-return]

    def judge(self, obs: Tensor, actions: Tensor, *_: Tensor) -> Tensor:
        """Logits (B,) of raw observations (B, *obs_shape) and actions from `ActorPolicy.to_unit`."""
        return self(*self.prepare(obs, actions))  # type: ignore[no-any-return]


def bce(logits: Tensor, is_expert: Tensor) -> Tensor:
    """Mean binary cross-entropy of logits (B,) and labels (B,): 1 for the expert's pairs, 0 for the learner's."""
    loss: Tensor = F.binary_cross_entropy_with_logits(logits, is_expert)
    return loss


def gradient_penalty(
    discriminator: nn.Module,
    expert_pairs: tuple[Tensor, Tensor],
    learner_pairs: tuple[Tensor, Tensor],
    mix: Tensor,
    units: Sequence[float] = (1.0, 1.0),
) -> Tensor:
    """Mean of (|gradient of the logit| - 1)^2 between the expert's and the learner's pairs (arXiv:1704.00028).

    Both are prepared (obs, actions) of B rows; mix (B,) in [0, 1] interpolates between them, and gradients are by
    `units` of these inputs.
    """
    points = []
    for one, other in zip(expert_pairs, learner_pairs, strict=True):
        share = mix.view(-1, *[1] * (one.dim() - 1))
        points.append((share * one + (1 - share) * other).requires_grad_())
    gradients = torch.autograd.grad(discriminator(*points).sum(), points, create_graph=True)
    slopes = [unit * gradient.flatten(1) for unit, gradient in zip(units, gradients, strict=True)]
    norm = torch.cat(slopes, 1).norm(dim=1)  # (B,)
    penalty: Tensor = ((norm - 1) ** 2).mean()
    return penalty


def reward_of(logits: Tensor, form: Reward) -> Tensor:
    """Rewards (B,) from logits (B,); `gail` derives the signs."""
    match form:
        case "positive":  # -log(1 - D) = -log sigmoid(-logit)
            return F.softplus(logits)
        case "negative":  # log D
            return -F.softplus(-logits)
        case "logit" | "airl":  # log D - log(1 - D)
            return logits
        case "plus_one":
            return torch.ones_like(logits)
        case "minus_one":
            return -torch.ones_like(logits)
