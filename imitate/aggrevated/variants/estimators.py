"""Other estimators of AggreVaTeD's gradient, for comparison: reparameterised, score function, AggreVaTe's regression.

The score function of executed actions is in `executed`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from imitate.aggrevated import gradients
from imitate.aggrevated.gate import Gate
from imitate.aggrevated.variants.executed import Executed
from imitate.aggrevated.variants.scene import Distribution, Estimator, Scene
from imitate.nn.distributions import Categorical, Gaussian

__all__ = ["find_estimator", "score_loss"]


def find_estimator(scene: Scene, expert: Any, space: spaces.Space[Any], seed: int) -> Estimator:
    """The estimator that `scene.config.estimator` names; `space` is the observation space."""
    if scene.config.estimator == "executed":
        executed = Executed(scene, expert, space, seed)
        return Estimator(executed.loss, executed.minibatches, executed.value)
    losses: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
        "exact": _exact,
        "target": _target,
        "reparameterised": _reparameterised,
        "score": _score,
        "regression": _regression,
    }
    return Estimator(partial(losses[scene.config.estimator], scene))


def _exact(
    scene: Scene, gate: Gate, distribution: Categorical, obs: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        q = scene.oracle.q_all(obs)  # (B, A)
    baseline = (distribution.logits.softmax(-1) * q).sum(-1, keepdim=True)
    return gradients.exact_loss(distribution.logits, scene.normalised(gate, q, baseline)), labels


def _target(
    scene: Scene, gate: Gate, distribution: Gaussian, obs: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    config = scene.config
    targets = gradients.target(
        scene.oracle, gate, scene.actor, distribution, obs, labels,
        beta=config.beta or 0.0, delta=config.delta, search=scene.line_search, generator=scene.generator,
    )  # fmt: skip
    return torch.zeros(len(obs), device=obs.device), targets


def _reparameterised(
    scene: Scene, gate: Gate, distribution: Distribution, obs: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    return -scene.normalised(gate, scene.q(obs, distribution.sample(scene.generator)), 0.0), labels


def _score(
    scene: Scene, gate: Gate, distribution: Distribution, obs: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        raws = [distribution.sample(scene.generator) for _ in range(scene.config.samples)]
        q = torch.stack([scene.q(obs, raw) for raw in raws])  # (k, B)
    log_probs = torch.stack([distribution.log_prob(raw) for raw in raws])
    others = (q.sum(0) - q) / max(len(q) - 1, 1)  # a baseline that is independent of the action
    return score_loss(log_probs, scene.normalised(gate, q, others)), labels


def _regression(
    scene: Scene, gate: Gate, distribution: Categorical, obs: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        q = scene.oracle.q_all(obs)  # (B, A)
    fitted = scene.normalised(gate, q, q.mean(-1, keepdim=True))
    return (distribution.logits - fitted).square().mean(-1), labels


def score_loss(log_probs: Tensor, advantages: Tensor) -> Tensor:
    """Loss (B,) from k samples (k, B); its gradient is an unbiased estimate of that of -E_{a ~ pi}[A(s, a)]."""
    return -(log_probs * advantages.detach()).mean(0)
