"""AggreVaTeD (arXiv:1703.01030): learn from an expert's action values, on the states that the learner visits.

It is DAgger (`imitate.dagger`) with a critic. The loss follows the gradient of E_{a ~ pi}[A*(s, a)] over all states so
far, with actions of the current learner, and adds DAgger's loss, which keeps the learner near the expert.

Departures from the paper, whose own update is the variant `aggrevated:paper`: states are aggregated, the imitation term
is added, and Adam takes many steps in an iteration. With continuous actions the imitation term is the whole loss: the
policy is regressed to the expert's action, moved by one clipped step along the critic's gradient, because critics are
more reliable about the direction than about the distance. A fitted critic may shorten the step. A critic that can't
tell the expert's actions from random ones is ignored, which leaves DAgger. A critic can be wrong in other ways too, so
DAgger's own policy is trained beside this one and kept if it plays better (`rival`). To understand the algorithm, read
`imitate.dagger`, this file, `gradients` (the loss), `gate`, `rival` and `imitate.experts.fqe` (the critic for experts
without one).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
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
from imitate.aggrevated.rival import LEAST_PAIRS, paired, played, wins
from imitate.bc import bc_loss, new_policy
from imitate.dagger import DAgger, Student
from imitate.datasets.trajectory import Policy
from imitate.datasets.writer import DemoWriter
from imitate.envs.seeds import draw_seed, episode_seeds
from imitate.envs.spaces import Array, check_plain
from imitate.envs.vec import VecEnv
from imitate.experts.critics import QOracle
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_parts, parts_state
from imitate.rl.rollout import Rollout

__all__ = ["AggreVaTeD", "AggreVaTeDConfig"]

_PROBED = 2_048  # states on which the critic is judged in each iteration
_TRIAL_AT = 0.6  # share of the steps after which the trial comes: both have learned, and steps are left


class NaturalStudent(Student):
    """Takes natural-gradient steps, whose length does not depend on the progress."""

    def __init__(self, config: AggreVaTeDConfig, actor: ActorPolicy) -> None:
        super().__init__(config, actor)
        self.natural = NaturalGradient(actor.parameters(), config.kl_limit)

    def descend(self, loss: Tensor, prepared: Tensor, progress: float) -> None:  # noqa: ARG002
        """One step of at most `kl_limit`."""
        with torch.no_grad():
            old = self.actor(prepared)
        self.natural.step(loss, lambda: kl_divergence(old, self.actor(prepared)).mean())
        self.actor.project_()


class AggreVaTeD(DAgger):
    """AggreVaTeD on vector environments.

    `expert` is a policy, or a function from observations (N, *obs_shape) to actions (N, *action_shape). `oracle`
    replaces the action values that `config.oracle` names; it is not trained.

    rival    DAgger's student, until the trial (`imitate.aggrevated.rival`)
    trusted  whether to use the critic: until the rival has won
    """

    config: AggreVaTeDConfig

    def __init__(
        self,
        config: AggreVaTeDConfig,
        *,
        envs: VecEnv,
        expert: Policy | Callable[[Array], Array] | Sequence[Policy],
        store: DemoWriter,
        seed: int,
        device: torch.device | str = "cpu",
        oracle: QOracle | None = None,
    ) -> None:
        check_plain("AggreVaTeD", envs.single_observation_space, envs.single_action_space)
        self.generator = torch.Generator(device)
        self.rival: Student | None = None
        self.oracle, teacher = choose_oracle(expert, config, store, seed=seed, device=device, given=oracle)
        super().__init__(config, envs=envs, expert=teacher, store=store, seed=seed, device=device)
        config, observations = self.config, envs.single_observation_space
        self.action_space: spaces.Space[Any] = envs.single_action_space
        if config.update == "natural":
            self.student = NaturalStudent(config, self.actor)
        search = teacher.critic is not None if config.line_search is None else config.line_search
        scene = Scene(self.oracle, self.actor, config, self.generator, search)
        self.estimator = find_estimator(scene, expert, observations, seed)
        self.value = self.estimator.value
        simple = not teacher.revises and self.estimator.minibatches is None
        if config.trial and config.delta and simple:
            self.rival = self._dagger()
        self.trusted = True
        self.episodes = 0  # that ended in roll-ins

    def _dagger(self) -> Student:
        """DAgger's student, untrained."""
        config, envs = self.config.without_critic(), self.sampler.envs
        policy = new_policy(config, envs.single_observation_space, self.action_space, seed=self.seed)
        return Student(config, policy.to(self.device))

    def step(self, limit: int | None = None) -> dict[str, float]:
        """DAgger's, or once the trial of both policies, with at most `limit` environment steps."""
        config = self.config
        if self.rival is None or self.env_steps < _TRIAL_AT * config.total_steps:
            return super().step(limit)
        room = config.total_steps - self.env_steps
        room = room if limit is None else min(room, limit)
        # Episodes of each policy that the trial's share pays for, if they are as long as those of the roll-ins were.
        pairs = int(config.trial * config.total_steps * self.episodes / (2 * self.env_steps))
        metrics: dict[str, float] = {}
        if pairs >= LEAST_PAIRS and room >= 4 * self.least_steps:
            before = self.env_steps
            metrics = self._compete(pairs, room // 3)  # what both leave is for roll-ins with the better one
            room -= self.env_steps - before
        self.rival = None
        return metrics | super().step(room)

    def _compete(self, pairs: int, limit: int) -> dict[str, float]:
        """Let both policies play the same episodes, at most `limit` steps each, and go on with the better."""
        assert self.rival is not None
        seeds = list(itertools.islice(episode_seeds(draw_seed(self.seed, self.iteration, 2)), pairs))
        students = (self.student, self.rival)
        games = [played(student.policy, self.sampler.envs, seeds, limit) for student in students]
        self.sampler.env_steps += sum(int(rollout.steps.sum()) for rollout, _ in games)
        both = paired(games[0][1], games[1][1], pairs)
        if both is not None and wins(both[1], both[0]):
            self.student, self.trusted = self.rival, False
            for rollout, _ in games:
                self.student.observe(rollout.obs[rollout.steps])
                self.label(rollout, ~rollout.steps)
            self.actor.seed(draw_seed(self.seed, self.iteration, 4))
        self.sampler.restart(draw_seed(self.seed, self.iteration, 3))
        if both is None:  # the limit cut too many episodes: AggreVaTeD's own policy stays
            return {"trial_pairs": 0.0}
        own, others = both
        return {
            "trial_return": float(own.mean()),
            "trial_dagger": float(others.mean()),
            "trial_pairs": float(len(own)),
        }

    def learn(
        self, obs: Array, labels: Array, rollout: Rollout | None = None, *, last: bool
    ) -> dict[str, float]:
        """DAgger's, after fitting and judging the critic. Estimators with executed actions need the rollout."""
        config, estimator = self.config, self.estimator
        metrics, held_out = self.take_in(obs, labels), len(obs) // 2
        if self.trusted:
            metrics |= self.teacher.fit(self.rng, config.fqe_updates, held_out)
        gate = self._judge(held_out, metrics)
        count = config.final_updates if last else config.updates_per_iteration
        if estimator.minibatches is not None and rollout is not None:
            shaped = labels.reshape(rollout.actions.shape)
            batches = estimator.minibatches(rollout, shaped, self.mixture.turns, gate, count, self.rng)
        elif config.aggregate:
            batches = self.batches(count, config.batch_size)
        else:
            batches = self._drawn(obs, labels, count)
        metrics |= self.student.fit(partial(self._losses, gate), batches, count)
        if self.rival is not None:
            self.rival.observe(obs)
            self.rival.fit(self.rival.cloning, self.batches(count, config.batch_size), count)
        self.episodes += 0 if rollout is None else len(rollout.ends)
        self.iteration += 1
        return metrics

    def _drawn(self, obs: Array, labels: Array, count: int) -> Iterator[tuple[Tensor, ...]]:
        """Minibatches of these states (B, ...) alone, drawn with replacement."""
        for _ in range(count):
            rows = self.rng.integers(len(obs), size=self.config.batch_size)
            yield tuple(torch.from_numpy(column[rows]).to(self.device) for column in (obs, labels))

    @torch.no_grad()
    def _judge(self, held_out: int, metrics: dict[str, float]) -> Gate:
        """Judge the critic on the last `held_out` states, which it did not learn from, or on any states if it is not
        learned; and the learner by the critic's values."""
        if not self.trusted:
            return Gate(torch.ones(1, device=self.device), math.nan, False)
        if self.oracle is None:
            return Gate(torch.ones(1, device=self.device), math.nan, True)
        if self.teacher.critic is not None and held_out:
            obs, labels = self.teacher.critic.memory.last(held_out)
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

    def _reseed(self) -> None:
        super()._reseed()
        self.generator.manual_seed(draw_seed(self.seed, self.iteration))

    def state_dict(self) -> dict[str, Any]:
        counts = {"trusted": self.trusted, "episodes": self.episodes}
        return super().state_dict() | counts | parts_state(self, "value", "rival")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes; the store must be as it was when the state was saved."""
        self.trusted, self.episodes = state["trusted"], state["episodes"]
        if not self.trusted:
            self.student = self._dagger()
        self.rival = self._dagger() if "rival" in state else None
        load_parts(self, state, "value", "rival")
        super().load_state_dict(state)
