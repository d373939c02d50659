"""Distributions of actions, and how they are sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from imitate.envs.spaces import Array

__all__ = ["Categorical", "Choices", "Distribution", "Gaussian", "sample_gaussian", "sample_softmax"]

A = TypeVar("A", Tensor, Array)


def sample_softmax(logits: A, log_exponential: A) -> A:
    """Indices (B,) sampled from the softmax of logits (B, A), given the logarithm of exponential noise (B, A).

    Its negative is Gumbel noise, and the argmax of logits plus Gumbel noise is a sample from the softmax.
    """
    indices: A = (logits - log_exponential).argmax(-1)
    return indices


def sample_gaussian(mean: A, std: A, normal: A) -> A:
    """Samples (B, D), given standard normal noise (B, D)."""
    raw: A = mean + std * normal
    return raw


@dataclass(frozen=True, slots=True)
class Categorical:
    """Discrete actions 0 .. A-1 with logits (B, A)."""

    logits: Tensor

    def mode(self) -> Tensor:
        return self.logits.argmax(-1)

    def sample(self, generator: torch.Generator) -> Tensor:
        noise = torch.empty_like(self.logits).exponential_(generator=generator)
        return sample_softmax(self.logits, noise.log())

    def log_prob(self, actions: Tensor) -> Tensor:
        return -F.cross_entropy(self.logits, actions, reduction="none")  # (B,)

    def entropy(self) -> Tensor:
        log_probs = self.logits.log_softmax(-1)
        return -(log_probs.exp() * log_probs).sum(-1)  # (B,)


@dataclass(frozen=True, slots=True)
class Choices:
    """D independent categorical actions (B, D), each from 0, with all their logits (B, sum of sizes) side by side."""

    logits: Tensor
    sizes: tuple[int, ...]

    @property
    def parts(self) -> list[Categorical]:
        return [Categorical(logits) for logits in torch.split(self.logits, list(self.sizes), -1)]

    def mode(self) -> Tensor:
        return torch.stack([part.mode() for part in self.parts], -1)

    def sample(self, generator: torch.Generator) -> Tensor:
        return torch.stack([part.sample(generator) for part in self.parts], -1)

    def log_prob(self, actions: Tensor) -> Tensor:
        each = [part.log_prob(action) for part, action in zip(self.parts, actions.unbind(-1), strict=True)]
        return torch.stack(each).sum(0)  # (B,)

    def entropy(self) -> Tensor:
        return torch.stack([part.entropy() for part in self.parts]).sum(0)  # (B,)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Diagonal Gaussian over *raw* actions u (B, D).

    The environment gets tanh(u) if `squashed`, otherwise u clipped to [-1, 1]; both are scaled to its bounds.
    Log-probabilities are those of tanh(u) if `squashed`, otherwise of u.
    """

    mean: Tensor
    log_std: Tensor
    squashed: bool

    def mode(self) -> Tensor:
        return self.mean

    def sample(self, generator: torch.Generator) -> Tensor:
        """Reparameterised: gradients reach mean and log_std."""
        noise = torch.randn(self.mean.shape, generator=generator, device=self.mean.device)
        return sample_gaussian(self.mean, self.log_std.exp(), noise)

    def log_prob(self, raw: Tensor) -> Tensor:
        z = (raw - self.mean) * torch.exp(-self.log_std)
        log_density = -0.5 * z**2 - self.log_std - 0.5 * math.log(2 * math.pi)
        if self.squashed:
            log_density = log_density - _log_tanh_slope(raw)
        return log_density.sum(-1)  # (B,)

    def entropy(self) -> Tensor:
        """Exact without squashing; with it there is no closed form, so the correction is evaluated at the mean."""
        entropy = (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).expand_as(self.mean)
        if self.squashed:
            entropy = entropy + _log_tanh_slope(self.mean)
        return entropy.sum(-1)  # (B,)


Distribution = Categorical | Choices | Gaussian


def _log_tanh_slope(raw: Tensor) -> Tensor:
    """log(1 - tanh(u)^2) in a form that does not underflow (arXiv:1801.01290, appendix C)."""
    return 2.0 * (math.log(2.0) - raw - F.softplus(-2.0 * raw))
