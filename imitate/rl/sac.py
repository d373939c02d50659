"""Soft actor-critic (arXiv:1812.05905).

The return of a policy is its rewards plus `ent_coef` times its entropy. Critics learn the soft values of actions from a
replay, and the policy follows the slope of the least critic at its own actions.

The backward passes of the networks are written by hand (`imitate.nn.stacked`), for speed. So are the gradients of the
losses below by the networks' outputs; tests compare them with autograd.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from imitate.configs.sac import SACConfig
from imitate.configs.shared import LOG_STD_RANGE
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.nn.adam import Adam
from imitate.nn.distributions import Gaussian, sample_gaussian
from imitate.nn.stacked import Graded
from imitate.rl.batches import Batch
from imitate.rl.continuous import ActorCritic, critic_loss, soft_targets
from imitate.rl.handed import takes

__all__ = [
    "SAC",
    "TWINS",
    "Reading",
    "SACConfig",
    "Temperature",
    "actor_gradient",
    "least_value",
]


def least_value(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """The least value (B,) of the critics (C, B, 1), and the gradient of its sum."""
    values, which = outputs.min(0)  # (B, 1)
    return values.squeeze(-1), torch.zeros_like(outputs).scatter_(0, which[None], 1.0)


def actor_gradient(distribution: Gaussian, noise: Tensor, slopes: Tensor, ent_coef: Tensor | float) -> Tensor:
    """Gradient of the policy's loss by its outputs, means and log standard deviations (B, 2 D).

    The loss is `mean(ent_coef * log_prob(u) - value(tanh(u)))` at `u = mean + std * noise` (arXiv:1812.05905, eq. 7).
    The density of u at fixed noise changes only by -log std and by tanh's slope.

    slopes  gradients (B, D) of the value by the action in [-1, 1]
    """
    std = distribution.log_std.exp()
    action = sample_gaussian(distribution.mean, std, noise).tanh()
    by_mean = (2.0 * ent_coef * action - slopes * (1.0 - action.square())) / len(action)
    by_log_std = by_mean * std * noise - ent_coef / len(action)
    low, high = LOG_STD_RANGE  # beyond which it was clamped
    by_log_std *= (distribution.log_std > low) & (distribution.log_std < high)
    return torch.cat([by_mean, by_log_std], -1)


@dataclass(frozen=True)
class Reading:
    """The use of the critics' outputs (C, B, K), by which SAC and TQC differ.

    outputs  K, of each critic
    value    outputs to the value (B,) that the policy climbs, and its gradient
    targets  outputs of the target for the next action, entropy bonus (B,) and batch, to targets (B, M)
    loss     outputs and targets, to the loss () and its gradient
    mean     the value is the mean over critics, otherwise their minimum
    """

    outputs: int
    value: Graded
    targets: Callable[[Tensor, Tensor, Batch], Tensor]
    loss: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
    mean: bool = False


TWINS = Reading(1, least_value, soft_targets, critic_loss)


class Temperature:
    """The weight of the entropy. It rises while the policy's entropy is below the target, and falls above it."""

    def __init__(self, config: SACConfig, dimensions: int, device: torch.device) -> None:
        self.fixed = config.ent_coef
        self.target = -float(dimensions) if config.target_entropy is None else config.target_entropy
        self.log = nn.Parameter(torch.tensor([math.log(config.ent_coef_init)], device=device))
        self.optimizer = Adam([self.log], config.learning_rate)
        self.now: Tensor | float = self.log.detach().exp()
        self._publish()

    def adapt(self, log_probs: Tensor) -> None:
        """One gradient step on -log(ent_coef) * (mean log-probability + target)."""
        if self.fixed is not None:
            return
        self.optimizer.collect_views()
        slope = -(log_probs.mean() + self.target)
        assert self.log.grad is not None
        self.log.grad.copy_(slope)
        self.optimizer.descend(slope)
        self._publish()

    def _publish(self) -> None:
        """Set `now`, on a GPU in place, where a recorded graph reads it."""
        if self.fixed is not None:
            self.now = self.fixed
        elif isinstance(self.now, Tensor) and self.log.is_cuda:
            self.now.copy_(self.log.detach().exp())
        else:
            self.now = float(self.log.detach().exp())

    def state_dict(self) -> dict[str, Any]:
        return {"log": self.log.detach(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        with torch.no_grad():
            self.log.copy_(state["log"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._publish()


class SAC(ActorCritic):
    """SAC on vector environments with continuous actions; `demos` fill half of each batch.

    reading  the use of the critics' outputs; TQC's is another
    """

    config: SACConfig
    parts: ClassVar[tuple[str, ...]] = (*ActorCritic.parts, "temperature")
    noises = 2  # for the next actions, and for those that the policy improves

    @takes(SACConfig)
    def __init__(
        self,
        config: SACConfig,
        *,
        envs: VecEnv,
        seed: int,
        demos: DemoReader | None = None,
        episodes: Array | None = None,
        device: torch.device | str = "cpu",
        reading: Reading = TWINS,
    ) -> None:
        super().__init__(
            config, envs=envs, seed=seed, demos=demos, episodes=episodes, device=device,
            outputs=reading.outputs, mean=reading.mean, state_std=True,
        )  # fmt: skip
        self.reading = reading
        self.temperature = Temperature(config, self.dimensions, self.device)
        self.record(self.critics.optimizer, self.policy_net.optimizer, self.temperature.optimizer)

    def choose(self, obs: Array, _begun: Array) -> tuple[Array, Array]:
        """A `Chooser`: uniform at first, then a sample of the policy."""
        if not self.ready:
            return self.uniform(len(obs))
        actions, raw = self.actor.sample(obs, self.rng)
        return actions, np.tanh(raw)

    def _descend(self, batch: Batch, *, improves: bool) -> dict[str, Tensor]:
        obs, next_obs, noise = batch["obs"], batch["next_obs"], batch["noise"]
        following = self.policy.gaussian(self.policy_net.outputs(next_obs))
        raw = sample_gaussian(following.mean, following.log_std.exp(), noise[0])
        bonus = -self.temperature.now * following.log_prob(raw)
        targets = self.reading.targets(self.critics.of_target(next_obs, raw.tanh()), bonus, batch)
        q_loss, outputs = self.critics.fit(
            obs, batch["actions"], lambda outputs: self.reading.loss(outputs, targets), self.generator
        )
        found = {"q_loss": q_loss, "mean_q": outputs.mean()}
        if improves:
            found |= self.improve(obs, noise[1])
        self.critics.follow()
        return found

    def improve(self, obs: Tensor, noise: Tensor) -> dict[str, Tensor]:
        """One gradient step of the policy and of the temperature."""
        found: dict[str, Tensor] = {}

        def gradient(outputs: Tensor) -> Tensor:
            distribution = self.policy.gaussian(outputs)
            raw = sample_gaussian(distribution.mean, distribution.log_std.exp(), noise)
            found["log_probs"] = distribution.log_prob(raw)
            values, slopes = self.critics.slope(obs, raw.tanh(), self.reading.value)
            found["value"] = values.mean()
            return actor_gradient(distribution, noise, slopes, self.temperature.now)

        self.policy_net.descend(obs, gradient)
        log_probs = found.pop("log_probs")
        self.temperature.adapt(log_probs)
        return found | {"entropy": -log_probs.mean()}

    def end_iteration(self, history: list[dict[str, Tensor]]) -> dict[str, float]:
        return {"ent_coef": float(self.temperature.now)} | super().end_iteration(history)
