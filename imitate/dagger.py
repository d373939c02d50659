"""DAgger (arXiv:1011.0686): clone the expert on the states that the learner itself visits.

An iteration rolls in with the mixture alpha * expert + (1 - alpha) * learner (the paper's beta is alpha here), asks the
expert to label every state, adds the labelled states to the store, and trains on everything in it. In each iteration
the learning rate decays to 0, and the last one trains for longer, since only the final policy needs a long fit. The
policy is the moving average of the weights. AggreVaTeD is this learner with a critic (`imitate.aggrevated.learner`).

Departures from the paper: for continuous actions the expert's share never falls below 0.3 (`alpha_floor`). Who acts is
drawn for segments of an episode (`alpha_per`), not at every step. Actions are sampled in roll-ins, so a Gaussian policy
rolls in with noise. What is handed over is the last policy, not the best on validation, and it is a moving average of
weights that no roll-in was made with.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from imitate.bc import bc_loss, mean_agreement, new_policy
from imitate.datasets.trajectory import Policy, tensor_of
from imitate.datasets.writer import DemoWriter
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array, values_of
from imitate.envs.vec import VecEnv
from imitate.errors import check_range
from imitate.nn.adam import Adam
from imitate.nn.average import Average, check_ema
from imitate.nn.distributions import Distribution
from imitate.nn.following import first_layer, follow
from imitate.nn.policy import LOG_STD_RANGE, ActorPolicy
from imitate.nn.state import load_parts, parts_state
from imitate.rl.mixture import Mixture, Per, Schedule, mixing_coefficient
from imitate.rl.rollout import Rollout, Sampler
from imitate.teachers import Teacher, Teachers, teacher_of

__all__ = ["DAgger", "DAggerConfig", "Loss"]

Loss = Callable[..., tuple[Tensor, dict[str, Tensor]]]
"""(distribution (B,), raw obs (B, ...), expert's actions (B, ...), further columns of the minibatch) -> loss (B,), and
parts of it (B,) to log by name."""


@dataclass(frozen=True)
class DAggerConfig:
    """Hyperparameters of DAgger."""

    total_steps: int = 50_000
    """Environment steps of all roll-ins together; by default the run's budget."""
    iterations: int = 25
    """Number of roll-ins that total_steps are divided into."""
    updates_per_iteration: int = 300
    """Gradient steps after each roll-in."""
    final_updates: int = 5_000
    """Gradient steps after the last roll-in; only the final policy needs a long fit."""
    alpha_schedule: Schedule = "exponential"
    """Expert's share in iteration n = 0, 1, ...: `linear` 1 - rate n, `exponential` rate^n, `inverse` 1 / (n + 1),
    `constant` rate."""
    alpha_rate: float = 0.9
    """Rate of the schedule; ignored by `inverse`."""
    alpha_floor: float | None = None
    """Smallest share of the expert; by default 0.3 for continuous and 0 for discrete actions."""
    alpha_per: Per = "segment"
    """When to draw whether expert or learner acts: at every `step`, with `switch_probability` at a step (`segment`), or
    once per `episode`."""
    switch_probability: float = 0.05
    """Probability of drawing again at a step; for `segment`."""
    ema: float = 0.995
    """Decay of the moving average of weights that is the policy; 0: no averaging."""
    batch_size: int = 256
    """Samples in a minibatch."""
    learning_rate: float = 1e-3
    """Adam's step size; within each iteration it decays to 0, so that every iteration ends with a settled policy."""
    hidden: tuple[int, ...] | None = None
    """Widths of the hidden layers; by default 256 256 for continuous and 64 64 for discrete actions."""
    activation: Literal["tanh", "relu"] | None = None
    """Activation of the hidden layers; by default relu for continuous and tanh for discrete actions."""
    log_std_init: float = -1.0
    """Log standard deviation of a Gaussian policy at the start; DAgger rolls in with it and leaves it unchanged."""

    def __post_init__(self) -> None:
        counts = ("total_steps", "iterations", "updates_per_iteration", "final_updates", "batch_size")
        check_range(self, 1, math.inf, *counts)
        check_range(self, *LOG_STD_RANGE, "log_std_init")
        check_range(self, 0, math.inf, "learning_rate")
        check_range(self, 0, 1, "alpha_rate", "switch_probability")
        if self.alpha_floor is not None:
            check_range(self, 0, 1, "alpha_floor")
        check_ema(self.ema)

    def plan(self, iteration: int, env_steps: int, limit: int | None, least: int) -> tuple[int, int]:
        """Steps that remain after `env_steps`, at most `limit`, and the number of iterations to divide them into.

        These are the iterations from `iteration` on, or fewer if each would get less than `least` steps. 1 means that
        the next iteration is the last.
        """
        room = self.total_steps - env_steps
        room = room if limit is None else min(room, limit)
        return room, max(min(self.iterations - iteration, room // least), 1)

    def completed(self, discrete: bool) -> Self:
        """This config with the defaults that depend on the kind of actions filled in."""
        floor = self.alpha_floor if self.alpha_floor is not None else 0.0 if discrete else 0.3
        return replace(self, alpha_floor=floor)


class Student:
    """A policy that learns from labelled states.

    actor    the network that takes gradient steps and rolls in
    policy   the moving average of its weights
    """

    def __init__(self, config: DAggerConfig, actor: ActorPolicy) -> None:
        self.config, self.actor, self.policy = config, actor, copy.deepcopy(actor)
        self.average = Average(self.policy, self.actor, config.ema)
        self.optimizer = Adam(self.actor.parameters(), config.learning_rate, max_grad_norm=1.0)

    def act(self, obs: Array) -> Array:
        """Sampled actions (N, *action_shape) of the actor."""
        return self.actor.act(obs, deterministic=False)

    def observe(self, obs: Array) -> None:
        """Let the input statistics follow new states (B, ...)."""
        for policy in (self.actor, self.policy):
            if policy.encoder.moments is not None:
                new = policy.encoder.numbers(tensor_of(obs).to(policy.output.weight.device))
                follow(policy.encoder.moments, new, *first_layer(policy.encoder))

    def cloning(
        self,
        distribution: Distribution,
        obs: Tensor,  # noqa: ARG002
        expert: Tensor,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """DAgger's loss."""
        loss = bc_loss(self.actor, distribution, self.actor.to_unit(expert))
        return loss, {"loss": loss}

    def fit(self, loss: Loss, batches: Iterable[tuple[Tensor, ...]], count: int) -> dict[str, float]:
        """Take `count` gradient steps; returns the means of the loss's parts."""
        sums: dict[str, Tensor] = {}
        for update, (obs, expert, *columns) in enumerate(batches):
            prepared = self.actor.encoder.prepare(obs)
            total, parts = loss(self.actor(prepared), obs, expert, *columns)
            self.descend(total.mean(), prepared, update / count)
            self.average.update()
            for name, part in parts.items():
                sums[name] = sums.get(name, 0.0) + part.detach().mean()
        return {name: float(part) / count for name, part in sums.items()} | {"updates": float(count)}

    def descend(self, loss: Tensor, prepared: Tensor, progress: float) -> None:  # noqa: ARG002
        """One gradient step; `progress` is the share of the iteration's updates already done."""
        self.optimizer.learning_rate = self.config.learning_rate * (1.0 - progress)
        self.optimizer.step(loss)
        self.actor.project_()

    _PARTS = ("policy", "actor", "optimizer", "average")

    def state_dict(self) -> dict[str, Any]:
        return parts_state(self, *self._PARTS)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_parts(self, state, *self._PARTS)


class DAgger:
    """DAgger on vector environments; the aggregated data stay on disk, in `store`.

    `expert` is a policy, or a function from observations (N, *obs_shape) to actions (N, *action_shape), or a list of
    policies, which are imitated where they are best (`Teachers`).

    student  what learns and rolls in
    teacher  who is asked for labels
    """

    def __init__(
        self,
        config: DAggerConfig,
        *,
        envs: VecEnv,
        expert: Policy | Callable[[Array], Array] | Sequence[Policy] | Teacher | Teachers,
        store: DemoWriter,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        observations, actions = envs.single_observation_space, envs.single_action_space
        self.config = config = config.completed(values_of(actions) is not None)
        self.store, self.seed, self.device = store, seed, torch.device(device)
        actor = new_policy(config, observations, actions, seed=seed).to(self.device)
        self.student = Student(config, actor)
        self.iteration = 0
        self.sampler = Sampler(envs)
        self.teacher = teacher_of(expert, store, seed=seed, device=self.device)
        self.mixture = Mixture(
            self.teacher.act,
            self.act,
            envs.num_envs,
            config.alpha_per,
            config.switch_probability,
            self.teacher.live,
        )
        self._reseed()

    @property
    def actor(self) -> ActorPolicy:
        return self.student.actor

    @property
    def policy(self) -> ActorPolicy:
        return self.student.policy

    @property
    def env_steps(self) -> int:
        return self.sampler.env_steps

    @property
    def expert_queries(self) -> int:
        return self.teacher.queries

    @property
    def least_steps(self) -> int:
        return self.sampler.envs.num_envs

    @property
    def done(self) -> bool:
        spent = self.env_steps + self.least_steps > self.config.total_steps
        return spent or self.iteration >= self.config.iterations

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps.

        The remaining steps are divided over the remaining iterations, so that the last one, with its long fit, always
        takes place.
        """
        room, iterations = self.config.plan(self.iteration, self.env_steps, limit, self.least_steps)
        self.begin()
        rollout = self.sampler.collect(self.mixture, max(room // iterations // self.least_steps, 1))
        labels = self.label(rollout, self.mixture.turns)
        flat = labels.reshape(-1, *labels.shape[2:])
        return self.learn(rollout.flat_obs, flat, rollout, last=iterations == 1) | self.sampler.pop_episodes()

    def begin(self) -> None:
        """Begin a new roll-in with this iteration's share of the expert."""
        config = self.config
        alpha = mixing_coefficient(config.alpha_schedule, config.alpha_rate, self.iteration)
        self.mixture.begin(max(alpha, config.alpha_floor or 0.0))
        self.teacher.begin(self.iteration)

    def label(self, rollout: Rollout, turns: Array) -> Array:
        """Add a rollout's steps to the store; returns the expert's actions (T, N, *action_shape). Where `turns` (T, N)
        is True, the expert acted and isn't asked."""
        labels = self.teacher.label(rollout, turns)
        for segment in rollout.segments(labels):
            self.store.append(segment)
        return labels

    def learn(
        self,
        obs: Array,
        labels: Array,
        rollout: Rollout | None = None,  # noqa: ARG002
        *,
        last: bool,
    ) -> dict[str, float]:
        """Learn from everything in the store and end the iteration.

        `obs` (B, ...) and the expert's actions there are new, from the roll-in.
        """
        metrics = self.take_in(obs, labels) | self.teacher.fit(self.rng)
        count = self.config.final_updates if last else self.config.updates_per_iteration
        batches = self.batches(count, self.config.batch_size)
        metrics |= self.student.fit(self.student.cloning, batches, count)
        self.iteration += 1
        return metrics

    def act(self, obs: Array) -> Array:
        """The learner's actions (N, *action_shape) in a roll-in."""
        return self.student.act(obs)

    def take_in(self, obs: Array, labels: Array) -> dict[str, float]:
        """Let the input statistics follow new states (B, ...); metrics of the roll-in."""
        self.student.observe(obs)
        return {
            "alpha": self.mixture.alpha,
            "states": float(self.store.num_steps),
            "agreement": mean_agreement(self.policy, obs, labels),
        }

    def batches(self, count: int, size: int) -> Iterator[tuple[Tensor, ...]]:
        """Shuffled minibatches of observations and labels, from all states so far."""
        epochs = (self.teacher.batches(size, self.rng) for _ in itertools.count())
        for batch in itertools.islice(itertools.chain.from_iterable(epochs), count):
            yield tuple(tensor.to(self.device) for tensor in batch)

    def _reseed(self) -> None:
        seed = draw_seed(self.seed, self.iteration)
        self.rng = np.random.default_rng(seed)
        self.actor.seed(draw_seed(self.seed, self.iteration, 1))  # another stream than that of the updates
        self.mixture.restart(self.rng)
        self.sampler.restart(seed)

    def state_dict(self) -> dict[str, Any]:
        counts = {"iteration": self.iteration, "env_steps": self.env_steps}
        return counts | self.student.state_dict() | parts_state(self, "teacher")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes; the store must be as it was when the state was saved."""
        self.student.load_state_dict(state)
        load_parts(self, state, "teacher")
        self.iteration, self.sampler.env_steps = state["iteration"], state["env_steps"]
        self._reseed()
