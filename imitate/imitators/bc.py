"""Behavioural cloning (Pomerleau 1991): supervised learning of the expert's actions.

An iteration is one pass over the demonstrations. The learning rate decays to 0 over a fixed number of updates, and the
moving average of the weights is the result. Of twenty episodes one is held out; the loss on it is reported and
chooses nothing, since it says little about the return. Several networks with different first weights may learn
from the same minibatches; the policy is then one network that computes the mean of their outputs.
"""

from __future__ import annotations

import copy
import itertools
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from imitate.configs.bc import BCConfig
from imitate.datasets.edit import shown
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array, values_of
from imitate.errors import InputError
from imitate.imitators.cloning import Cloning, Loss, agreement, bc_loss, losses_of, new_policy
from imitate.nn.adam import Adam
from imitate.nn.average import Average
from imitate.nn.merged import can_merge, merge_into, wider
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_parts, parts_state
from imitate.nn.whitening import Whitening
from imitate.rl.handed import takes

__all__ = ["BC", "BCConfig"]

_EVALUATION_BATCH = 4_096
_FEW = 500  # pairs that are whitened unasked: it helped with up to 500 of them, and not with 732 and more
_MOST_WHITENED = 1_000  # inputs, unless it is asked for: the time grows with their cube


class Member:
    """A network that learns, and the moving average of its weights.

    actor  what takes gradient steps
    mean   the average
    """

    parts = ("mean", "actor", "optimizer", "average")

    def __init__(self, actor: ActorPolicy, config: BCConfig, learning_rate: float, loss: Loss) -> None:
        self.actor, self.mean = actor, copy.deepcopy(actor)
        # Without the log standard deviation, which cloning does not change.
        parameters = [*actor.encoder.parameters(), *actor.output.parameters()]
        self.optimizer = Adam(parameters, learning_rate, weight_decay=config.weight_decay)
        self.cloning = Cloning(actor, loss, self.optimizer)
        self.average = Average(self.mean, actor, config.ema)

    def update(self, prepared: Tensor, labels: Tensor, learning_rate: float) -> Tensor:
        """One gradient step; returns the loss ()."""
        self.optimizer.learning_rate = learning_rate
        loss = self.cloning.descend(prepared, labels)
        self.average.update()
        return loss

    def state_dict(self) -> dict[str, Any]:
        return parts_state(self, *self.parts)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_parts(self, state, *self.parts)


