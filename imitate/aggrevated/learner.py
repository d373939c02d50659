"""AggreVaTeD (arXiv:1703.01030): learn from an expert's action values, on the states that the learner visits.

An iteration rolls in with the mixture alpha * expert + (1 - alpha) * learner and adds the states to the store. Then it
follows the gradient of E_{a ~ pi}[A*(s, a)] over all states so far, with actions of the current learner. An imitation
term, DAgger's loss, keeps the learner near the expert.

Departures from the paper: states are aggregated, and the imitation term is added. With continuous actions this term is
the whole loss: the policy is regressed to the expert's action, moved by one clipped step along the critic's gradient,
because critics are more reliable about the direction than about the distance. A critic that can't tell the expert's
actions from random ones is ignored, which leaves DAgger. To understand the algorithm, read this file, `gradients` (the
loss), `gate`, `mixture` (the roll-in) and `fqe` (the critic for experts without one).
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.aggrevated.ablations import find_estimator
from imitate.aggrevated.config import AggreVaTeDConfig
from imitate.aggrevated.descent import find_descent
from imitate.aggrevated.gate import Gate, compared, measure_gate
from imitate.aggrevated.gradients import Distribution, Scene
from imitate.aggrevated.mixture import Mixture, mixing_coefficient
from imitate.aggrevated.natural_gradient import kl_divergence
from imitate.aggrevated.oracles import choose_oracle
from imitate.bc import bc_loss, mean_agreement, new_policy
from imitate.datasets.trajectory import Policy
from imitate.datasets.writer import DemoWriter
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.experts.critics import QOracle
from imitate.nn.following import first_layer, follow
from imitate.nn.state import load_parts, parts_state
from imitate.rl.rollout import Rollout, Sampler

__all__ = ["AggreVaTeD", "AggreVaTeDConfig"]

_PROBED = 2_048  # states on which the critic is judged in each iteration


class AggreVaTeD:
    """AggreVaTeD on vector environments.

    `expert` is a policy, or a function from observations (N, *obs_shape) to actions (N, *action_shape). `oracle`
    replaces the action values that `config.oracle` names; it is not trained.
    """

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
        observations, self.action_space = envs.single_observation_space, envs.single_action_space
        discrete = isinstance(self.action_space, spaces.Discrete)
        self.config = config = config.completed(discrete)
        self.store, self.seed, self.device = store, seed, torch.device(device)
        self.actor = new_policy(config, observations, self.action_space, seed=seed).to(self.device)
        self.policy = copy.deepcopy(self.actor)  # the moving average
        self._averaged: list[list[Tensor]] = [list(net.parameters()) for net in (self.policy, self.actor)]
        parameters = [*self.actor.encoder.parameters(), *self.actor.output.parameters()]
        if not discrete and config.estimator != "target":
            parameters.append(self.actor.log_std)
        self.optimizer = find_descent(parameters, config)
        self.oracle, self.fitted = oracle, None
        if oracle is None:
            self.oracle, self.fitted = choose_oracle(
                expert, config, observations, self.action_space, seed=seed, device=device
            )
        self.generator = torch.Generator(self.device)
        scene = Scene(self.oracle, self.actor, config, self.generator)
        self.estimator = find_estimator(scene, expert, observations, seed)
        self.value = self.estimator.value
        self.iteration = 0
        self.sampler = Sampler(envs)
        act = partial(self.actor.act, deterministic=False)
        self.mixture = Mixture(expert, act, envs.num_envs, config.alpha_per, config.switch_probability)
        self._reseed()

    @property
    def env_steps(self) -> int:
        return self.sampler.env_steps

    @property
    def expert_queries(self) -> int:
        return self.mixture.queries

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
        labels = self.mixture.labels(rollout)  # (T, N, ...)
        for segment in rollout.segments(labels):
            self.store.append(segment)
        flat = labels.reshape(-1, *labels.shape[2:])
        return self.learn(rollout.flat_obs, flat, rollout, last=iterations == 1) | self.sampler.pop_episodes()

    def begin(self) -> None:
        """Begin a new roll-in with this iteration's share of the expert."""
        config = self.config
        alpha = mixing_coefficient(config.alpha_schedule, config.alpha_rate, self.iteration)
        self.mixture.begin(max(alpha, config.alpha_floor or 0.0))

    def learn(
        self, obs: Array, labels: Array, rollout: Rollout | None = None, *, last: bool
    ) -> dict[str, float]:
        """Learn from everything in the store and end the iteration.

        `obs` (B, ...) and the expert's actions there are new. Estimators with executed actions need the rollout.
        """
        for policy in (self.actor, self.policy):
            if policy.encoder.moments is not None:
                new = torch.from_numpy(obs).to(self.device)
                follow(policy.encoder.moments, new, *first_layer(policy.encoder))
        metrics = {"alpha": self.mixture.alpha, "agreement": mean_agreement(self.policy, obs, labels)}
        held_out = self._fit_critic(len(obs), metrics)
        gate = self._judge(held_out, metrics)
        metrics |= self._train(obs, labels, rollout, gate, last=last)
        self.iteration += 1
        return metrics

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
            obs, labels = next(self._batches(1, _PROBED))
        gate = measure_gate(self.oracle, obs, labels, self.action_space, self.rng, self.config.gate)
        own = self.actor.to_env(self.actor(self.actor.encoder.prepare(obs)).mode())
        metrics |= compared(self.oracle, gate, obs, labels, own)
        return gate

    def _train(
        self, new_obs: Array, labels: Array, rollout: Rollout | None, gate: Gate, *, last: bool
    ) -> dict[str, float]:
        """The updates of an iteration; returns the mean of each part of the loss, and how far the policy moved."""
        config, estimator = self.config, self.estimator
        with torch.no_grad():
            new_states = self.actor.encoder.prepare(torch.from_numpy(new_obs).to(self.device))
            before = self.actor(new_states)
        count = config.final_updates if last else config.updates_per_iteration
        if estimator.minibatches is not None and rollout is not None:
            shaped = labels.reshape(rollout.actions.shape)
            batches = estimator.minibatches(rollout, shaped, self.mixture.turns, gate, count, self.rng)
        else:
            batches = self._batches(count, config.batch_size)
        sums = torch.zeros(2, device=self.device)
        for update, (obs, expert, *columns) in enumerate(batches):
            prepared = self.actor.encoder.prepare(obs)
            distribution: Distribution = self.actor(prepared)
            wanted, policy_loss = self.actor.to_unit(expert), torch.zeros(len(obs), device=self.device)
            if gate.open:
                policy_loss, wanted = estimator.loss(gate, distribution, obs, wanted, *columns)
            cloning = bc_loss(self.actor, distribution, wanted)
            loss = policy_loss + (config.beta or 0.0) * cloning
            if config.ent_coef:
                loss = loss - config.ent_coef * distribution.entropy()
            self.optimizer.descend(loss.mean(), self.actor, prepared, update / count)
            self.actor.project_()
            with torch.no_grad():
                torch._foreach_lerp_(self._averaged[0], self._averaged[1], 1.0 - config.ema)
            sums += torch.stack([policy_loss.detach().mean(), cloning.detach().mean()])
        with torch.no_grad():
            after = self.actor(new_states)
            losses = dict(zip(("policy_loss", "imitation_loss"), (sums / count).tolist(), strict=True))
            kl, entropy = float(kl_divergence(before, after).mean()), float(after.entropy().mean())
        return losses | {"kl": kl, "entropy": entropy, "updates": float(count)}

    def _batches(self, count: int, size: int) -> Iterator[tuple[Tensor, ...]]:
        """Shuffled minibatches of observations and labels, from all states so far."""
        reader = self.store.reader()
        epochs = (reader.batches(size, self.rng) for _ in itertools.count())
        for batch in itertools.islice(itertools.chain.from_iterable(epochs), count):
            yield tuple(tensor.to(self.device) for tensor in batch)

    def _reseed(self) -> None:
        seed = draw_seed(self.seed, self.iteration)
        self.rng = np.random.default_rng(seed)
        self.generator.manual_seed(seed)
        self.actor.seed(
            draw_seed(self.seed, self.iteration, 1)
        )  # a different stream from that of the updates
        self.mixture.restart(self.rng)
        self.sampler.restart(seed)

    _PARTS = ("policy", "actor", "optimizer", "value", "fitted")

    def state_dict(self) -> dict[str, Any]:
        counts = {name: getattr(self, name) for name in ("iteration", "env_steps", "expert_queries")}
        return counts | parts_state(self, *self._PARTS)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes; the store must be as it was when the state was saved."""
        load_parts(self, state, *self._PARTS)
        self.iteration, self.mixture.queries = state["iteration"], state["expert_queries"]
        self.sampler.env_steps = state["env_steps"]
        self._reseed()
