"""A policy that learns from labelled states, by minibatches whose learning rate decays to 0."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from torch import Tensor

from imitate.configs.dagger import DAggerConfig
from imitate.datasets.trajectory import tensor_of
from imitate.envs.spaces import Array, is_plain
from imitate.imitators.cloning import Cloning, imitation_loss
from imitate.nn.adam import Adam
from imitate.nn.average import Average
from imitate.nn.following import first_layer, follow
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_parts, parts_state
from imitate.rl.actor import Actor

__all__ = ["Loss", "Student"]

Loss = Callable[..., tuple[Tensor, dict[str, Tensor]]]
"""(distribution (B,), raw obs (B, ...), labels (B, ...), further columns of the minibatch) -> loss (B,), and
parts of it (B,) to log by name."""


class Student:
    """A policy that learns from labelled states.

    actor    the network that takes gradient steps and rolls in
    policy   the moving average of its weights
    """

    def __init__(self, config: DAggerConfig, actor: ActorPolicy) -> None:
        self.config, self.actor, self.policy = config, actor, copy.deepcopy(actor)
        self.average = Average(self.policy, self.actor, config.ema)
        self.optimizer = Adam(self.actor.parameters(), config.learning_rate, max_grad_norm=1.0)
        self._cloning = Cloning(self.actor, imitation_loss, self.optimizer)
        plain = is_plain(actor.observation_space, actor.action_space)
        self._acting = Actor(actor) if plain else None  # small networks act in NumPy, five times as fast
        self.seed(0)

    def act(self, obs: Array) -> Array:
        """Sampled actions (N, *action_shape) of the actor."""
        if self._acting is None:
            return self.actor.act(obs, deterministic=False)
        return self._acting.sample(obs, self._rng)[0]

    def seed(self, seed: int) -> None:
        """Seed what `act` samples from."""
        self.actor.seed(seed)
        self._rng = np.random.default_rng(seed)

    def observe(self, obs: Array) -> None:
        """Let the input statistics follow new states (B, ...)."""
        for policy in (self.actor, self.policy):
            if policy.encoder.moments is not None:
                new = policy.encoder.numbers(tensor_of(obs).to(policy.output.weight.device))
                follow(policy.encoder.moments, new, first_layer(policy))

    def clone(self, batches: Iterable[tuple[Tensor, ...]], count: int) -> dict[str, float]:
        """DAgger's fit: take `count` gradient steps towards the labels; returns the mean loss."""
        total: Tensor | float = 0.0
        for update, (obs, labels) in enumerate(batches):
            self.optimizer.learning_rate = self.config.learning_rate * (1.0 - update / count)
            total += self._cloning.descend(self.actor.encoder.prepare(obs), labels)
            self.average.update()
        return {"loss": float(total) / count, "updates": float(count)}

    def fit(self, loss: Loss, batches: Iterable[tuple[Tensor, ...]], count: int) -> dict[str, float]:
        """Take a gradient step for each of at most `count` batches; returns the means of the loss's parts."""
        sums: dict[str, Tensor] = {}
        taken = 0
        for taken, (obs, labels, *columns) in enumerate(batches, 1):
            prepared = self.actor.encoder.prepare(obs)
            total, parts = loss(self.actor(prepared), obs, labels, *columns)
            self.descend(total.mean(), prepared, (taken - 1) / count)
            self.average.update()
            for name, part in parts.items():
                sums[name] = sums.get(name, 0.0) + part.detach().mean()
        return {name: float(part) / taken for name, part in sums.items()} | {"updates": float(taken)}

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
