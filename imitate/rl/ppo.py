"""Proximal policy optimisation (arXiv:1707.06347), with the details of arXiv:2005.12729 and arXiv:2006.05990.

An iteration takes T steps of N environments, computes advantages, and runs a few epochs of minibatches over them.
Observation statistics change between iterations only, so the policy that acted is the one that is updated.

With rpo_alpha above 0 this is RPO (arXiv:2212.07536): during the update only, noise from U(-alpha, alpha) is added to
the Gaussian's mean, drawn anew for every sample, dimension and epoch. The old log-probabilities are not perturbed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from imitate.configs.ppo import PPOConfig
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.errors import InputError
from imitate.nn.adam import Adam
from imitate.nn.distributions import Gaussian
from imitate.nn.normalize import ReturnScaler
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_parts, parts_state
from imitate.rl.actor import Actor, encode, evaluate_actor_critic, make_actor_critic
from imitate.rl.budget import progress_of
from imitate.rl.returns import gae
from imitate.rl.rollout import Rollout, Sampler

__all__ = ["PPO", "Guide", "PPOConfig", "ppo_loss"]

STATEFUL = ("policy", "value_net", "optimizer", "scaler")


def ppo_loss(
    policy: ActorPolicy, value_net: nn.Module, batch: dict[str, Tensor], config: PPOConfig, clip_coef: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Clipped surrogate, value and entropy losses (arXiv:1707.06347 eq. 9), and their parts (B,).

    The part `log_ratio` is computed without RPO's perturbation.

    batch holds, over B samples: obs (prepared), raw_actions, log_probs, advantages, returns, values, and for RPO
    a perturbation (B, D) of the mean.
    """
    distribution, values = evaluate_actor_critic(policy, value_net, batch["obs"])
    log_ratio = distribution.log_prob(batch["raw_actions"]) - batch["log_probs"]  # (B,)
    ratio = log_ratio.exp()
    if "perturbation" in batch:
        assert isinstance(distribution, Gaussian)
        distribution = replace(distribution, mean=distribution.mean + batch["perturbation"])
        ratio = (distribution.log_prob(batch["raw_actions"]) - batch["log_probs"]).exp()
    advantages = batch["advantages"]
    if config.standardize_advantages:
        std, mean = torch.std_mean(advantages)
        advantages = (advantages - mean) / (std + 1e-8)
    # min(ratio A, clip(ratio) A), written so that the clipped side, which has no gradient, is not in the graph.
    surrogate = torch.minimum(ratio * advantages, advantages + clip_coef * advantages.abs())

    value_error = F.mse_loss(values, batch["returns"], reduction="none")
    if config.clip_value:
        near = batch["values"] + (values - batch["values"]).clamp(-clip_coef, clip_coef)
        value_error = torch.maximum(value_error, (near - batch["returns"]) ** 2)

    loss = (config.vf_coef * value_error - surrogate).mean()
    if config.ent_coef:
        loss = loss - config.ent_coef * distribution.entropy().mean()
    parts = {"surrogate": surrogate, "value_error": value_error, "ratio": ratio, "log_ratio": log_ratio}
    return loss, parts


class Guide(Protocol):
    """Another's values that the advantages of an update lean on (LOKI's `Guidance`).

    trace   factor of gae_lambda
    """

    @property
    def trace(self) -> float: ...

    def next_values(self, rollout: Rollout, own: Array, reward_scale: float) -> Array:
        """Values (T, N) of the true successors, in place of PPO's `own` (T, N); rewards are divided by the scale."""
        ...


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """KL divergence of the old policy from the new, k3 of http://joschu.net/blog/kl-approx.html."""
    return (log_ratio.exp() - 1 - log_ratio).mean()


