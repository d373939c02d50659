"""TD3+BC (arXiv:2106.06860): reinforcement learning from recorded steps and their rewards alone.

It is TD3 on a replay that never grows, with cloning in the policy's loss: where the recorded policies were bad, the
critics improve on them, and cloning keeps the policy to actions whose values the record can tell.

    minimise  - alpha / mean|Q| * Q(s, pi(s)) + (pi(s) - a)^2

The mean is over the policy's actions in a batch. Observations are standardised by the statistics of the record.
Departures: the critics have layer norm, and the policy that is kept is the last one.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.configs.td3bc import TD3BCConfig
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array, check_plain
from imitate.errors import InputError
from imitate.nn.average import blend
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.stacked import CriticShape
from imitate.nn.state import load_parts, parts_state
from imitate.rl.batches import Batch, batch_of, means, parted, replay_of
from imitate.rl.continuous import Critics, PolicyNet, critic_loss
from imitate.rl.handed import takes
from imitate.rl.td3 import first_value, smoothed_targets

__all__ = ["TD3BC", "TD3BCConfig", "actor_gradient"]

_DRAWN = 100  # minibatches that are sampled together, which takes less time


def actor_gradient(
    outputs: Tensor, actions: Tensor, slopes: Tensor, weight: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Gradient of the policy's loss by its outputs (B, D), and the cloning loss ().

    The loss is `mean(-weight * value) + mean((tanh(outputs) - actions)^2)`, the second over dimensions too.

    actions  recorded, in [-1, 1] (B, D)
    slopes   gradients (B, D) of the value by the policy's action
    weight   of the values
    """
    unit = outputs.tanh()
    errors = unit - actions
    by_action = (2 * errors / errors.shape[1] - weight * slopes) / len(errors)
    return by_action * (1 - unit.square()), errors.square().mean()


class TD3BC:
    """TD3+BC on demonstrations in memory with rewards; `episodes` are indices, by default all.

    Raises InputError unless observations are vectors or numbers, and actions a vector; and if all rewards are 0, as
    those of recordings without rewards are.
    """

    env_steps = least_steps = expert_queries = 0
    parts = ("policy", "critics", "policy_net", "target_policy")

    @takes(TD3BCConfig)
    def __init__(
        self,
        config: TD3BCConfig,
        *,
        demos: DemoReader,
        seed: int,
        episodes: Array | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        space, actions = demos.info.observation_space, demos.info.action_space
        check_plain("td3bc", space, actions)
        if not isinstance(actions, spaces.Box) or len(space.shape or ()) == 3:
            raise InputError(f"td3bc wants vectors and continuous actions, got {space} and {actions}; use bc")
        self.config, self.seed, self.device = config, seed, torch.device(device)
        shape = CriticShape(2, 1, config.hidden, config.gamma, layer_norm=config.layer_norm)
        with seeded(seed):
            policy = ActorPolicy(
                space,
                actions,
                hidden=config.hidden,
                activation="relu",
                head="squashed",
                log_std_init=-1.0,
                normalize_obs=True,
                critic=shape,
            )
        self.policy = policy.to(self.device)
        self.replay = replay_of(demos, episodes, policy, gamma=config.gamma, executed=True)
        if not self.replay.rewards.any():
            raise InputError(
                "the rewards of these demonstrations are all 0: td3bc learns from rewards; use bc"
            )
        policy.encoder.observe(torch.from_numpy(self.replay.frames[self.replay.acted]).to(self.device))
        self.critics = Critics(policy, config.learning_rate, config.tau)
        self.policy_net = PolicyNet(policy, config.learning_rate)
        self.target_policy = copy.deepcopy(self.policy_net.stack).requires_grad_(False)
        self._followed = tuple(self.target_policy.parameters()), tuple(self.policy_net.stack.parameters())
        self.iteration = self.updates = 0

    @property
    def done(self) -> bool:
        return self.updates >= self.config.max_updates

    def step(self, limit: int | None = None) -> dict[str, float]:  # noqa: ARG002
        """One iteration of gradient steps; `limit` is ignored, since no environment steps are taken."""
        seed = draw_seed(self.seed, self.iteration)
        rng, self.generator = np.random.default_rng(seed), torch.Generator(self.device).manual_seed(seed)
        due, history = min(self.config.updates_per_iteration, self.config.max_updates - self.updates), []
        for begin in range(0, due, _DRAWN):
            count = min(_DRAWN, due - begin)
            samples = self.replay.sample(count * self.config.batch_size, rng)
            history += [self.update(batch) for batch in parted([batch_of(samples, self.policy)], count)]
        self.iteration += 1
        return means(history) | {"progress": self.updates / self.config.max_updates}

    @torch.no_grad()
    def update(self, batch: Batch) -> dict[str, Tensor]:
        """One gradient step of the critics, and of the policy if it is due; returns means."""
        obs, config = batch["obs"], self.config
        noise = torch.randn(batch["actions"].shape, generator=self.generator, device=self.device)
        targets = smoothed_targets(self.target_policy, self.critics, batch, noise, config)
        q_loss, outputs = self.critics.fit(
            obs, batch["actions"], lambda outputs: critic_loss(outputs, targets), self.generator
        )
        found = {"q_loss": q_loss, "mean_q": outputs.mean()}
        self.updates += 1
        if self.updates % config.actor_every == 0:
            found["cloning_loss"] = self.improve(obs, batch["actions"])
            self.critics.follow()
            blend(*self._followed, config.tau)
        return found

    def improve(self, obs: Tensor, actions: Tensor) -> Tensor:
        """One gradient step of the policy; returns the cloning loss ()."""
        cloning = torch.empty(())

        def gradient(outputs: Tensor) -> Tensor:
            nonlocal cloning
            values, slopes = self.critics.slope(obs, outputs.tanh(), first_value)
            weight = self.config.alpha / values.abs().mean().clamp(min=1e-6)
            by_outputs, cloning = actor_gradient(outputs, actions, slopes, weight)
            return by_outputs

        self.policy_net.descend(obs, gradient)
        return cloning

    def state_dict(self) -> dict[str, Any]:
        return {"iteration": self.iteration, "updates": self.updates} | parts_state(self, *self.parts)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.iteration, self.updates = state["iteration"], state["updates"]
        load_parts(self, state, *self.parts)
