"""Returns and advantages from rewards, values and the two end flags of episodes. Arrays are (T, N)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from imitate.envs.spaces import Array

__all__ = ["discounted_returns", "explained_variance", "gae", "standardized"]


def gae(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    truncated: Array,
    gamma: float,
    gae_lambda: float,
) -> Array:
    """Generalised advantage estimates (T, N), arXiv:1506.02438 eq. 16.

    `next_values` are the values of the true successors: termination zeroes them, truncation bootstraps from them, and
    either flag cuts the sum over the future.
    """
    deltas = rewards + gamma * next_values * ~terminated - values
    decay = (gamma * gae_lambda) * ~(terminated | truncated)
    advantages = np.empty_like(deltas)
    following = np.zeros_like(deltas[0])
    for t in reversed(range(len(deltas))):
        following = deltas[t] + decay[t] * following
        advantages[t] = following
    return advantages


def discounted_returns(
    rewards: Array, next_values: Array, terminated: Array, truncated: Array, gamma: float
) -> Array:
    """Monte-Carlo returns (T, N): discounted rewards until the episode or the rollout ends.

    Termination adds no value; truncation and the end of the rollout add the value of the true successor. With
    `next_values` of 0 the sum just stops there.
    """
    returns = rewards + gamma * next_values * ~terminated
    running = ~(terminated | truncated)
    for t in reversed(range(len(rewards) - 1)):
        returns[t] = np.where(running[t], rewards[t] + gamma * returns[t + 1], returns[t])
    return returns


def explained_variance(errors: Tensor, returns: Tensor) -> float:
    """Share of the variance of returns (B,) that predictions with these errors (B,) explain; 0 if they have none."""
    variance = float(returns.var()) if len(returns) > 1 else 0.0
    rounding = (4 * torch.finfo(returns.dtype).eps * float(returns.abs().max())) ** 2
    return 1.0 - float(errors.var()) / variance if variance > rounding else 0.0


def standardized(samples: Tensor) -> Tensor:
    """Samples (B,) with mean 0 and standard deviation 1; of one sample they are NaN."""
    std, mean = torch.std_mean(samples)
    return (samples - mean) / (std + 1e-8)
