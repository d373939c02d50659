"""Running statistics of observations and returns."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from imitate.envs.spaces import Array

__all__ = ["LEAST_VARIANCE", "ReturnScaler", "RunningMoments"]


LEAST_VARIANCE = 1e-6
"""Floor of an input's variance: without it, the first deviation of an almost constant input would reach the clip."""


class RunningMoments(nn.Module):
    """Running mean and variance of each feature, in float64 (Chan, Golub & LeVeque 1979, eq. 2.1).

    If `frozen` is set, `update` does nothing; for a policy that was trained elsewhere.

    least_variance  floor of the variance
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, shape: tuple[int, ...] = (), *, least_variance: float = LEAST_VARIANCE) -> None:
        super().__init__()
        self.least_variance = least_variance
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("var", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.frozen = False

    @torch.no_grad()
    def update(self, batch: Tensor) -> None:
        """Include a batch (B, *shape), unless frozen."""
        if self.frozen:
            return
        batch = batch.to(torch.float64)
        count = self.count + len(batch)
        delta = batch.mean(0) - self.mean
        weight = len(batch) / count
        within = self.var * (1 - weight) + batch.var(0, unbiased=False) * weight
        self.var.copy_(within + delta**2 * weight * (1 - weight))
        self.mean.add_(delta * weight)
        self.count.copy_(count)

    @property
    def std(self) -> Tensor:
        """Standard deviation (*shape), with a floor."""
        return self.var.clamp(min=self.least_variance).sqrt()

    def forward(self, x: Tensor) -> Tensor:
        """Standardised float32, clipped to [-10, 10]; `x` itself, clipped, before the first update."""
        return ((x.to(self.mean.dtype) - self.mean) / self.std).clamp(-10.0, 10.0).float()


class ReturnScaler(nn.Module):
    """Divides rewards by the running standard deviation of the discounted return, and clips them to [-10, 10], as SB3's
    VecNormalize does."""

    running: Tensor

    def __init__(self, num_envs: int, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma
        self.moments = RunningMoments()
        self.register_buffer("running", torch.zeros(num_envs))

    def forward(self, rewards: Array, done: Array) -> Array:
        """Scaled rewards (T, N), from rewards (T, N) of consecutive steps and end flags (T, N)."""
        running = self.running.numpy()
        discounted = np.empty(rewards.shape, np.float32)
        for t in range(len(rewards)):
            running = running * self.gamma + rewards[t]
            discounted[t] = running
            running = running * ~done[t]
        self.running.copy_(torch.from_numpy(running))
        self.moments.update(torch.from_numpy(discounted.ravel()))
        scaled: Array = (rewards / self.scale).clip(-10.0, 10.0)
        return scaled

    @property
    def scale(self) -> float:
        """Divisor of the rewards: the standard deviation of the discounted return."""
        return float(self.moments.var.sqrt() + 1e-8)

    def restart(self) -> None:
        """Forget the returns in progress; call when every environment was reset."""
        self.running.zero_()
