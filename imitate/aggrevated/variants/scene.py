"""The common part of the estimators of AggreVaTeD's gradient: critic, policy, and normalisation of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from imitate.aggrevated.gate import Gate
from imitate.configs.variants import VariantConfig
from imitate.experts.values.critics import QOracle
from imitate.nn.distributions import Categorical, Gaussian
from imitate.nn.policy import ActorPolicy

__all__ = ["Distribution", "Estimator", "Scene", "normalised"]

Distribution = Categorical | Gaussian


@dataclass(frozen=True)
class Scene:
    """The critic, the learning policy and the random generator, which every estimator uses.

    line_search  whether the critic chooses how much of the step to a `target` is taken
    """

    critic: QOracle | None
    actor: ActorPolicy
    config: VariantConfig
    generator: torch.Generator
    line_search: bool = False

    @property
    def oracle(self) -> QOracle:
        assert self.critic is not None, "VariantConfig refuses estimators without their critic"
        return self.critic

    def q(self, obs: Tensor, raw: Tensor) -> Tensor:
        """Mean (B,) of the critic's heads for raw observations and raw actions of the policy."""
        return self.oracle.heads(obs, self.actor.to_env(raw)).mean(0)

    def normalised(self, gate: Gate, q: Tensor, baseline: Tensor | float) -> Tensor:
        return normalised(q, baseline, float(gate.gap.mean()), self.config.normalisation)


@dataclass(frozen=True)
class Estimator:
    """An estimator of the gradient, as the learner sees it.

    loss         (gate, distribution (B,), raw obs (B, ...), expert's actions (B, ...) in the policy's units, further
                 columns of the minibatch) -> policy loss (B,) and the actions to imitate (B, ...). Called only while
                 the gate is open
    minibatches  (rollout, labels (T, N, ...), experts' turns (T, N), gate, count, rng) -> obs, labels and further
                 columns of the roll-in's own steps. None: minibatches come from all states so far
    value        a value function that is learned and saved with the policy, or None
    """

    loss: Callable[..., tuple[Tensor, Tensor]]
    minibatches: Callable[..., Iterator[tuple[Tensor, ...]]] | None = None
    value: nn.Module | None = None


def normalised(q: Tensor, baseline: Tensor | float, gap: float, how: str) -> Tensor:
    """Normalise values of any shape by `VariantConfig.normalisation`; `baseline` is their mean under the policy."""
    match how:
        case "minmax":
            low, high = q.detach().min(), q.detach().max()
            return (q - low) / (high - low).clamp(min=1e-8)
        case "standardise":
            return (q - q.detach().mean()) / q.detach().std(correction=0).clamp(min=1e-8)
        case "baseline":
            return q - baseline
        case "gap":
            return (q - baseline) / gap
        case _:
            return q
