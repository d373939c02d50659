"""AggreVaTe (arXiv:1406.5979, algorithm 1): learn from the expert's returns from states that the learner visits.

An iteration rolls in, takes a random action at a uniformly drawn time, and lets the expert play on to the episode's
end. The critic is fitted to these returns; the policy learns from it as AggreVaTeD's does. This works with any expert,
but each labelled state costs many environment steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from imitate.aggrevated.monte_carlo import MonteCarlo
from imitate.aggrevated.variants.learner import Variant
from imitate.configs.variants import VariantConfig
from imitate.datasets.asking import Askable
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory, Transitions
from imitate.envs.make import make_env, time_limit
from imitate.envs.seeds import draw_seed, episode_seeds
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv, VecEnv
from imitate.errors import InputError
from imitate.nn.policy import ActorPolicy
from imitate.rl.handed import takes

__all__ = ["AggreVaTe"]


class AggreVaTe:
    """AggreVaTe on vector environments.

    `make_envs` must give environments that seed each episode; by default they are made from the store's env_id. An
    environment's state can't be copied safely, so a state is reached again by replaying the episode's seed and actions.
    Replayed steps count as environment steps too.
    """

    @takes(VariantConfig)
    def __init__(
        self,
        config: VariantConfig,
        *,
        envs: VecEnv,
        expert: Askable,
        store: DemoWriter,
        seed: int,
        device: str = "cpu",
        make_envs: Callable[[], VecEnv] | None = None,
    ) -> None:
        if config.estimator == "executed":
            raise InputError(
                "aggrevate does not know what a roll-in's own actions are worth: take another estimator"
            )
        if config.td or config.oracle == "critic":
            raise InputError("aggrevate learns its values from play: leave out td, and oracle critic")
        fitted = replace(config, oracle="fqe")
        self.learner = Variant(fitted, envs=envs, expert=expert, store=store, seed=seed, device=device)
        self.core = self.learner.core
        if make_envs is None:
            make = partial(make_env, store.info.env_id, store.info.env_kwargs)
            make_envs = partial(SyncVecEnv, [make] * envs.num_envs)
        self._monte_carlo = MonteCarlo(expert, make_envs, store.info.action_space, gamma=config.fqe.gamma)
        # After a fault `envs` play other episodes (`training.inputs`), so those that are made here must, too.
        self._faults: tuple[int, ...] = getattr(envs, "faults", ())
        self._dearest = 0  # most steps that one visited state has cost

    @property
    def policy(self) -> ActorPolicy:
        return self.core.policy

    @property
    def env_steps(self) -> int:
        return self._monte_carlo.env_steps

    @property
    def expert_queries(self) -> int:
        return self._monte_carlo.expert_queries + self.core.expert_queries

    @property
    def least_steps(self) -> int:
        return max(self._dearest, 1)

    @property
    def done(self) -> bool:
        config = self.core.config
        spent = self.env_steps + self.least_steps > config.total_steps
        return spent or self.core.iteration >= config.iterations

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps; visits that would exceed it are dropped.

        Raises InputError if the limit is too small for a single visit.
        """
        core = self.core
        room, iterations = core.roll_in.plan(core.iteration, limit, self.env_steps, self.least_steps)
        core.roll_in.begin(core.student.act, core.iteration)
        visits = self._visit(room // iterations, room)
        if not visits and not core.iteration:
            raise InputError(
                f"{room} steps don't suffice for a single visit of aggrevate, which plays an episode three times: "
                f"give {self._enough()}"
            )
        if not visits:  # they took more than any before, and all steps are spent: fit once more
            visit = core.roll_in.store.reader()[-1]
            return self.learner.learn(visit.obs[:1], visit.labels, last=True)
        obs, labels = (np.concatenate(column) for column in zip(*visits, strict=True))
        return self.learner.learn(obs, labels, last=iterations == 1)

    def _enough(self) -> str:
        """The least budget with which a visit always comes to its end, if episodes have a time limit."""
        info = self.core.roll_in.store.info
        limit = time_limit(info.env_id, info.env_kwargs)
        return f"at least --budget {3 * limit}, which always suffices" if limit else "more with --budget"

    def _visit(self, steps: int, most: int) -> list[tuple[Array, Array]]:
        """Visit states until `steps` are spent, at most `most`; returns observations and the expert's actions."""
        core, visits = self.core, []
        seeds = episode_seeds(draw_seed(core.seed, core.iteration, 2, *self._faults))
        begin = self.env_steps
        while self.env_steps - begin < steps:
            remains, before = most - (self.env_steps - begin), self.env_steps
            count = min(core.roll_in.sampler.envs.num_envs, remains // self._dearest if self._dearest else 1)
            found = count and self._monte_carlo.collect(
                core.roll_in.mixture, list(itertools.islice(seeds, count)), core.rng, most=remains
            )
            if not found:
                break
            spent = self.env_steps - before
            self._dearest = max(self._dearest, -(-spent // count))
            self._remember(found, spent)
            visits.append((found.obs.numpy(), found.labels.numpy()))
        return visits

    def _remember(self, steps: Transitions, spent: int) -> None:
        """Store both steps of each visit as episodes of one step, so that the critic is fitted to the actions' returns.

        Of the `spent` steps, those of visits that the store does not get whole, also because the disk is full, don't
        count, so that others are made in their place.
        """
        store, visits = self.core.roll_in.store, len(steps.labels) // 2
        columns = (steps.obs, steps.actions, steps.rewards, steps.labels)
        before = store.num_steps
        try:
            for obs, action, value, label in zip(*(column.numpy() for column in columns), strict=True):
                rows = np.stack([obs, obs]), action[None], value[None]
                store.append(Trajectory(*rows, terminated=True, truncated=False, expert_actions=label[None]))
            store.flush()
        finally:
            kept = (store.num_steps - before) // 2
            self._monte_carlo.env_steps -= spent * (visits - kept) // visits

    def state_dict(self) -> dict[str, Any]:
        counts = {"played_steps": self.env_steps, "played_queries": self._monte_carlo.expert_queries}
        return counts | {"dearest": self._dearest, "core": self.learner.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes; the store must be as it was when the state was saved."""
        self.learner.load_state_dict(state["core"])
        self._dearest = state["dearest"]
        self._monte_carlo.env_steps = state["played_steps"]
        self._monte_carlo.expert_queries = state["played_queries"]
