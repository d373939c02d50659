"""Variants of AggreVaTeD for comparison: other estimators of its gradient, other updates, other data.

The presets `aggrevated:NAME` name those that were published or tried elsewhere. A variant is AggreVaTeD up to the loss:
the same roll-ins, critic and gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from imitate.aggrevated.gate import Gate
from imitate.aggrevated.learner import AggreVaTeD
from imitate.aggrevated.variants.estimators import find_estimator
from imitate.aggrevated.variants.natural_gradient import NaturalGradient, kl_divergence
from imitate.aggrevated.variants.scene import Distribution, Scene
from imitate.configs.variants import VariantConfig
from imitate.datasets.asking import Askable
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.errors import InputError
from imitate.experts.values.critics import QOracle
from imitate.imitators.cloning import imitation_loss
from imitate.imitators.roll_in.roll_in import Labelled
from imitate.imitators.roll_in.student import Student
from imitate.imitators.roll_in.teachers import Teacher
from imitate.nn.distributions import Gaussian
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_parts, parts_state
from imitate.rl.handed import takes

__all__ = ["Variant", "VariantConfig"]


class NaturalStudent(Student):
    """Takes natural-gradient steps, whose length does not depend on the progress."""

    def __init__(self, config: VariantConfig, actor: ActorPolicy) -> None:
        super().__init__(config, actor)
        learned = [each for each in actor.parameters() if each.requires_grad]
        self.natural = NaturalGradient(learned, config.kl_limit)

    def descend(self, loss: Tensor, prepared: Tensor, progress: float) -> None:  # noqa: ARG002
        """One step of about `kl_limit`."""
        with torch.no_grad():
            old = self.actor(prepared)
            if isinstance(old, Gaussian):  # its deviation may be the parameter that the step moves
                old = replace(old, log_std=old.log_std.clone())
        self.natural.step(loss, lambda: kl_divergence(old, self.actor(prepared)).mean())
        self.actor.project_()


class Variant:
    """A variant of AggreVaTeD; takes what `AggreVaTeD` takes.

    core   AggreVaTeD, for everything but the loss
    value  the learner's value function, where the estimator uses one
    """

    @takes(VariantConfig)
    def __init__(
        self,
        config: VariantConfig,
        *,
        envs: VecEnv,
        expert: Askable | Sequence[Askable],
        store: DemoWriter,
        seed: int,
        device: torch.device | str = "cpu",
        oracle: QOracle | None = None,
    ) -> None:
        teacher: Any = expert
        if config.td:
            if isinstance(expert, Sequence):
                raise InputError("td takes the V of one expert: name one, or leave td out")
            teacher = Teacher(expert, store)
        self.core = core = AggreVaTeD(
            config, envs=envs, expert=teacher, store=store, seed=seed, device=device, oracle=oracle
        )
        self.config = config = config.completed(core.discrete)
        if config.std == "fixed":
            core.student.actor.log_std.requires_grad_(False)
        if config.update == "natural":
            core.student = NaturalStudent(config, core.student.actor)
            core.seed_student()
        scene = Scene(core.critic, core.student.actor, config, core.generator, core.search)
        self.estimator = find_estimator(scene, expert, envs.single_observation_space, seed)
        self.value = self.estimator.value

    @property
    def policy(self) -> ActorPolicy:
        return self.core.policy

    @property
    def env_steps(self) -> int:
        return self.core.env_steps

    @property
    def expert_queries(self) -> int:
        return self.core.expert_queries

    @property
    def least_steps(self) -> int:
        return self.core.least_steps

    @property
    def done(self) -> bool:
        return self.core.done

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps: roll in, label, and learn."""
        core = self.core
        states, last = core.roll_in.play(core.student.act, core.iteration, limit)
        metrics = self.learn(states.obs, states.labels, states, last=last)
        return metrics | core.roll_in.sampler.pop_episodes()

    def learn(
        self, obs: Array, labels: Array, states: Labelled | None = None, *, last: bool
    ) -> dict[str, float]:
        """AggreVaTeD's, with the variant's loss and minibatches. Estimators of executed actions need `states`."""
        config, core = self.config, self.core
        gate, metrics = core.ask_critic(obs, labels)
        if config.td:
            gate = Gate(gate.gap, gate.openness, True)
        count = config.final_updates if last else config.updates_per_iteration
        if self.estimator.minibatches is not None and states is not None:
            batches = self.estimator.minibatches(
                states.rollout, states.answers, states.turns, gate, count, core.rng
            )
        elif config.aggregate:
            batches = core.roll_in.batches(count, config.batch_size, core.rng)
        else:
            batches = self._drawn(obs, labels, count)
        metrics |= core.student.fit(partial(self.loss, gate), batches, count)
        core.iteration += 1
        return metrics

    def loss(
        self, gate: Gate, distribution: Distribution, obs: Tensor, labels: Tensor, *columns: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The estimator's loss plus DAgger's; a closed gate leaves DAgger's."""
        actor = self.core.student.actor
        wanted, policy_loss = actor.to_unit(labels), torch.zeros(len(obs), device=obs.device)
        if gate.open:
            policy_loss, wanted = self.estimator.loss(gate, distribution, obs, wanted, *columns)
        cloning = imitation_loss(actor, distribution, wanted)
        loss = policy_loss + (self.config.beta or float(not gate.open)) * cloning
        if self.config.ent_coef:
            loss = loss - self.config.ent_coef * distribution.entropy()
        return loss, {"policy_loss": policy_loss, "imitation_loss": cloning}

    def _drawn(self, obs: Array, labels: Array, count: int) -> Iterator[tuple[Tensor, ...]]:
        """Minibatches of these states (B, ...) alone, drawn with replacement."""
        for _ in range(count):
            rows = self.core.rng.integers(len(obs), size=self.config.batch_size)
            yield tuple(
                torch.from_numpy(column[rows]).to(self.core.roll_in.device) for column in (obs, labels)
            )

    def state_dict(self) -> dict[str, Any]:
        return self.core.state_dict() | parts_state(self, "value")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes; the store must be as it was when the state was saved."""
        load_parts(self, state, "value")
        self.core.load_state_dict(state)