class BC:
    """Behavioural cloning from a demonstrations file that is streamed if it is too large for memory."""

    env_steps = least_steps = expert_queries = 0

    @takes(BCConfig)
    def __init__(
        self,
        config: BCConfig,
        *,
        demos: DemoReader,
        seed: int,
        episodes: Array | None = None,
        device: torch.device | str = "cpu",
        loss: Loss | None = None,
    ) -> None:
        """Learn from the demonstrations' `episodes` (indices, by default all).

        loss    in place of `bc_loss`: from (policy, distribution for B observations, actions (B, ...) in the policy's
                units) to (B,); `step` raises InputError if it gives another shape
        """
        demos, episodes = shown(
            demos, episodes, every=config.demo_every, pairs=config.demo_pairs, seed=draw_seed(seed, 2)
        )
        self._loss = loss or bc_loss
        self.config, self.demos, self.seed, self.device = config, demos, seed, torch.device(device)
        observations, actions = demos.info.observation_space, demos.info.action_space

        def new(seed: int) -> ActorPolicy:
            policy = new_policy(config, observations, actions, seed=seed, normalize_obs=config.normalize_obs)
            return policy.to(self.device)

        first = new(seed)
        kind = values_of(actions) is not None, can_merge(first)
        self.batch_size, self.learning_rate, members = config.chosen(*kind)
        actors = [first, *(new(draw_seed(seed, 3, member)) for member in range(1, members))]
        if members > 1 and not can_merge(first):
            raise InputError(
                f"{members} members need one observation of numbers and a hidden layer, got "
                f"{observations} and hidden {list(config.hidden or ())}; take members 1"
            )
        rng = np.random.default_rng(draw_seed(seed))
        episodes = demos.chosen(episodes)
        few = config.demo_every > 1 or config.demo_pairs is not None or len(episodes) * config.holdout < 1
        holdout = 0.0 if few else config.holdout
        self.trained_on, self.heldout = demos.split(holdout, rng, episodes)
        if actors[0].encoder.moments is not None:
            for (obs,) in demos.minibatches(_EVALUATION_BATCH, rng, fields=["obs"], episodes=self.trained_on):
                for actor in actors:
                    actor.encoder.observe(obs.to(self.device))
        pairs = int(demos.lengths[self.trained_on].sum())
        whiten = config.whiten
        if whiten is None:
            inputs = math.prod(observations.shape or ())
            whiten = pairs <= _FEW and inputs <= _MOST_WHITENED
        self.whitening: Whitening | None = None
        if whiten:
            seen = demos.minibatches(_EVALUATION_BATCH, rng, fields=["obs"], episodes=self.trained_on)
            moved = (obs.to(self.device) for (obs,) in seen)
            self.whitening = Whitening.fit(actors[0].encoder, moved)
        if config.whiten and self.whitening is None:
            raise InputError(f"whiten needs observations of one vector, got {observations}; leave it out")
        self.members = [Member(actor, config, self.learning_rate, self._loss) for actor in actors]
        self.policy = copy.deepcopy(actors[0]) if len(actors) == 1 else wider(actors[0], len(actors))
        self._publish()
        batches = math.ceil(pairs / self.batch_size)
        self._budget = min(config.max_updates, config.max_epochs * batches)
        self.epoch = self.updates = 0

    @property
    def done(self) -> bool:
        return self.updates >= self._budget

    def step(self, limit: int | None = None) -> dict[str, float]:  # noqa: ARG002
        """One epoch, then the held-out loss; `limit` is ignored, since no environment steps are taken."""
        if self.done:
            raise InputError(f"training has ended with gradient step {self.updates}: make another learner")
        # Seeded by the epoch, so that a resumed run shuffles like an uninterrupted one.
        rng = np.random.default_rng(draw_seed(self.seed, self.epoch))
        total, before = torch.zeros((), device=self.device), self.updates
        batches = self.demos.minibatches(self.batch_size, rng, episodes=self.trained_on)
        for obs, labels in itertools.islice(batches, self._budget - before):
            learning_rate = self.learning_rate * (1.0 - self.updates / self._budget)
            prepared, labels = self.inputs(obs, labels)
            for member in self.members:
                total += member.update(prepared, labels, learning_rate) / len(self.members)
            self.updates += 1
        self.epoch += 1
        self._publish()
        metrics = {
            "epoch": float(self.epoch),
            "progress": self.updates / self._budget,
            "loss": float(total) / (self.updates - before),
        }
        return metrics | (self._validate(rng) if len(self.heldout) else {})

    @torch.inference_mode()
    def _validate(self, rng: np.random.Generator) -> dict[str, float]:
        losses, agreements = [], []
        for batch in self.demos.minibatches(_EVALUATION_BATCH, rng, episodes=self.heldout):
            obs, labels = (part.to(self.device) for part in batch)
            distribution = self.policy(self.policy.encoder.prepare(obs))
            losses.append(losses_of(self._loss, self.policy, distribution, labels))
            agreements.append(agreement(self.policy, distribution, labels))
        return {
            "heldout_loss": float(torch.cat(losses).mean()),
            "heldout_agreement": float(torch.cat(agreements).mean()),
        }

    def inputs(self, obs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        prepared = self.members[0].actor.encoder.prepare(obs.to(self.device))
        return prepared if self.whitening is None else self.whitening(prepared), labels.to(self.device)

    def _publish(self) -> None:
        """Make `policy` the mean, for observations that are not whitened."""
        means = [member.mean for member in self.members]
        if len(means) == 1:
            self.policy.load_state_dict(means[0].state_dict())
        else:
            merge_into(self.policy, means)
        if self.whitening is not None:
            self.whitening.fold(self.policy)

    def state_dict(self) -> dict[str, Any]:
        counts = {"epoch": self.epoch, "updates": self.updates}
        members = [member.state_dict() for member in self.members]
        return counts | {"members": members} | parts_state(self, "policy")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.updates = state["epoch"], state["updates"]
        load_parts(self, state, "policy")
        for member, kept in zip(self.members, state["members"], strict=True):
            member.load_state_dict(kept)
