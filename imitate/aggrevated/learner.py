"""AggreVaTeD (arXiv:1703.01030): learn from an expert's action values, on the states that the learner gets into.

A step of the learner rolls in with the mixture alpha * expert + (1 - alpha) * learner and adds the states to the
store. Then it goes up the gradient of E_{a ~ pi}[A*(s, a)] over all states so far: only states come from the roll-in,
actions from the learner as it is now. An imitation term keeps it by the expert where A* has nothing to say.

The form for continuous actions differs from the paper's. A critic is right about which way to go more often than about
how far, so the policy is regressed to a target near the expert's action; and a critic that can't tell the expert's
actions from random ones is not listened to at all, which makes this DAgger. Other forms: `aggrevated_config`.
"""

from __future__ import annotations

import copy
import itertools
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.aggrevated import ablations as executed
from imitate.aggrevated.config import AggreVaTeDConfig
from imitate.aggrevated.fqe import FittedQ
from imitate.aggrevated.gate import measure_gate
from imitate.aggrevated.gradients import (
    clipped_ratio_loss,
    exact_loss,
    imitation_loss,
    normalised,
    score_loss,
    target_actions,
)
from imitate.aggrevated.mixture import Mixture
from imitate.aggrevated.natural_gradient import NaturalGradient, kl_divergence
from imitate.aggrevated.oracles import MonteCarlo, TemporalDifference, oracle_for
from imitate.bc import mean_agreement
from imitate.dagger import mixing_coefficient
from imitate.datasets.trajectory import Policy, Trajectory
from imitate.datasets.writer import DemoWriter
from imitate.envs.seeds import draw_seed, episode_seeds
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.errors import InputError
from imitate.experts.critics import AdvantageOracle, QOracle
from imitate.nn.adam import Adam
from imitate.nn.distributions import Categorical, Gaussian
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_parts, parts_state
from imitate.rl.rollout import Rollout, Sampler

__all__ = ["AggreVaTeD", "AggreVaTeDConfig"]

logger = logging.getLogger(__name__)

_PROBED = 2_048  # states that the critic is judged on, anew in each iteration
_ASKED = 8  # minibatches of the critic
_STEPS: tuple[Any, ...] = ("obs", "actions", "rewards", "next_obs", "terminated", "truncated")


