"""The gradient of PPO's loss by the outputs of its networks, by hand; a test compares it with autograd's."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from imitate.configs.ppo import PPOConfig
from imitate.configs.shared import LOG_STD_RANGE
from imitate.nn.distributions import Categorical, Gaussian

__all__ = ["Slopes", "ppo_slopes"]


class Slopes(NamedTuple):
    """Gradients by the policy's outputs (B, A), by the values (B, 1), and by the parameter `log_std` (D,), if there is
    one."""

    outputs: Tensor
    values: Tensor
    log_std: Tensor | None


def ppo_slopes(
    distribution: Categorical | Gaussian,
    values: Tensor,
    batch: dict[str, Tensor],
    parts: dict[str, Tensor],
    config: PPOConfig,
) -> Slopes:
    """The gradient of `ppo_loss` (`imitate.rl.ppo`), from what it was given and what it returned.

    distribution  of the actions, with RPO's perturbation added to its mean
    values        (B,) of the value function
    batch         the samples, and the number `clip_coef` ()
    parts         of the loss (B,)
    """
    surrogate = parts["surrogate"]
    # The slope of a ratio by its log-probability is the ratio itself. Where it is clipped, there is none.
    unclipped = surrogate == parts["ratio"] * parts["advantages"]
    by_log_prob = surrogate * unclipped / -len(values)  # (B,)
    by_entropy = -config.ent_coef / len(values)
    by_values = _value_errors(values, batch, config) * (2.0 * config.vf_coef / len(values))
    if isinstance(distribution, Categorical):
        by_logits = _by_logits(distribution, batch["raw_actions"], by_log_prob, by_entropy)
        return Slopes(by_logits, by_values[:, None], None)
    by_mean, by_log_std = _by_gaussian(distribution, batch["raw_actions"], by_log_prob, by_entropy)
    if distribution.log_std.dim() == 1:
        return Slopes(by_mean, by_values[:, None], by_log_std.sum(0))
    low, high = LOG_STD_RANGE  # beyond which an output of the network was clamped
    by_log_std = by_log_std * ((distribution.log_std > low) & (distribution.log_std < high))
    return Slopes(torch.cat([by_mean, by_log_std], -1), by_values[:, None], None)


def _value_errors(values: Tensor, batch: dict[str, Tensor], config: PPOConfig) -> Tensor:
    """Half the slopes (B,) of the squared errors, or of the larger one of those with and without clipping."""
    errors = values - batch["returns"]
    if not config.clip_value:
        return errors
    change, clip_coef = values - batch["values"], batch["clip_coef"]
    near = batch["values"] + change.clamp(-clip_coef, clip_coef) - batch["returns"]
    return torch.where(near.square() > errors.square(), near * (change.abs() <= clip_coef), errors)


def _by_logits(distribution: Categorical, actions: Tensor, by_log_prob: Tensor, by_entropy: float) -> Tensor:
    """The gradient (B, A) of sum(by_log_prob * log_prob(actions) + by_entropy * entropy) by the logits."""
    log_probs = distribution.logits.log_softmax(-1)
    probs = log_probs.exp()
    gradient = -by_log_prob[:, None] * probs
    gradient.scatter_add_(-1, actions[:, None], by_log_prob[:, None])
    if by_entropy:
        entropy = -(probs * log_probs).sum(-1, keepdim=True)
        gradient -= by_entropy * probs * (log_probs + entropy)
    return gradient


def _by_gaussian(
    distribution: Gaussian, raw: Tensor, by_log_prob: Tensor, by_entropy: float
) -> tuple[Tensor, Tensor]:
    """The gradient of the same sum by the mean and by the log standard deviation, (B, D) each."""
    reciprocal = torch.exp(-distribution.log_std)
    z = (raw - distribution.mean) * reciprocal
    weighted = by_log_prob[:, None] * z
    by_mean, by_log_std = weighted * reciprocal, weighted * z - by_log_prob[:, None]
    if by_entropy:
        by_log_std += by_entropy
        if distribution.squashed:  # its entropy is corrected by log(1 - tanh(mean)^2)
            by_mean -= 2.0 * by_entropy * distribution.mean.tanh()
    return by_mean, by_log_std
