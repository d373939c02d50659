"""AggreVaTeD (arXiv:1703.01030): learn from an expert's action values, on the states that the learner visits.

It is DAgger (`imitate.dagger`) with a critic. The loss follows the gradient of E_{a ~ pi}[A*(s, a)] over all states so
far, with actions of the current learner, and adds DAgger's loss, which keeps the learner near the expert.

Departures from the paper, whose own update is the variant `aggrevated:paper`: states are aggregated, the imitation term
is added, and Adam takes many steps in an iteration. With continuous actions the imitation term is the whole loss: the
policy is regressed to the expert's action, moved by one clipped step along the critic's gradient, because critics are
more reliable about the direction than about the distance. A critic that can't tell the expert's actions from random
ones is ignored, which leaves DAgger. To understand the algorithm, read `imitate.dagger`, this file, `gradients` (the
loss), `gate` and `fqe` (the critic for experts without one).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from imitate.aggrevated.ablations import find_estimator
from imitate.aggrevated.config import AggreVaTeDConfig
from imitate.aggrevated.gate import Gate, compared, measure_gate
from imitate.aggrevated.gradients import Distribution, Scene
from imitate.aggrevated.natural_gradient import NaturalGradient, kl_divergence
from imitate.aggrevated.oracles import choose_oracle
from imitate.bc import bc_loss
from imitate.dagger import DAgger
from imitate.datasets.trajectory import Policy
from imitate.datasets.writer import DemoWriter
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array, check_plain
from imitate.envs.vec import VecEnv
from imitate.experts.critics import QOracle
from imitate.rl.rollout import Rollout

__all__ = ["AggreVaTeD", "AggreVaTeDConfig"]

_PROBED = 2_048  # states on which the critic is judged in each iteration


class AggreVaTeD(DAgger):
    """AggreVaTeD on vector environments.

    `expert` is a policy, or a function from observations (N, *obs_shape) to actions (N, *action_shape). `oracle`
    replaces the action values that `config.oracle` names; it is not trained.
    """

    config: AggreVaTeDConfig

    def __init__(
        self,
        config: AggreVaTeDConfig,
        *,
        envs: VecEnv,
        expert: Policy | Callable[[Array], Array],
        store: DemoWriter,
        seed: int,
        device: torch.device | str = "cpu",
        oracle: QOracle | None = None,
    ) -> None:
        check_plain("AggreVaTeD", envs.single_observation_space, envs.single_action_space)
        self.generator = torch.Generator(device)
        super().__init__(config, envs=envs, expert=expert, store=store, seed=seed, device=device)
        config, observations = self.config, envs.single_observation_space
        self.action_space: spaces.Space[Any] = envs.single_action_space
        self.natural: NaturalGradient | None = None
        if config.update == "natural":
            self.natural = NaturalGradient(self.actor.parameters(), config.kl_limit)
        self.oracle, self.fitted = oracle, None
        if oracle is None:
            self.oracle, self.fitted = choose_oracle(
                expert, config, observations, self.action_space, seed=seed, device=device
            )
        scene = Scene(self.oracle, self.actor, config, self.generator)
        self.estimator = find_estimator(scene, expert, observations, seed)
        self.value = self.estimator.value

    def learn(
        self, obs: Array, labels: Array, rollout: Rollout | None = None, *, last: bool
    ) -> dict[str, float]:
        """DAgger's, after fitting and judging the critic. Estimators with executed actions need the rollout."""
        config, estimator = self.config, self.estimator
        metrics = self.take_in(obs, labels)
        held_out = self._fit_critic(len(obs), metrics)
        gate = self._judge(held_out, metrics)
        count = config.final_updates if last else config.updates_per_iteration
        if estimator.minibatches is not None and rollout is not None:
            shaped = labels.reshape(rollout.actions.shape)
            batches = estimator.minibatches(rollout, shaped, self.mixture.turns, gate, count, self.rng)
        elif config.aggregate:
            batches = self.batches(count, config.batch_size)
        else:
            batches = self._drawn(obs, labels, count)
        metrics |= self.train(partial(self._losses, gate), batches, count)
        self.iteration += 1
        return metrics

    def _drawn(self, obs: Array, labels: Array, count: int) -> Iterator[tuple[Tensor, ...]]:
        """Minibatches of these states (B, ...) alone, drawn with replacement."""
        for _ in range(count):
            rows = self.rng.integers(len(obs), size=self.config.batch_size)
            yield tuple(torch.from_numpy(column[rows]).to(self.device) for column in (obs, labels))

    def _fit_critic(self, new: int, metrics: dict[str, float]) -> int:
        """Fit the critic if it is learned; returns how many of the new steps were held out from the fit."""
        if self.fitted is None:
            return 0
        reader, held_out = self.store.reader(), new // 2
        pieces = [reader[index] for index in range(self.fitted.memory.pieces, len(reader))]
        self.fitted.take_in(pieces, self.mixture.ask)
        metrics["fqe_loss"] = self.fitted.fit(self.config.fqe_updates, self.rng, held_out=held_out)
        return held_out

    @torch.no_grad()
    def _judge(self, held_out: int, metrics: dict[str, float]) -> Gate:
        """Judge the critic on held-out states (any, if it is not learned), and the learner by the critic's values."""
        if self.oracle is None:
            return Gate(torch.ones(1, device=self.device), math.nan, True)
        if self.fitted is not None and held_out:
            obs, labels = self.fitted.memory.last(held_out)
        else:
            obs, labels = next(self.batches(1, _PROBED))
        gate = measure_gate(self.oracle, obs, labels, self.action_space, self.rng, self.config.gate)
        own = self.actor.to_env(self.actor(self.actor.encoder.prepare(obs)).mode())
        metrics |= compared(self.oracle, gate, obs, labels, own)
        return gate

    def _losses(
        self, gate: Gate, distribution: Distribution, obs: Tensor, expert: Tensor, *columns: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The estimator's loss plus DAgger's; a closed gate leaves DAgger's."""
        wanted, policy_loss = self.actor.to_unit(expert), torch.zeros(len(obs), device=self.device)
        if gate.open:
            policy_loss, wanted = self.estimator.loss(gate, distribution, obs, wanted, *columns)
        cloning = bc_loss(self.actor, distribution, wanted)
        loss = policy_loss + (self.config.beta or 0.0) * cloning
        if self.config.ent_coef:
            loss = loss - self.config.ent_coef * distribution.entropy()
        return loss, {"policy_loss": policy_loss, "imitation_loss": cloning}

    def descend(self, loss: Tensor, prepared: Tensor, progress: float) -> None:
        """DAgger's, or a natural-gradient step, whose length does not depend on `progress`."""
        if self.natural is None:
            super().descend(loss, prepared, progress)
        else:
            with torch.no_grad():
                old = self.actor(prepared)
            self.natural.step(loss, lambda: kl_divergence(old, self.actor(prepared)).mean())
        self.actor.project_()

    def _reseed(self) -> None:
        super()._reseed()
        self.generator.manual_seed(draw_seed(self.seed, self.iteration))

    _PARTS = (*DAgger._PARTS, "value", "fitted")
