"""Common parts of imitators of an expert's actions: a new policy, the losses of cloning, steps down their gradients.

Gradients of small networks are taken by hand (`imitate.nn.stacked`), so a step takes two thirds of the time. Tests
compare them with autograd's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from gymnasium import spaces
from torch import Tensor

from imitate.configs.bc import BCConfig
from imitate.configs.dagger import DAggerConfig
from imitate.datasets.trajectory import tensor_of
from imitate.envs.spaces import Array, values_of
from imitate.errors import InputError
from imitate.nn.adam import Adam
from imitate.nn.distributions import Distribution, Gaussian
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.stacked import stack_of

__all__ = [
    "Cloning",
    "Loss",
    "agreement",
    "bc_loss",
    "imitation_loss",
    "losses_of",
    "mean_agreement",
    "new_policy",
]

_EDGE = 0.99  # of the bounds, where the input of the tanh would be infinite

Loss = Callable[[ActorPolicy, Distribution, Tensor], Tensor]


def new_policy(
    config: BCConfig | DAggerConfig,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    *,
    seed: int,
    normalize_obs: bool = True,
) -> ActorPolicy:
    """An untrained policy whose weights depend on `seed` alone; continuous actions are squashed.

    Where the config leaves the widths open, continuous actions get more: from ten episodes of HalfCheetah 64 tanh units
    return a thirtieth of what 256 relu units do.
    """
    discrete = values_of(action_space) is not None
    with seeded(seed):
        return ActorPolicy(
            observation_space,
            action_space,
            hidden=((64, 64) if discrete else (256, 256)) if config.hidden is None else config.hidden,
            activation=config.activation or ("tanh" if discrete else "relu"),
            head="categorical" if discrete else "squashed",
            log_std_init=config.log_std_init,
            normalize_obs=normalize_obs,
        )


def imitation_loss(policy: ActorPolicy, distribution: Distribution, actions: Tensor) -> Tensor:
    """Loss (B,) of cloning `actions` (B, ...) in the policy's units (`to_unit`): indices from 0, or in [-1, 1]^D.

    Discrete actions: cross-entropy, summed over the parts of an action. Continuous actions: mean squared error of the
    policy's mode, since the likelihood of a squashed Gaussian is infinite at the bounds, where experts often act.
    """
    if not isinstance(distribution, Gaussian):
        return -distribution.log_prob(actions)
    return (policy.to_unit(policy.to_env(distribution.mode())) - actions).square().mean(-1)


def bc_loss(policy: ActorPolicy, distribution: Distribution, actions: Tensor) -> Tensor:
    """BC's loss (B,): `imitation_loss`, or the squared error before the tanh of a squashed policy.

    At the bounds, where experts often act, the tanh has hardly a gradient; `actions` beyond 0.99 count as 0.99.
    """
    if policy.head != "squashed":
        return imitation_loss(policy, distribution, actions)
    return (distribution.mode() - actions.clamp(-_EDGE, _EDGE).atanh()).square().mean(-1)


def losses_of(loss: Loss, policy: ActorPolicy, distribution: Distribution, labels: Tensor) -> Tensor:
    """A loss (B,) of the policy's distribution for B observations, and labels (B, ...) in the environment's units.

    Raises InputError if a loss that was handed in gives another shape.
    """
    losses = loss(policy, distribution, policy.to_unit(labels))
    if losses.shape != (len(labels),):
        raise InputError(f"the loss has the shape {tuple(losses.shape)}, wanted ({len(labels)},): one each")
    return losses


class Cloning:
    """Gradient steps of a policy on a loss.

    stack  the policy's network with gradients by hand; None: by autograd, as for pixels
    """

    def __init__(self, policy: ActorPolicy, loss: Loss, optimizer: Adam) -> None:
        self.policy, self.loss, self.optimizer = policy, loss, optimizer
        self.stack, self._graded = stack_of(policy), _graded(policy, loss)

    def descend(self, prepared: Tensor, labels: Tensor) -> Tensor:
        """One step for prepared observations and labels (B, ...) in the environment's units; returns the mean loss."""
        stack, graded = self.stack, self._graded
        if stack is None or graded is None:
            loss = losses_of(self.loss, self.policy, self.policy(prepared), labels).mean()
            self.optimizer.step(loss)
            return loss.detach()
        actions = self.policy.to_unit(labels)
        loss, _ = stack.descend(prepared, lambda outputs: graded(outputs, actions), self.optimizer)
        return loss


def _graded(policy: ActorPolicy, loss: Loss) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None:
    """The mean of a loss () and its gradient (B, A), from the network's outputs (B, A) and actions in the policy's
    units; None if only autograd knows it."""
    if isinstance(policy.action_space, spaces.Discrete):
        return _cross_entropy if loss in (bc_loss, imitation_loss) else None
    if policy.head != "squashed" or policy.state_std or not torch.all(cast(Tensor, policy.scale) > 0):
        return None
    if loss is bc_loss:
        return _error_before_tanh
    return _error_after_tanh if loss is imitation_loss else None


def _cross_entropy(outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    log_probs, taken = outputs.log_softmax(-1), actions[:, None]
    loss = -log_probs.gather(-1, taken).mean()
    gradient = log_probs.exp_().scatter_add_(-1, taken, log_probs.new_full(taken.shape, -1.0))
    return loss, gradient.div_(len(actions))


def _error_before_tanh(outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    errors = outputs - actions.clamp(-_EDGE, _EDGE).atanh()
    return errors.square().mean(), errors * (2.0 / errors.numel())


def _error_after_tanh(outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    unit = outputs.tanh()
    errors = unit - actions
    return errors.square().mean(), errors * (1.0 - unit.square()) * (2.0 / errors.numel())


def agreement(policy: ActorPolicy, distribution: Distribution, labels: Tensor) -> Tensor:
    """(B,) 1 where the mode of the policy's distribution agrees with the label (B, ...), else 0.

    Discrete actions must be equal in all parts; continuous ones within a tenth of half the range in every dimension.
    """
    mode = distribution.mode()
    if policy.head == "categorical":
        equal = torch.eq(mode, policy.to_unit(labels))
        return equal.reshape(len(mode), -1).all(-1).float()
    error = policy.to_unit(policy.to_env(mode)) - policy.to_unit(labels)
    return (error.abs() < 0.1).all(-1).float()


@torch.inference_mode()
def mean_agreement(policy: ActorPolicy, obs: Array, labels: Array) -> float:
    """Mean `agreement` over observations (N, *obs_shape); give states that the policy was not trained on."""
    device = policy.output.weight.device
    prepared = policy.encoder.prepare(tensor_of(obs).to(device))
    return float(agreement(policy, policy(prepared), torch.from_numpy(labels).to(device)).mean())
