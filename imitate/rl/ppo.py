"""Proximal policy optimisation (arXiv:1707.06347), with the details of arXiv:2005.12729 and arXiv:2006.05990.

An iteration takes T steps of N environments, computes advantages, and runs a few epochs of minibatches over them.
Observation statistics change between iterations only, so the policy that acted is the one that is updated.

A policy that is handed in is fine-tuned. If its head is another than `head`, as an imitator's tanh is, it first plays,
and a policy with that head is fitted to its actions (`imitate.nn.refit`).

With rpo_alpha above 0 this is RPO (arXiv:2212.07536): during the update only, noise from U(-alpha, alpha) is added to
the Gaussian's mean, drawn anew for every sample, dimension and epoch. The old log-probabilities are not perturbed.
With rpo_in_rollout it is added while acting too, which the paper does not do; the old log-probabilities are then of the
perturbed mean that acted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from imitate.configs.ppo import PPOConfig
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.errors import InputError
from imitate.nn.adam import Adam
from imitate.nn.distributions import Choices, Distribution, Gaussian
from imitate.nn.graphed import Graphed
from imitate.nn.normalize import ReturnScaler
from imitate.nn.policy import ActorPolicy
from imitate.nn.refit import with_head
from imitate.nn.stacked import Stack, stack_of
from imitate.rl.budget import progress_of
from imitate.rl.fit_by_play import fit_by_play
from imitate.rl.handed import takes
from imitate.rl.on_policy import Guide, OnPolicy, evaluate_actor_critic, least_steps
from imitate.rl.ppo_slopes import ppo_slopes
from imitate.rl.returns import explained_variance, standardized
from imitate.rl.rollout import Rollout

__all__ = ["PPO", "PPOConfig", "perturbation", "ppo_loss"]


def ppo_loss(
    policy: Callable[[Tensor], Distribution],
    value_net: Callable[[Tensor], Tensor],
    batch: dict[str, Tensor],
    config: PPOConfig,
    clip_coef: Tensor,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Clipped surrogate, value and entropy losses (arXiv:1707.06347 eq. 9), and their parts (B,).

    The part `log_ratio` is computed without RPO's perturbation; `advantages` are as they were used.

    clip_coef is a number (). batch holds, over B samples: obs (prepared), raw_actions, log_probs, advantages, returns,
    values, and for RPO a perturbation (B, D) of the mean; if rollouts are perturbed too, log_probs are of the moved
    mean and `unmoved` are of the policy itself.
    """
    distribution, values = evaluate_actor_critic(policy, value_net, batch["obs"])
    log_ratio = distribution.log_prob(batch["raw_actions"]) - batch.get("unmoved", batch["log_probs"])  # (B,)
    ratio = log_ratio.exp()
    if "perturbation" in batch:
        distribution = moved_by(distribution, batch["perturbation"])
        ratio = (distribution.log_prob(batch["raw_actions"]) - batch["log_probs"]).exp()
    advantages = batch["advantages"]
    if config.standardize_advantages:
        advantages = standardized(advantages)
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
    return loss, parts | {"advantages": advantages}


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """KL divergence of the old policy from the new, k3 of http://joschu.net/blog/kl-approx.html."""
    return (log_ratio.exp() - 1 - log_ratio).mean()


def perturbation(raw_actions: Tensor, alpha: float, generator: torch.Generator) -> Tensor:
    """RPO's noise for the mean (B, D), from U(-alpha, alpha)."""
    return torch.empty_like(raw_actions).uniform_(-alpha, alpha, generator=generator)


def moved_by(distribution: Gaussian, noise: Tensor) -> Gaussian:
    """The distribution with noise (B, D) added to its mean."""
    return replace(distribution, mean=distribution.mean + noise)


