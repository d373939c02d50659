"""The gradient of E_{a ~ pi}[A*(s, a)] on a minibatch: exact for discrete actions, a target for continuous ones.

Other estimators of it are in `variants.estimators`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from imitate.aggrevated.gate import Gate
from imitate.experts.values.critics import QOracle
from imitate.nn.distributions import Categorical, Gaussian
from imitate.nn.policy import ActorPolicy

__all__ = ["exact", "exact_loss", "line_search", "target", "target_actions"]


def exact(critic: QOracle, gate: Gate, distribution: Categorical, obs: Tensor) -> Tensor:
    """Loss (B,) for raw observations (B, ...): the sum over all actions.

    Advantages are Q* minus its mean under the policy, in units of the gate's gap.
    """
    with torch.no_grad():
        q = critic.q_all(obs)  # (B, A)
    baseline = (distribution.logits.softmax(-1) * q).sum(-1, keepdim=True)
    return exact_loss(distribution.logits, (q - baseline) / float(gate.gap.mean()))


def exact_loss(logits: Tensor, advantages: Tensor) -> Tensor:
    """Loss (B,), -E_{a ~ pi}[A(s, a)], from logits and advantages (B, A). No gradient flows into the advantages."""
    return -(logits.softmax(-1) * advantages.detach()).sum(-1)


def target(
    critic: QOracle,
    gate: Gate,
    actor: ActorPolicy,
    distribution: Gaussian,
    obs: Tensor,
    labels: Tensor,
    *,
    beta: float,
    delta: float,
    search: bool,
    generator: torch.Generator,
) -> Tensor:
    """Actions (B, D) to imitate: the labels (B, D), moved by one clipped step up the critic's gradient.

    Actions are in the actor's units, [-1, 1]. The gradient is taken at an action that the learner samples, and holds
    only near it. So with `search` the critic says in each state how much of the step to take.
    """
    if not delta:
        return labels
    with torch.no_grad():
        actions = distribution.sample(generator).tanh().repeat(len(gate.gap), 1, 1)  # (H, B, D)
    center, scale = cast(Tensor, actor.center), cast(Tensor, actor.scale)

    def advantages(obs: Tensor, actions: Tensor) -> Tensor:
        """(H, B), up to a constant of each state; actions (B, D), or (H, B, D) for each critic its own."""
        return critic.heads(obs, center + scale * actions) / gate.gap[:, None]

    actions.requires_grad_()
    (gradients,) = torch.autograd.grad(advantages(obs, actions).sum(), actions)
    targets = target_actions(labels, gradients, beta=beta, delta=delta)
    return line_search(lambda *x: advantages(*x).mean(0), obs, labels, targets) if search else targets


def target_actions(labels: Tensor, gradients: Tensor, *, beta: float, delta: float) -> Tensor:
    """Actions (B, D) in [-1, 1] that the critic rates above the labels (B, D).

    gradients  (H, B, D) of each critic's advantage, in units of its gap between the expert's actions and random ones

    Without bounds it is the action a that minimises -A(a) + beta * mean (a - label)^2 for a linear A. Dimensions on
    which the critics disagree in sign keep the label's value; no step has a root mean square above delta.
    """
    agreed = (gradients.sign().sum(0).abs() == len(gradients)).float()
    step = gradients.mean(0) * agreed * (labels.shape[-1] / (2 * max(beta, 1e-6)))
    length = step.square().mean(-1, keepdim=True).sqrt().clamp(min=1e-8)
    return (labels + step * (delta / length).clamp(max=1.0)).clamp(-1.0, 1.0)


@torch.no_grad()
def line_search(value: Callable[[Tensor, Tensor], Tensor], obs: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """In each state the best of the actions (B, D) at 0, 1/4, 1/2 and all of the way from `start` to `end` (B, D).

    value  observations (N, ...) and actions (N, D) -> (N,)
    """
    tried = torch.stack([torch.lerp(start, end, share) for share in (0.0, 0.25, 0.5, 1.0)])  # (4, B, D)
    values = value(torch.cat([obs] * len(tried)), tried.flatten(0, 1)).view(len(tried), -1)
    return tried[values.argmax(0), torch.arange(len(obs), device=obs.device)]
