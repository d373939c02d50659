"""AggreVaTeD (arXiv:1703.01030): learn from an expert's action values, on the states that the learner visits.

It is DAgger (`imitate.dagger`) with a critic. The loss follows the gradient of E_{a ~ pi}[A*(s, a)] over all states so
far, with actions of the current learner, and adds DAgger's loss, which keeps the learner near the expert.

Departures from the paper, whose own update is the variant `aggrevated:paper`: states are aggregated, the imitation term
is added, and Adam takes many steps in an iteration. With continuous actions the imitation term is the whole loss: the
policy is regressed to the expert's action, moved by one clipped step along the critic's gradient, because critics are
more reliable about the direction than about the distance. A critic that can't tell the expert's actions from random
ones is ignored, which leaves DAgger. At the end DAgger's policy is fitted to the same states and kept if it is clearly
better on a few episodes. To understand the algorithm, read `imitate.dagger`, this file, `gradients` (the loss), `gate`
and `fqe` (the critic for experts without one).
"""

from __future__ import annotations

import copy
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
from imitate.datasets.evaluation import play
from imitate.datasets.trajectory import Policy
from imitate.datasets.writer import DemoWriter
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.experts.critics import QOracle
from imitate.rl.rollout import Rollout

__all__ = ["AggreVaTeD", "AggreVaTeDConfig"]

_PROBED = 2_048  # states on which the critic is judged in each iteration
_EPISODES = 4  # of the final policy and as many of DAgger's, to see whether the critic's step costs returns
_MARGIN = 0.05  # share of the return by which DAgger's must be better; a few episodes can't tell less
_MOST_SHARE = 4  # at most one in so many steps are played for that
_SLACK = 1.2  # room for episodes that are longer than those of training


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
        self.longest = 0.0  # mean length of the training episodes, at its longest

    def step(self, limit: int | None = None) -> dict[str, float]:
        """DAgger's; after the last fit, the policy is compared with DAgger's on a few episodes that count as steps."""
        room, iterations = self.config.plan(self.iteration, self.env_steps, limit, self.least_steps)
        before, kept = self.env_steps, self._kept_for_the_contest(room - iterations * self.least_steps)
        metrics = super().step(room - kept)
        self.longest = max(self.longest, metrics.get("train_length", 0.0))
        if iterations == 1 and kept and metrics["critic"]:
            metrics["critic"] = float(self._contend(room - (self.env_steps - before)))
        return metrics

    def _kept_for_the_contest(self, room: int) -> int:
        """Steps to keep for it; 0 if the critic makes no target or if too few episodes are affordable."""
        config = self.config
        if config.estimator != "target" or not config.delta or not config.gate:
            return 0
        episodes = 2 * _SLACK * max(self.longest, 1.0)
        most = min(config.total_steps // _MOST_SHARE, room)
        affordable = min(_EPISODES, int(most / episodes))
        return int(affordable * episodes) if self.longest and affordable >= _EPISODES // 2 else 0

    def _contend(self, room: int) -> bool:
        """Fit DAgger's policy too and keep the one with the better return; True if it is the critic's."""
        count, batch_size = self.config.final_updates, self.config.batch_size
        critics = copy.deepcopy(self.policy)
        self.train(self.cloning, self.batches(count, batch_size), count)
        episodes = min(_EPISODES, int(room / (2 * _SLACK * self.longest)))
        seed = draw_seed(self.seed, self.iteration, 2)
        with_it, without = (
            play(policy, self.sampler.envs, episodes=episodes, seed=seed, max_steps=room // 2)
            for policy in (critics, self.policy)
        )
        self.sampler.env_steps += with_it.steps + without.steps
        better = without.mean > with_it.mean + _MARGIN * abs(with_it.mean)
        if with_it.complete and without.complete and better:
            return False
        self.policy.load_state_dict(critics.state_dict())
        return True

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
        metrics |= self.train(partial(self._losses, gate), batches, count) | {"critic": float(gate.open)}
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

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"longest": self.longest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes; the store must be as it was when the state was saved."""
        super().load_state_dict(state)
        self.longest = state["longest"]
