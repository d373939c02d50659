"""DAgger (arXiv:1011.0686): clone the expert on the states that the learner itself visits.

An iteration rolls in with the mixture beta * expert + (1 - beta) * learner, asks the expert to label every state, adds
the labelled states to the store, and trains on everything in it.
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

from imitate.aggrevated.mixture import Mixture, Schedule, mixing_coefficient
from imitate.bc import bc_loss, mean_agreement, new_policy
from imitate.datasets.trajectory import Policy
from imitate.datasets.writer import DemoWriter
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.errors import check_range
from imitate.nn.adam import Adam
from imitate.nn.following import first_layer, follow
from imitate.nn.policy import LOG_STD_RANGE
from imitate.rl.rollout import Sampler

__all__ = ["DAgger", "DAggerConfig"]


@dataclass(frozen=True)
class DAggerConfig:
    """Hyperparameters of DAgger."""

    total_steps: int = 20_000
    """Environment steps over which the learning rate decays; by default the run's budget."""
    steps_per_iteration: int = 500
    """Environment steps of a roll-in, over all environments."""
    updates_per_iteration: int = 200
    """Gradient steps after each roll-in."""
    beta_schedule: Schedule = "inverse"
    """Expert's share in iteration n = 0, 1, ...: `linear` 1 - rate n, `exponential` rate^n, `inverse` 1 / (n + 1),
    `constant` rate."""
    beta_rate: float = 0.9
    """Rate of the schedule; ignored by `inverse`."""
    beta_per: Literal["step", "episode"] = "step"
    """`step`: draw at every step whether expert or learner acts; `episode`: draw once per episode."""
    batch_size: int = 256
    """Samples in a minibatch."""
    learning_rate: float = 3e-3
    """Adam's step size at the start; it decays linearly to a tenth at total_steps."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the hidden layers."""
    log_std_init: float = -1.0
    """Log standard deviation of a Gaussian policy. DAgger leaves it unchanged; an RL run with `--init` uses it."""

    def __post_init__(self) -> None:
        check_range(
            self, 1, math.inf, "total_steps", "steps_per_iteration", "updates_per_iteration", "batch_size"
        )
        check_range(self, *LOG_STD_RANGE, "log_std_init")
        check_range(self, 0, math.inf, "learning_rate")
        check_range(self, 0, 1, "beta_rate")


class DAgger:
    """DAgger on vector environments; the aggregated data stay on disk, in `store`.

    `expert` is a policy, or a function from observations (N, *obs_shape) to actions (N, *action_shape).
    """

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
        self.seed, self.device = seed, torch.device(device)
        observations, actions = envs.single_observation_space, envs.single_action_space
        self.policy = new_policy(config, observations, actions, seed=seed).to(self.device)
        parameters = [*self.policy.encoder.parameters(), *self.policy.output.parameters()]
        self.optimizer = Adam(parameters, config.learning_rate)
        self.iteration = 0
        self.sampler = Sampler(envs)
        learner = partial(self.policy.act, deterministic=True)
        self.mixture = Mixture(expert, learner, envs.num_envs, config.beta_per)
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
        return self.env_steps + self.least_steps > self.config.total_steps

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps: roll in, label, aggregate, train."""
        config, num_envs = self.config, self.sampler.envs.num_envs
        room = config.total_steps - self.env_steps
        room = room if limit is None else min(room, limit)
        progress = self.env_steps / max(self.env_steps + room, 1)
        self.mixture.begin(mixing_coefficient(config.beta_schedule, config.beta_rate, self.iteration))
        rollout = self.sampler.collect(
            self.mixture, max(min(config.steps_per_iteration, room) // num_envs, 1)
        )
        labels = self.mixture.labels(rollout)  # (T, N, ...)
        flat = labels.reshape(-1, *labels.shape[2:])
        on_new_states = mean_agreement(self.policy, rollout.flat_obs, flat)
        for segment in rollout.segments(labels):
            self.store.append(segment)
        if self.policy.encoder.moments is not None:
            new = torch.from_numpy(rollout.flat_obs).to(self.device)
            follow(self.policy.encoder.moments, new, *first_layer(self.policy.encoder))
        loss = self._train(progress)
        self.iteration += 1
        metrics = {
            "beta": self.mixture.alpha,
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
            loss = bc_loss(
                self.policy, self.policy(prepared), self.policy.to_unit(labels.to(self.device))
            ).mean()
            self.optimizer.step(loss)
            total += loss.detach()
        return float(total) / self.config.updates_per_iteration

    def _reseed(self) -> None:
        seed = draw_seed(self.seed, self.iteration)
        self.rng = np.random.default_rng(seed)
        self.mixture.restart(self.rng)
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
        """Load a state and begin new episodes; the store must be as it was when the state was saved."""
        self.iteration = state["iteration"]
        self.mixture.queries = state["expert_queries"]
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.sampler.env_steps = state["env_steps"]
        self._reseed()
