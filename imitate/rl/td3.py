"""Twin delayed deep deterministic policy gradient (arXiv:1802.09477).

The policy is deterministic and explores with Gaussian noise. It climbs the first of two critics. Their targets take the
lesser value of the target policy's action plus clipped noise. Policy and targets move once in `actor_every` updates.

Departure: the updates follow each round of `num_steps` steps, not each step.
"""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
from torch import Tensor

from imitate.configs.td3 import TD3Config
from imitate.configs.td3bc import TD3BCConfig
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.nn.average import blend
from imitate.nn.stacked import Stack
from imitate.rl.batches import Batch
from imitate.rl.continuous import ActorCritic, Critics, critic_loss, soft_targets
from imitate.rl.handed import takes

__all__ = ["TD3", "TD3Config", "first_value", "smoothed_targets"]


def first_value(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """The values (B,) of the first critic, from the outputs (C, B, 1) of all; and the gradient of their sum."""
    gradient = torch.zeros_like(outputs)
    gradient[0] = 1.0
    return outputs[0].squeeze(-1), gradient


def smoothed_targets(
    target_policy: Stack, critics: Critics, batch: Batch, noise: Tensor, config: TD3Config | TD3BCConfig
) -> Tensor:
    """Targets (B, 1): returns plus the lesser value of the target policy's next action with noise: standard normal
    `noise` (B, D), scaled and clipped."""
    noise = (config.target_noise * noise).clamp(-config.noise_clip, config.noise_clip)
    following = (target_policy.outputs(batch["next_obs"]).tanh() + noise).clamp(-1.0, 1.0)
    return soft_targets(critics.of_target(batch["next_obs"], following), 0.0, batch)


class TD3(ActorCritic):
    """TD3 on vector environments with continuous actions; `demos` fill half of each batch."""

    config: TD3Config
    parts = (*ActorCritic.parts, "target_policy")
    noises = 1  # for the next actions

    @takes(TD3Config)
    def __init__(
        self,
        config: TD3Config,
        *,
        envs: VecEnv,
        seed: int,
        demos: DemoReader | None = None,
        episodes: Array | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(
            config, envs=envs, seed=seed, demos=demos, episodes=episodes, device=device,
            log_std_init=math.log(max(config.action_noise, 1e-4)),
        )  # fmt: skip
        self.target_policy = copy.deepcopy(self.policy_net.stack).requires_grad_(False)
        self._followed = tuple(self.target_policy.parameters()), tuple(self.policy_net.stack.parameters())
        self.record(self.critics.optimizer, self.policy_net.optimizer)

    def choose(self, obs: Array, _begun: Array) -> tuple[Array, Array]:
        """A `Chooser`: uniform at first, then the policy's action with noise."""
        if not self.ready:
            return self.uniform(len(obs))
        unit = np.tanh(self.actor.outputs(obs))
        noise = self.config.action_noise * self.rng.standard_normal(unit.shape, np.float32)
        unit = (unit + noise).clip(-1.0, 1.0)
        return self.actor.from_unit(unit), unit

    def _descend(self, batch: Batch, *, improves: bool) -> dict[str, Tensor]:
        obs = batch["obs"]
        targets = smoothed_targets(self.target_policy, self.critics, batch, batch["noise"][0], self.config)
        q_loss, outputs = self.critics.fit(
            obs, batch["actions"], lambda outputs: critic_loss(outputs, targets), self.generator
        )
        found = {"q_loss": q_loss, "mean_q": outputs.mean()}
        if improves:
            found["value"] = self.improve(obs)
            self.critics.follow()
            blend(*self._followed, self.config.tau)
        return found

    def improve(self, obs: Tensor) -> Tensor:
        """One gradient step of the policy on minus the first critic's value; returns its mean."""
        value = torch.empty(())

        def gradient(outputs: Tensor) -> Tensor:
            nonlocal value
            actions = outputs.tanh()
            values, slopes = self.critics.slope(obs, actions, first_value)
            value = values.mean()
            return slopes * (1.0 - actions.square()) / -len(actions)

        self.policy_net.descend(obs, gradient)
        return value