class PPO(OnPolicy):
    """PPO on vector environments; give `policy` to fine-tune it.

    imitator    the policy that was handed in, until one with another head is fitted to it
    moves       what RPO added to the means in the last rollout, (N, D) for each step; empty if it perturbs only updates
    stacks      policy and value function with gradients by hand; None: by autograd, as for pixels and frozen layers
    """

    config: PPOConfig
    imitator: ActorPolicy | None = None
    moves: list[Array]

    @takes(PPOConfig)
    def __init__(
        self,
        config: PPOConfig,
        *,
        envs: VecEnv,
        seed: int,
        device: torch.device | str = "cpu",
        policy: ActorPolicy | None = None,
    ) -> None:
        if policy is not None:
            head = config.head or ("categorical" if policy.head == "categorical" else "clipped")
            if head != policy.head:
                log_std_init = config.log_std_init if policy.state_std else None
                self.imitator = policy.to(device)
                policy = with_head(policy, head, seed=seed, log_std_init=log_std_init)
        super().__init__(config, envs=envs, seed=seed, device=device, policy=policy, share_pixels=True)
        self.moves = []
        self.least_steps = least_steps(
            config.num_steps, envs.num_envs, standardize=config.standardize_advantages
        )
        if self.policy.head == "categorical" and config.perturbs:
            raise InputError(
                f"rpo_alpha moves the mean of a Gaussian, but actions are {envs.single_action_space}; set it to 0"
            )
        if config.normalize_rewards:
            self.scaler = ReturnScaler(envs.num_envs, config.gamma)
        learned = [*self.policy.parameters(), *self.value_net.parameters()]
        self.optimizer = Adam(learned, config.learning_rate, eps=1e-5, max_grad_norm=config.max_grad_norm)
        actor, critic = stack_of(self.policy), stack_of(self.value_net)
        self.stacks: tuple[Stack, Stack] | None = None
        if actor is not None and critic is not None and actor.learns:
            self.stacks = actor, critic
        self._graphed = Graphed(self._descend, self.optimizer)

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps: rollout, advantages, update. The first one fits a policy
        whose head is new."""
        if self.imitator is not None:
            metrics = fit_by_play(self, self.imitator, limit)
            self.imitator = None  # not before: if an episode fails, it is fitted when the run goes on
            return metrics
        progress = progress_of(self, limit)
        return self.update(self.collect(limit), progress) | self.pop_episodes()

    def collect(self, limit: int | None = None) -> Rollout:
        """A rollout of the current policy, at most `limit` steps."""
        self.moves = []
        if self.config.reset_each_rollout:
            self.restart()
        if self.config.rpo_in_rollout:
            self._alpha = self.config.rpo_alpha_at(progress_of(self, limit))
        return self.sampler.collect(self.choose, self.config.num_steps, limit)

    def choose(self, obs: Array, begun: Array) -> tuple[Array, Array]:
        """A `Chooser`: samples from the policy, and moves its mean if RPO perturbs rollouts."""
        if not self.config.rpo_in_rollout:
            return super().choose(obs, begun)
        size = self.policy.output.out_features // (2 if self.policy.state_std else 1)
        self.moves.append(self.rng.uniform(-self._alpha, self._alpha, (len(obs), size)).astype(np.float32))
        return self.actor.sample(obs, self.rng, self.moves[-1])

    def update(self, rollout: Rollout, progress: float, guide: Guide | None = None) -> dict[str, float]:
        """Learn from a rollout, whose rewards the caller may have replaced (GAIL does).

        progress    position of the schedules in [0, 1]
        guide       values for the advantages to lean on; None: the value function alone
        """
        config = self.config
        clip_coef, rpo_alpha = config.clip_coef_at(progress), config.rpo_alpha_at(progress)
        self.optimizer.learning_rate = config.learning_rate_at(progress)
        if self.updates == config.value_warmup:
            self.optimizer.restart()  # the policy's moments begin here
        data = self._samples(rollout, guide)
        history = self._descend_epochs(data, clip_coef, rpo_alpha)
        self._graphed.check()
        self.updates += 1
        # Only now: statistics change between iterations, so that the policy that acted is the one updated.
        self.policy.encoder.observe(self.flat(rollout.obs))
        schedules = {"learning_rate": self.optimizer.learning_rate}
        schedules |= {"rpo_alpha": rpo_alpha} if config.perturbs else {}
        return _metrics(data, history, clip_coef) | schedules

    def _descend_epochs(
        self, data: dict[str, Tensor], clip_coef: float, rpo_alpha: float
    ) -> list[dict[str, Tensor]]:
        """A gradient step on each minibatch, or fewer if the policy has moved too far; the parts of each loss."""
        config = self.config
        history: list[dict[str, Tensor]] = []
        # Otherwise a step depends on its own loss, or trains only a part: no graph can.
        graphed = config.target_kl is None and self.updates >= config.value_warmup
        clip = torch.tensor(clip_coef, device=self.device)
        for batch in self._minibatches(data):
            if rpo_alpha:
                noise = perturbation(batch["raw_actions"], rpo_alpha, self.generator)
                batch = batch | {"perturbation": noise}
            if graphed:
                history.append(self._graphed(batch | {"clip_coef": clip}))
                continue
            loss, parts = ppo_loss(self.policy, self.value_net, batch, config, clip)
            history.append({name: part.detach() for name, part in parts.items()})
            log_ratio = history[-1]["log_ratio"]
            if config.target_kl is not None and approximate_kl(log_ratio) > 1.5 * config.target_kl:
                break
            if self.updates < config.value_warmup:
                loss = config.vf_coef * parts["value_error"].mean()
            self.optimizer.step(loss)
            self.policy.project_()
        return history

    def _descend(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """One gradient step; returns the parts (B,) of the loss."""
        if self.stacks is not None:
            return self._descend_by_hand(batch, *self.stacks)
        loss, parts = ppo_loss(self.policy, self.value_net, batch, self.config, batch["clip_coef"])
        self.optimizer.step(loss)
        self.policy.project_()
        return {name: part.detach() for name, part in parts.items()}

    @torch.no_grad()
    def _descend_by_hand(self, batch: dict[str, Tensor], actor: Stack, critic: Stack) -> dict[str, Tensor]:
        """`_descend` without autograd, in two thirds of its time for small networks."""
        outputs, tape = actor(batch["obs"])
        values, value_tape = critic(batch["obs"])
        values, distribution = values.squeeze(-1), self.policy.of_outputs(outputs)
        assert not isinstance(distribution, Choices)
        loss, parts = ppo_loss(
            lambda _: distribution, lambda _: values, batch, self.config, batch["clip_coef"]
        )
        if "perturbation" in batch:
            assert isinstance(distribution, Gaussian)
            distribution = moved_by(distribution, batch["perturbation"])
        slopes = ppo_slopes(distribution, values, batch, parts, self.config)
        self.optimizer.collect_views()
        actor.backward(tape, slopes.outputs)
        critic.backward(value_tape, slopes.values)
        if slopes.log_std is not None and self.policy.log_std.requires_grad:
            assert self.policy.log_std.grad is not None
            self.policy.log_std.grad.copy_(slopes.log_std)
        self.optimizer.descend(loss)
        self.policy.project_()
        return parts

    @torch.no_grad()
    def _samples(self, rollout: Rollout, guide: Guide | None) -> dict[str, Tensor]:
        """The T * N samples of a rollout, in columns."""
        obs = self.policy.encoder.prepare(self.flat(rollout.obs))
        raw_actions = self.flat(rollout.actions)
        # Pixels go in chunks, as their activations are 100 times as large.
        chunk = 256 if self.policy.encoder.is_image else len(obs)
        moves = torch.split(self.flat(np.stack(self.moves)), chunk) if self.moves else ()
        log_probs, unmoved, values = [], [], []
        for some_obs, some_actions, some_moves in zip_longest(
            torch.split(obs, chunk), torch.split(raw_actions, chunk), moves
        ):
            distribution, some_values = evaluate_actor_critic(self.policy, self.value_net, some_obs)
            if some_moves is not None:
                unmoved.append(distribution.log_prob(some_actions))
                distribution = moved_by(distribution, some_moves)
            log_probs.append(distribution.log_prob(some_actions))
            values.append(some_values)
        data = {"obs": obs, "raw_actions": raw_actions, "log_probs": torch.cat(log_probs)}
        if unmoved:
            data["unmoved"] = torch.cat(unmoved)
        data["values"] = torch.cat(values)
        data["advantages"] = self.advantages(rollout, data["values"], self.config.gae_lambda, guide)
        data["returns"] = data["advantages"] + data["values"]
        return data

    def _minibatches(self, data: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
        """A few epochs: in each, every sample once, in a new random order."""
        size = len(data["obs"])
        for _ in range(self.config.num_epochs):
            if size <= self.config.batch_size:
                yield data
                continue
            for index in self.shuffled(size, self.config.batch_size):
                if len(index) > 1 or not self.config.standardize_advantages:  # one sample has no deviation
                    yield {name: tensor[index] for name, tensor in data.items()}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"head": self.policy.head, "fitted": self.imitator is None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes. Raises InputError if it is of a policy with another head."""
        if state.get("head", self.policy.head if self.imitator is None else None) != self.policy.head:
            raise InputError(
                "the state is of a policy with another head: give the `head` with which it began"
            )
        if state.get("fitted", state["env_steps"] > 0):
            self.imitator = None
        super().load_state_dict(state)


def _metrics(data: dict[str, Tensor], history: list[dict[str, Tensor]], clip_coef: float) -> dict[str, float]:
    """Means over the samples (T * N,) and over the parts (B,) of the loss of each minibatch."""
    surrogate, value_error, ratio, log_ratio = (
        torch.cat([parts[name] for parts in history])
        for name in ("surrogate", "value_error", "ratio", "log_ratio")
    )
    metrics: dict[str, Tensor | float] = {
        "policy_loss": -surrogate.mean(),
        "value_loss": value_error.mean(),
        "entropy": -data["log_probs"].mean(),  # estimated for the policy that acted, from its own actions
        "approx_kl": approximate_kl(log_ratio),
        "clip_fraction": ((ratio - 1).abs() > clip_coef).float().mean(),
        "explained_variance": explained_variance(data["returns"] - data["values"], data["returns"]),
    }
    return {name: float(value) for name, value in metrics.items()}
