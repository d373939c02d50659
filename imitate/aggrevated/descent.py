"""How AggreVaTeD minimises a loss: Adam with a learning rate that decays to 0, or the natural gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from imitate.aggrevated.config import AggreVaTeDConfig
from imitate.aggrevated.natural_gradient import NaturalGradient, kl_divergence
from imitate.nn.adam import Adam
from imitate.nn.policy import ActorPolicy

__all__ = ["AdamDescent", "Descent", "NaturalDescent", "find_descent"]


class AdamDescent:
    """Adam; within an iteration its learning rate decays to 0."""

    def __init__(self, parameters: Sequence[nn.Parameter], config: AggreVaTeDConfig) -> None:
        self.learning_rate = config.learning_rate
        self.optimizer = Adam(parameters, config.learning_rate, max_grad_norm=1.0)

    def descend(self, loss: Tensor, actor: ActorPolicy, prepared: Tensor, progress: float) -> None:  # noqa: ARG002
        """One step; `progress` is the share of the iteration's updates already done."""
        self.optimizer.learning_rate = self.learning_rate * (1.0 - progress)
        self.optimizer.step(loss)

    def state_dict(self) -> dict[str, Any]:
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state)


class NaturalDescent:
    """The natural gradient; `kl_limit` bounds each step. It keeps no state between steps."""

    def __init__(self, parameters: Sequence[nn.Parameter], config: AggreVaTeDConfig) -> None:
        self.optimizer = NaturalGradient(parameters, config.kl_limit)

    def descend(self, loss: Tensor, actor: ActorPolicy, prepared: Tensor, progress: float) -> None:  # noqa: ARG002
        """One step; `progress` is ignored."""
        with torch.no_grad():
            old = actor(prepared)
        self.optimizer.step(loss, lambda: kl_divergence(old, actor(prepared)).mean())

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Does nothing: there is no state."""


Descent = AdamDescent | NaturalDescent


def find_descent(parameters: Sequence[nn.Parameter], config: AggreVaTeDConfig) -> Descent:
    """The method that `config.update` names."""
    return (NaturalDescent if config.update == "natural" else AdamDescent)(parameters, config)