class PPO:
    """PPO on vector environments; give `policy` to fine-tune it."""

    expert_queries = 0

    def __init__(
        self,
        config: PPOConfig,
        *,
        envs: VecEnv,
        seed: int,
        device: torch.device | str = "cpu",
        policy: ActorPolicy | None = None,
    ) -> None:
        self.config, self.seed, self.device = config, seed, torch.device(device)
        # The standard deviation of one sample is NaN.
        self.least_steps = max(envs.num_envs, 2) if config.standardize_advantages else envs.num_envs
        if config.num_steps * envs.num_envs < self.least_steps:
            raise InputError(
                "num_steps must be at least 2 to standardise advantages with one environment, got 1"
            )
        policy, value_net = make_actor_critic(
            config, envs, seed=seed, device=self.device, policy=policy, share_pixels=True
        )
        if policy.head == "categorical" and (config.rpo_alpha or config.rpo_alpha_final):
            raise InputError(
                f"rpo_alpha moves the mean of a Gaussian, but actions are {envs.single_action_space}; set it to 0"
            )
        self.policy, self.value_net = policy, value_net
        self.optimizer = Adam(
            [*self.policy.parameters(), *self.value_net.parameters()],
            config.learning_rate,
            eps=1e-5,
            max_grad_norm=config.max_grad_norm,
        )
        self.actor = Actor(self.policy)
        self.scaler = ReturnScaler(envs.num_envs, config.gamma) if config.normalize_rewards else None
        self.iteration = 0
        self.sampler = Sampler(envs)
        self._reseed()

    @property
    def env_steps(self) -> int:
        return self.sampler.env_steps

    @property
    def done(self) -> bool:
        return self.env_steps >= self.config.total_steps

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps: rollout, advantages, update."""
        progress = progress_of(self, limit)
        return self.update(self.collect(limit), progress) | self.pop_episodes()

    def collect(self, limit: int | None = None) -> Rollout:
        """A rollout of the current policy, at most `limit` steps."""
        return self.sampler.collect(self._choose, self.config.num_steps, limit)

    def pop_episodes(self) -> dict[str, float]:
        """Mean return and length of the episodes that ended since the last call, in the environment's own rewards."""
        return self.sampler.pop_episodes()

    def update(self, rollout: Rollout, progress: float, guide: Guide | None = None) -> dict[str, float]:
        """Learn from a rollout, whose rewards the caller may have replaced (GAIL does).

        progress    position of the schedules in [0, 1]
        guide       values for the advantages to lean on; None: the value function alone
        """
        config = self.config
        remaining = 1.0 - progress
        learning_rate = config.learning_rate * (remaining if config.lr_schedule == "linear" else 1.0)
        clip_coef = config.clip_coef * (remaining if config.clip_schedule == "linear" else 1.0)
        rpo_alpha = config.rpo_alpha_at(remaining)
        if self.iteration == config.value_warmup:
            self.optimizer.restart()  # the policy's moments begin here
        self.optimizer.learning_rate = learning_rate
        data = self._prepare(rollout, guide)
        history: list[dict[str, Tensor]] = []  # one entry per minibatch
        for batch in itertools.chain.from_iterable(self._minibatches(data) for _ in range(config.num_epochs)):
            if rpo_alpha:
                batch = batch | {"perturbation": self._perturbation(batch["raw_actions"], rpo_alpha)}
            loss, parts = ppo_loss(self.policy, self.value_net, batch, config, clip_coef)
            history.append({name: part.detach() for name, part in parts.items()})
            log_ratio = history[-1]["log_ratio"]
            if config.target_kl is not None and approximate_kl(log_ratio) > 1.5 * config.target_kl:
                break
            if self.iteration < config.value_warmup:
                loss = config.vf_coef * parts["value_error"].mean()
            self.optimizer.step(loss)
            self.policy.project_()
        self.iteration += 1
        # Only now: statistics change between iterations, so that the policy that acted is the one updated.
        self.policy.encoder.observe(torch.from_numpy(rollout.flat_obs).to(self.device))
        surrogate, value_error, ratio, log_ratio = (
            torch.cat([parts[name] for parts in history]) for name in history[0]
        )
        explained = 1 - (data["returns"] - data["values"]).var() / (data["returns"].var() + 1e-8)
        metrics = {
            "policy_loss": -surrogate.mean(),
            "value_loss": value_error.mean(),
            "entropy": -data["log_probs"].mean(),  # estimated for the policy that acted, from its own actions
            "approx_kl": approximate_kl(log_ratio),
            "clip_fraction": ((ratio - 1).abs() > clip_coef).float().mean(),
            "explained_variance": explained,
        }
        return {name: float(value) for name, value in metrics.items()} | {"learning_rate": learning_rate}

    @torch.no_grad()
    def _prepare(self, rollout: Rollout, guide: Guide | None = None) -> dict[str, Tensor]:
        """Flatten (T, N) to (B,), with values, log-probabilities, advantages and returns computed in one batch."""
        steps, num_envs = rollout.rewards.shape
        obs = self._encode(rollout.flat_obs)
        raw_actions = torch.from_numpy(rollout.actions).to(self.device).flatten(0, 1)
        log_probs, flat_values = self._evaluate(obs, raw_actions)
        values = flat_values.cpu().numpy().reshape(steps, num_envs)
        next_values, trace = rollout.next_values(values, self._value), self.config.gae_lambda
        rewards = rollout.rewards if self.scaler is None else self.scaler(rollout.rewards, rollout.done)
        if guide is not None:
            scale = 1.0 if self.scaler is None else self.scaler.scale
            next_values, trace = guide.next_values(rollout, next_values, scale), trace * guide.trace
        advantages = gae(
            rewards,
            values,
            next_values,
            rollout.terminated,
            rollout.truncated,
            self.config.gamma,
            trace,
        )
        flat = {"advantages": advantages, "returns": advantages + values, "values": values}
        return {
            "obs": obs,
            "raw_actions": raw_actions,
            "log_probs": log_probs,
            **{name: torch.from_numpy(array).to(self.device).flatten() for name, array in flat.items()},
        }

    def _evaluate(self, obs: Tensor, raw_actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities and values (B,); pixels go in chunks, as their activations are 100 times as large."""
        piece = 256 if self.policy.encoder.is_image else len(obs)
        columns: tuple[list[Tensor], list[Tensor]] = ([], [])
        for some_obs, some_actions in zip(
            torch.split(obs, piece), torch.split(raw_actions, piece), strict=True
        ):
            distribution, values = evaluate_actor_critic(self.policy, self.value_net, some_obs)
            columns[0].append(distribution.log_prob(some_actions))
            columns[1].append(values)
        return torch.cat(columns[0]), torch.cat(columns[1])

    def _minibatches(self, data: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
        """One epoch: every sample once, in a new random order."""
        size = len(data["obs"])
        if size <= self.config.batch_size:
            yield data
            return
        order = torch.randperm(size, generator=self.generator, device=self.device)
        for index in torch.split(order, self.config.batch_size):
            if len(index) < 2 and self.config.standardize_advantages:
                continue  # the standard deviation of one sample is NaN
            yield {name: tensor[index] for name, tensor in data.items()}

    def _perturbation(self, raw_actions: Tensor, alpha: float) -> Tensor:
        return torch.empty_like(raw_actions).uniform_(-alpha, alpha, generator=self.generator)

    def _choose(self, obs: Array, _begun: Array) -> tuple[Array, Array]:
        return self.actor.sample(obs, self.rng)

    def _encode(self, obs: Array) -> Tensor:
        return encode(self.policy, obs)

    def _value(self, obs: Array) -> Array:
        values: Array = self.value_net(self._encode(obs)).cpu().numpy()
        return values

    def _reseed(self) -> None:
        seed = draw_seed(self.seed, self.iteration)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.sampler.restart(seed)
        if self.scaler is not None:
            self.scaler.restart()

    def state_dict(self) -> dict[str, Any]:
        return {"iteration": self.iteration, "env_steps": self.env_steps} | parts_state(self, *STATEFUL)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes, seeded by the iteration: a checkpoint is a reset point."""
        load_parts(self, state, *STATEFUL)
        self.iteration, self.sampler.env_steps = state["iteration"], state["env_steps"]
        self._reseed()