class AggreVaTeD:
    """AggreVaTeD. `expert` is a policy or a function, observations (N, *obs_shape) to actions (N, *action_shape);
    `oracle` its action values (see `oracles`): a critic of its own; `FittedQ`, which is learned here from the
    roll-ins; `TemporalDifference`; `MonteCarlo`, which makes this AggreVaTe with its roll-outs."""

    def __init__(
        self,
        config: AggreVaTeDConfig,
        *,
        envs: VecEnv,
        expert: Policy | Callable[[Array], Array],
        store: DemoWriter,
        seed: int,
        device: torch.device | str = "cpu",
        oracle: QOracle | AdvantageOracle | None = None,
    ) -> None:
        self.store = store
        if oracle is None:
            oracle = self._choose_oracle(expert, config, envs.num_envs, seed, device)
        self.played = oracle if isinstance(oracle, MonteCarlo) else None
        self.differences = oracle if isinstance(oracle, TemporalDifference) else None
        self._ask = partial(expert.act, deterministic=True) if hasattr(expert, "act") else expert
        self.seed, self.device = seed, torch.device(device)
        self.action_space = envs.single_action_space
        discrete = isinstance(self.action_space, spaces.Discrete)
        if self.played is not None:  # a critic that is fitted to what it returned
            observations = envs.single_observation_space
            oracle = FittedQ(observations, self.action_space, config.fqe, seed=seed, device=device)
        self.oracle = cast(QOracle, oracle)
        self.config = config = config.completed(discrete, executed=self.differences is not None)
        self.estimator = config.estimator
        if (self.estimator == "executed" and self.played) or (
            self.estimator != "executed" and self.differences
        ):
            raise InputError(
                f"estimator {self.estimator!r} does not go with oracle {config.oracle!r}: td knows the values of "
                "executed actions only, monte-carlo those of others"
            )
        if self.estimator in (("target", "reparameterised") if discrete else ("exact", "regression")):
            raise InputError(
                f"estimator {self.estimator!r} does not fit action space {self.action_space}: "
                f"use {'exact, score or regression' if discrete else 'target, reparameterised or score'}"
            )
        with seeded(seed):
            self.actor = ActorPolicy(
                envs.single_observation_space,
                self.action_space,
                hidden=config.hidden,
                activation=config.activation,
                head="categorical" if discrete else "squashed",
                log_std_init=config.log_std_init,
                normalize_obs=True,
            ).to(self.device)
        self.policy = copy.deepcopy(self.actor)  # the average
        self._averaged: tuple[list[Tensor], list[Tensor]] = (
            list(self.policy.parameters()),
            list(self.actor.parameters()),
        )
        parameters = [*self.actor.encoder.parameters(), *self.actor.output.parameters()]
        if not discrete and self.estimator != "target":
            parameters.append(self.actor.log_std)
        self.optimizer: Adam | NaturalGradient = (
            NaturalGradient(parameters, config.kl_limit)
            if config.update == "natural"
            else Adam(parameters, config.learning_rate, max_grad_norm=1.0)
        )
        self.value = (
            executed.LearnersValue(envs.single_observation_space, self.actor.encoder.prepare, seed=seed)
            if config.normalisation == "learner_value"
            else None
        )
        self.iteration = 0
        self.expert_queries = 0
        self.sampler = Sampler(envs)
        self.mixture = Mixture(
            self._ask, self.actor.act, envs.num_envs, config.alpha_per, config.switch_probability
        )
        self._reseed()

    @property
    def env_steps(self) -> int:
        return self.sampler.env_steps + (0 if self.played is None else self.played.env_steps)

    @property
    def least_steps(self) -> int:
        return self.sampler.envs.num_envs

    @property
    def done(self) -> bool:
        spent = self.env_steps + self.least_steps > self.config.total_steps
        return spent or self.iteration >= self.config.iterations

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps: roll in, label, aggregate, fit the critic if it is
        learned, train. What remains is divided over the iterations that remain, so the last one always comes."""
        config, num_envs = self.config, self.sampler.envs.num_envs
        room = config.total_steps - self.env_steps
        room = room if limit is None else min(room, limit)
        iterations = max(min(config.iterations - self.iteration, room // num_envs), 1)
        self._last = iterations == 1
        alpha = mixing_coefficient(config.alpha_schedule, config.alpha_rate, self.iteration)
        self.mixture.begin(max(alpha, config.alpha_floor or 0.0))
        num_steps = max(room // iterations // num_envs, 1)
        rollout = None
        if self.played is not None:
            obs, labels = self._play_out(self.played, num_steps * num_envs)
        else:
            rollout = self.sampler.collect(self.mixture, num_steps)
            obs, labels = rollout.flat_obs, np.asarray(self._ask(rollout.flat_obs), rollout.actions.dtype)
            self.expert_queries += len(labels)
            for segment in rollout.segments(labels.reshape(rollout.actions.shape)):
                self.store.append(segment)
        if self.iteration == 0:  # and never again: policy and critic keep the inputs that they learn on
            for policy in (self.actor, self.policy):
                policy.encoder.observe(torch.from_numpy(obs).to(self.device))
        metrics = {"alpha": self.mixture.alpha, "agreement": mean_agreement(self.policy, obs, labels)}
        if isinstance(self.oracle, FittedQ):
            metrics["fqe_loss"] = self._fit(self.oracle)
        metrics |= self._probe()
        metrics |= self._train(obs, labels, rollout)
        self.iteration += 1
        return metrics | self.sampler.pop_episodes()

    @staticmethod
    def _choose_oracle(
        expert: Any, config: AggreVaTeDConfig, num_envs: int, seed: int, device: torch.device | str
    ) -> QOracle | AdvantageOracle:
        choice = oracle_for(
            expert, kind=config.oracle, fqe=config.fqe, num_envs=num_envs, seed=seed, device=device
        )
        logger.info("%s", choice.describe())
        return choice.oracle

    def _play_out(self, played: MonteCarlo, steps: int) -> tuple[Array, Array]:
        """AggreVaTe's roll-ins, at least `steps` steps of them: single states, what an action there and the expert's
        returned. In the store each is an episode of one step, so that the critic is fitted to these returns."""
        until, queries, pieces = played.env_steps + steps, played.expert_queries, []
        while played.env_steps < until:
            seeds = list(itertools.islice(self._seeds, self.sampler.envs.num_envs))
            pieces.append(played.collect(self.mixture, seeds, self.rng))
        self.expert_queries += played.expert_queries - queries
        for piece in pieces:
            for obs, action, value, label in zip(
                *(x.numpy() for x in (piece.obs, piece.actions, piece.rewards, piece.labels)), strict=True
            ):
                rows = np.stack([obs, obs]), action[None], value[None]
                self.store.append(
                    Trajectory(*rows, terminated=True, truncated=False, expert_actions=label[None])
                )
        visited = np.concatenate([piece.obs.numpy() for piece in pieces])
        return visited, np.concatenate([piece.labels.numpy() for piece in pieces])

    def _batches(self, count: int, size: int, fields: tuple[Any, ...]) -> Iterator[tuple[Tensor, ...]]:
        return itertools.islice(self._endless(size, fields), count)

    def _endless(self, size: int, fields: tuple[Any, ...]) -> Iterator[tuple[Tensor, ...]]:
        reader = self.store.reader()
        while True:
            for batch in reader.batches(size, self.rng, fields=fields):
                yield tuple(tensor.to(self.device) for tensor in batch)

    def _fit(self, critic: FittedQ) -> float:
        """Fitted Q evaluation on all steps so far; the last loss."""
        if self.iteration == 0:
            critic.observe(self.store.reader().transitions())
        size, loss = critic.config.batch_size, torch.zeros(())
        for batch in itertools.islice(self._critic_batches(size), self.config.fqe_updates):
            loss = critic.update(batch)
        return float(loss)

    def _critic_batches(self, size: int) -> Iterator[dict[str, Tensor]]:
        for block in self._endless(_ASKED * size, _STEPS):  # the expert is asked about many states at once
            steps = dict(zip(_STEPS, block, strict=True))
            next_actions = torch.from_numpy(self._ask(steps["next_obs"].cpu().numpy()))
            columns = steps | {"next_actions": next_actions.to(self.device)}
            for rows in zip(*(torch.split(column, size) for column in columns.values()), strict=True):
                yield dict(zip(columns, rows, strict=True))

    @torch.no_grad()
    def _probe(self) -> dict[str, float]:
        """Judge the critic, and the learner by it, on states of the store."""
        if self.differences is not None:
            self._gap, self._open = torch.ones(1), True
            return {}
        ((obs, labels),) = self._batches(1, _PROBED, ("obs", "labels"))
        gate = measure_gate(self.oracle, obs, labels, self.action_space, self.rng)
        self._gap, self._open = gate.gap, gate.openness >= self.config.gate
        own = self.actor.to_env(self.actor(self.actor.encoder.prepare(obs)).mode())
        expert, learner = self.oracle.heads(obs, labels), self.oracle.heads(obs, own)  # (H, B)
        return {
            "q_expert": float(expert.mean()),
            "q_learner": float(learner.mean()),
            "advantage": float(((learner - expert).mean(1) / gate.gap).mean()),
            "gate": gate.openness,
        }

    def _train(self, new_obs: Array, labels: Array, rollout: Rollout | None) -> dict[str, float]:
        with torch.no_grad():
            new_states = self.actor.encoder.prepare(torch.from_numpy(new_obs).to(self.device))
            before = self.actor(new_states)
        count = self.config.final_updates if self._last else self.config.updates_per_iteration
        batches = (
            self._executed(rollout, labels, count)
            if rollout is not None and self.estimator == "executed"
            else self._batches(count, self.config.batch_size, ("obs", "labels"))
        )
        sums: dict[str, Tensor] = {}
        for update, (obs, expert, *steps) in enumerate(batches):
            if isinstance(self.optimizer, Adam):
                self.optimizer.learning_rate = self.config.learning_rate * (1.0 - update / count)
            prepared = self.actor.encoder.prepare(obs)
            distribution = self.actor(prepared)
            parts = self._losses(obs, distribution, expert, steps)
            loss = parts["policy_loss"] + (self.config.beta or 0.0) * parts["imitation_loss"]
            if self.config.ent_coef:
                loss = loss - self.config.ent_coef * distribution.entropy()
            loss = loss.mean()
            if isinstance(self.optimizer, Adam):
                self.optimizer.step(loss)
            else:
                with torch.no_grad():
                    old = self.actor(prepared)
                self.optimizer.step(loss, lambda: kl_divergence(old, self.actor(prepared)).mean())  # noqa: B023
            self._average()
            for name, part in parts.items():
                sums[name] = sums.get(name, torch.zeros((), device=self.device)) + part.detach().mean()
        with torch.no_grad():
            after = self.actor(new_states)
            change = {
                "kl": float(kl_divergence(before, after).mean()),
                "entropy": float(after.entropy().mean()),
            }
        return {name: float(total) / count for name, total in sums.items()} | change

    def _losses(
        self, obs: Tensor, distribution: Categorical | Gaussian, labels: Tensor, steps: list[Tensor]
    ) -> dict[str, Tensor]:
        """(B,) each, of raw observations, the actor there and the expert's actions there."""
        expert = self.actor.to_unit(labels)
        losses = {"policy_loss": torch.zeros(len(obs), device=self.device)}
        if self.estimator == "target":  # of both terms
            assert isinstance(distribution, Gaussian)
            return losses | {
                "imitation_loss": imitation_loss(distribution, self._target(obs, distribution, expert))
            }
        if self._open:
            losses["policy_loss"] = self._policy_loss(obs, distribution, steps)
        return losses | {"imitation_loss": imitation_loss(distribution, expert)}

    def _target(self, obs: Tensor, distribution: Gaussian, expert: Tensor) -> Tensor:
        if not self._open or not self.config.delta:
            return expert
        with torch.no_grad():
            actions = distribution.sample(self.generator).tanh().repeat(len(self._gap), 1, 1)  # (H, B, D)
        actions.requires_grad_()
        center, scale = cast(Tensor, self.actor.center), cast(Tensor, self.actor.scale)
        heads = self.oracle.heads(obs, center + scale * actions)
        (gradients,) = torch.autograd.grad((heads / self._gap[:, None]).sum(), actions)
        return target_actions(expert, gradients, beta=self.config.beta or 0.0, delta=self.config.delta)

    def _policy_loss(self, obs: Tensor, distribution: Categorical | Gaussian, steps: list[Tensor]) -> Tensor:
        """(B,) of which the mean's gradient is that of -E_{a ~ pi}[A*(s, a)], or an estimate of it. `steps` are of
        executed actions: raw, their old log-probabilities, their advantages."""
        if self.estimator == "executed":
            raw, old_log_probs, advantages = steps
            log_probs = distribution.log_prob(raw)
            if self.config.importance == "none":
                return -log_probs * advantages
            return clipped_ratio_loss(log_probs, old_log_probs, advantages)
        if self.estimator == "reparameterised":
            return -self._normalised(self._q(obs, distribution.sample(self.generator)), 0.0)
        if self.estimator == "score":
            with torch.no_grad():
                raws = [distribution.sample(self.generator) for _ in range(self.config.samples)]
                q = torch.stack([self._q(obs, raw) for raw in raws])  # (k, B)
            log_probs = torch.stack([distribution.log_prob(raw) for raw in raws])
            others = (q.sum(0) - q) / max(len(q) - 1, 1)  # a baseline that is independent of the action
            return score_loss(log_probs, self._normalised(q, others))
        assert isinstance(distribution, Categorical)
        with torch.no_grad():
            q = self.oracle.q_all(obs)
        if self.estimator == "regression":
            fitted = self._normalised(q, q.mean(-1, keepdim=True))
            return (distribution.logits - fitted).square().mean(-1)
        baseline = (distribution.logits.softmax(-1) * q).sum(-1, keepdim=True)
        return exact_loss(distribution.logits, self._normalised(q, baseline))

    def _q(self, obs: Tensor, raw: Tensor) -> Tensor:
        return self.oracle.heads(obs, self.actor.to_env(raw)).mean(0)  # (B,)

    def _normalised(self, q: Tensor, baseline: Tensor | float) -> Tensor:
        return normalised(q, baseline, float(self._gap.mean()), self.config.normalisation)

    def _executed(self, rollout: Rollout, labels: Array, count: int) -> Iterator[tuple[Tensor, ...]]:
        """Minibatches of this iteration's own steps; ratios exist for the learner's actions only."""
        steps = executed.transitions(rollout, labels.reshape(rollout.actions.shape))
        if self.differences is not None:
            advantages = self.differences.advantages(steps)
            advantages = advantages / advantages.std().clamp(min=1e-8)
        elif self.value is not None:
            baseline = self.value.fit(rollout, self.oracle.gamma, self.oracle.reward_scale, self.rng)
            advantages = self.oracle.q(steps.obs, steps.actions).detach() - baseline
        else:
            with torch.no_grad():
                distribution = self.actor(self.actor.encoder.prepare(steps.obs))
                drawn = [distribution.sample(self.generator) for _ in range(self.config.samples)]
                baseline = torch.stack([self._q(steps.obs, raw) for raw in drawn]).mean(0)
                advantages = self._normalised(self.oracle.q(steps.obs, steps.actions), baseline)
        experts = torch.from_numpy(executed.by_environment(self.mixture.turns))
        rows = (
            torch.arange(len(steps)) if self.config.importance == "none" else (~experts).nonzero().squeeze(1)
        )
        return executed.minibatches(
            steps, advantages, self.actor, rows, count, self.config.batch_size, self.rng
        )

    @torch.no_grad()
    def _average(self) -> None:
        averaged, learned = self._averaged
        torch._foreach_lerp_(averaged, learned, 1.0 - self.config.ema)

    def _reseed(self) -> None:
        seed = draw_seed(self.seed, self.iteration)
        self.rng = np.random.default_rng(seed)
        self._seeds = episode_seeds(draw_seed(self.seed, self.iteration, 2))
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.actor.seed(draw_seed(self.seed, self.iteration, 1))  # another stream than that of the updates
        self.mixture.restart(self.rng)
        self.sampler.restart(seed)

    def state_dict(self) -> dict[str, Any]:
        counts = {name: getattr(self, name) for name in ("iteration", "env_steps", "expert_queries")}
        return counts | parts_state(self, *self._stateful)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state and begin new episodes; the store must be as it was then."""
        load_parts(self, state, *self._stateful)
        self.iteration = state["iteration"]
        (self.played or self.sampler).env_steps = state["env_steps"]
        self.expert_queries = state["expert_queries"]
        self._reseed()

    @property
    def _stateful(self) -> tuple[str, ...]:
        learned = ("oracle",) if isinstance(self.oracle, FittedQ) else ()
        return ("policy", "actor", "optimizer", "value", *learned)
