"""DAgger (arXiv:1011.0686): clone the expert on the states that the learner itself gets into.

A step of the learner rolls in with the mixture beta * expert + (1 - beta) * learner, has the expert label every
state, adds them to the store, and trains on everything in it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch

from imitate.bc import bc_loss, mean_agreement
from imitate.datasets.trajectory import Policy
from imitate.datasets.writer import DemoWriter
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.errors import check_range
from imitate.nn.adam import Adam
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.rl.rollout import Sampler

__all__ = ["DAgger", "DAggerConfig", "Schedule", "mixing_coefficient"]

Schedule = Literal["linear", "exponential", "inverse", "constant"]


@dataclass(frozen=True)
class DAggerConfig:
    """Hyperparameters of DAgger."""

    total_steps: int = 20_000
    """Environment steps over which the learning rate decays; the run's budget unless given."""
    steps_per_iteration: int = 500
    """Environment steps of a roll-in, over all environments."""
    updates_per_iteration: int = 200
    """Gradient steps after each roll-in."""
    beta_schedule: Schedule = "inverse"
    """Expert's share in iteration n: linear 1 - rate n, exponential rate^n, inverse 1 / (n + 1), constant rate."""
    beta_rate: float = 0.9
    """What the schedule's name says; `inverse` has none."""
    beta_per: Literal["step", "episode"] = "step"
    """Who acts is drawn anew at every step, or for whole episodes."""
    batch_size: int = 256
    """Samples in a minibatch."""
    learning_rate: float = 3e-3
    """Adam's step size at the start; it goes down linearly to a tenth at total_steps."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the hidden layers."""
    log_std_init: float = -1.0
    """Log standard deviation of a Gaussian policy, which DAgger leaves as it is: for `--init` of an RL run."""

    def __post_init__(self) -> None:
        check_range(
            self, 1, math.inf, "total_steps", "steps_per_iteration", "updates_per_iteration", "batch_size"
        )
        check_range(self, 0, math.inf, "learning_rate")
        check_range(self, 0, 1, "beta_rate")


def mixing_coefficient(schedule: Schedule, rate: float, iteration: int) -> float:
    """The expert's share in the roll-in of iteration n = 0, 1, ...: in [0, 1]."""
    match schedule:
        case "linear":
            return max(0.0, 1.0 - rate * iteration)
        case "exponential":
            return float(rate**iteration)
        case "inverse":
            return 1.0 / (iteration + 1)
        case "constant":
            return rate


class DAgger:
    """DAgger. `expert` is a policy or a function, observations (N, *obs_shape) to actions (N, *action_shape); the
    aggregated data stay on disk, in `store`."""

    def __init__(
        self,
        config: DAggerConfig,
        *,
        envs: VecEnv,
        expert: Policy | Callable[[Array], Array],
        store: DemoWriter,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config, self.store = config, store
        self._ask = partial(expert.act, deterministic=True) if hasattr(expert, "act") else expert
        self.seed, self.device = seed, torch.device(device)
        with seeded(seed):
            self.policy = ActorPolicy(
                envs.single_observation_space,
                envs.single_action_space,
                hidden=config.hidden,
                activation=config.activation,
                head="squashed" if envs.single_action_space.shape else "categorical",
                log_std_init=config.log_std_init,
                normalize_obs=True,
            ).to(self.device)
        parameters = [*self.policy.encoder.parameters(), *self.policy.output.parameters()]
        self.optimizer = Adam(parameters, config.learning_rate)
        self.iteration = 0
        self.expert_queries = 0
        self._experts_turn = np.zeros(envs.num_envs, bool)
        self.sampler = Sampler(envs)
        self._reseed()

    @property
    def env_steps(self) -> int:
        return self.sampler.env_steps

    @property
    def least_steps(self) -> int:
        return self.sampler.envs.num_envs

    @property
    def done(self) -> bool:
        return self.env_steps + self.least_steps > self.config.total_steps

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps: roll in, label, aggregate, train."""
        config, num_envs = self.config, self.sampler.envs.num_envs
        room = config.total_steps - self.env_steps
        room = room if limit is None else min(room, limit)
        progress = self.env_steps / max(self.env_steps + room, 1)
        self._beta = mixing_coefficient(config.beta_schedule, config.beta_rate, self.iteration)
        rollout = self.sampler.collect(
            self._choose, max(min(config.steps_per_iteration, room) // num_envs, 1)
        )
        labels = np.asarray(self._ask(rollout.flat_obs), rollout.actions.dtype)
        self.expert_queries += len(labels)
        on_new_states = mean_agreement(self.policy, rollout.flat_obs, labels)
        for segment in rollout.segments(labels.reshape(rollout.actions.shape)):
            self.store.append(segment)
        if (
            self.iteration == 0
        ):  # statistics of the expert's states; fixed from here, so that labels keep their inputs
            self.policy.encoder.observe(torch.from_numpy(rollout.flat_obs).to(self.device))
        loss = self._train(progress)
        self.iteration += 1
        metrics = {
            "beta": self._beta,
            "loss": loss,
            "agreement": on_new_states,
            "states": float(self.store.num_steps),
        }
        return metrics | self.sampler.pop_episodes()

    def _train(self, progress: float) -> float:
        self.optimizer.learning_rate = self.config.learning_rate * max(1.0 - progress, 0.1)
        total = torch.zeros((), device=self.device)
        epochs = (self.store.reader().batches(self.config.batch_size, self.rng) for _ in itertools.count())
        batches = itertools.islice(itertools.chain.from_iterable(epochs), self.config.updates_per_iteration)
        for obs, labels in batches:
            prepared = self.policy.encoder.prepare(obs.to(self.device))
            loss = bc_loss(self.policy, prepared, labels.to(self.device)).mean()
            self.optimizer.step(loss)
            total += loss.detach()
        return float(total) / self.config.updates_per_iteration

    def _choose(self, obs: Array, begun: Array) -> tuple[Array, Array]:
        redrawn = begun if self.config.beta_per == "episode" else np.ones_like(begun)
        self._experts_turn = np.where(redrawn, self.rng.random(len(begun)) < self._beta, self._experts_turn)
        actions = self.policy.act(obs, deterministic=True)
        if self._experts_turn.any():
            actions[self._experts_turn] = self._ask(obs[self._experts_turn])
        return actions, actions

    def _reseed(self) -> None:
        seed = draw_seed(self.seed, self.iteration)
        self.rng = np.random.default_rng(seed)
        self.sampler.restart(seed)

    def state_dict(self) -> dict[str, Any]:
        return {
            "iteration": self.iteration,
            "env_steps": self.env_steps,
            "expert_queries": self.expert_queries,
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state and begin new episodes; the store must be as it was then."""
        self.iteration = state["iteration"]
        self.expert_queries = state["expert_queries"]
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.sampler.env_steps = state["env_steps"]
        self._reseed()
