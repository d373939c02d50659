"""Estimators of the gradient of E_{a ~ pi}[A*(s, a)], as losses of a minibatch.

The two defaults are here: `exact` for discrete actions and `target` for continuous ones. Others are in `ablations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from imitate.aggrevated.gate import Gate
from imitate.configs.aggrevated import AggreVaTeDConfig
from imitate.experts.critics import QOracle
from imitate.nn.distributions import Categorical, Gaussian
from imitate.nn.policy import ActorPolicy

__all__ = [
    "Distribution",
    "Estimator",
    "Scene",
    "exact",
    "exact_loss",
    "line_search",
    "normalised",
    "target",
    "target_actions",
]

Distribution = Categorical | Gaussian


@dataclass(frozen=True)
class Scene:
    """What every estimator uses: the critic, the learning policy and the random generator.

    line_search  whether the critic chooses how much of the step to a `target` is taken
    """

    critic: QOracle | None
    actor: ActorPolicy
    config: AggreVaTeDConfig
    generator: torch.Generator
    line_search: bool = False

    @property
    def oracle(self) -> QOracle:
        assert self.critic is not None, "AggreVaTeDConfig.completed refuses estimators without their critic"
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


def exact(
    scene: Scene, gate: Gate, distribution: Categorical, obs: Tensor, expert: Tensor
) -> tuple[Tensor, Tensor]:
    """The sum over all actions."""
    with torch.no_grad():
        q = scene.oracle.q_all(obs)  # (B, A)
    baseline = (distribution.logits.softmax(-1) * q).sum(-1, keepdim=True)
    return exact_loss(distribution.logits, scene.normalised(gate, q, baseline)), expert


def target(
    scene: Scene, gate: Gate, distribution: Gaussian, obs: Tensor, expert: Tensor
) -> tuple[Tensor, Tensor]:
    """Zero policy loss; the action to imitate is the expert's, moved by one clipped step up the critic's gradient.

    The gradient is taken at a sampled action of the learner and holds only near it. So the line search, where it is on,
    asks the critic in each state how much of the step to take.
    """
    config, nothing = scene.config, torch.zeros(len(obs), device=obs.device)
    if not config.delta:
        return nothing, expert
    with torch.no_grad():
        actions = distribution.sample(scene.generator).tanh().repeat(len(gate.gap), 1, 1)  # (H, B, D)
    actions.requires_grad_()
    center, scale = cast(Tensor, scene.actor.center), cast(Tensor, scene.actor.scale)
    heads = scene.oracle.heads(obs, center + scale * actions)
    (gradients,) = torch.autograd.grad((heads / gate.gap[:, None]).sum(), actions)
    targets = target_actions(expert, gradients, beta=config.beta or 0.0, delta=config.delta)
    if not scene.line_search:
        return nothing, targets

    def value(obs: Tensor, actions: Tensor) -> Tensor:
        return (scene.oracle.heads(obs, center + scale * actions) / gate.gap[:, None]).mean(0)

    return nothing, line_search(value, obs, expert, targets)


@torch.no_grad()
def line_search(value: Callable[[Tensor, Tensor], Tensor], obs: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """In each state the best of the actions (B, D) at 0, 1/4, 1/2 and all of the way from `start` to `end` (B, D).

    value  observations (N, ...) and actions (N, D) -> (N,)
    """
    tried = torch.stack([torch.lerp(start, end, share) for share in (0.0, 0.25, 0.5, 1.0)])  # (4, B, D)
    values = value(torch.cat([obs] * len(tried)), tried.flatten(0, 1)).view(len(tried), -1)
    return tried[values.argmax(0), torch.arange(len(obs), device=obs.device)]


def normalised(q: Tensor, baseline: Tensor | float, gap: float, how: str) -> Tensor:
    """Normalise values of any shape by `AggreVaTeDConfig.normalisation`; `baseline` is their mean under the policy."""
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


def exact_loss(logits: Tensor, advantages: Tensor) -> Tensor:
    """Loss (B,), -E_{a ~ pi}[A(s, a)], from logits and advantages (B, A). No gradient flows into the advantages."""
    return -(logits.softmax(-1) * advantages.detach()).sum(-1)


def target_actions(expert: Tensor, gradients: Tensor, *, beta: float, delta: float) -> Tensor:
    """Actions (B, D) in [-1, 1] that the critic rates above the expert's (B, D).

    gradients  (H, B, D) of each critic's advantage, in units of its gap between the expert's actions and random ones

    Without bounds it is the action a that minimises -A(a) + beta * mean (a - expert)^2 for a linear A. Dimensions on
    which the critics disagree in sign keep the expert's value; no step has a root mean square above delta.
    """
    agreed = (gradients.sign().sum(0).abs() == len(gradients)).float()
    step = gradients.mean(0) * agreed * (expert.shape[-1] / (2 * max(beta, 1e-6)))
    length = step.square().mean(-1, keepdim=True).sqrt().clamp(min=1e-8)
    return (expert + step * (delta / length).clamp(max=1.0)).clamp(-1.0, 1.0)
