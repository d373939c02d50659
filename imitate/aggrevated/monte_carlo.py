"""Cost-to-go by roll-outs, as in AggreVaTe."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np
import torch
from torch import Tensor

from imitate.datasets.asking import Askable, asking
from imitate.datasets.trajectory import Transitions, tensors_of
from imitate.envs.spaces import Array, Space, uniform_actions
from imitate.envs.stepping import Chooser, stepping
from imitate.envs.vec import VecEnv
from imitate.errors import InputError
from imitate.rl.rollout import whole_episodes

__all__ = ["MonteCarlo"]


class _Spent(Exception):
    """No further step is allowed."""


class MonteCarlo:
    """Cost-to-go by roll-outs, as in AggreVaTe (arXiv:1406.5979, algorithm 1).

    It rolls in, takes a random action at a uniformly drawn time, and lets the expert play on to the episode's end. This
    works with any expert, but costs many environment steps.

    An environment's state can't be copied safely, so a state is reached again by replaying the episode's seed and
    actions; replayed steps count too. `make_envs` must give environments that seed each episode (`SyncVecEnv`). Each
    play makes new ones, because some environments (CarRacing) remember earlier episodes.

    env_steps, expert_queries   spent so far
    """

    def __init__(
        self,
        expert: Askable,
        make_envs: Callable[[], VecEnv],
        action_space: Space,
        *,
        gamma: float = 1.0,
    ) -> None:
        self.gamma, self._make_envs = gamma, make_envs
        self.env_steps = self.expert_queries = 0
        self._ask = asking(expert, action_space, who="the expert")
        self._most: float = math.inf

    def collect(
        self,
        roll_in: Chooser[Array],
        seeds: Sequence[int],
        rng: np.random.Generator,
        *,
        most: float = math.inf,
    ) -> Transitions | None:
        """Visit one state per seed and record two steps there: a uniformly drawn action, then the expert's.

        `rewards` are discounted returns to the end of the episode, and `terminated` is set, so that `FittedQ.update`
        regresses on them. `advantages` compares the two steps.

        Takes at most `most` steps. If these do not suffice, the visits are dropped, their steps stay spent, and the
        result is None. `roll_in` is called as by `whole_episodes` and must record the actions that it executes. A time
        limit ends the sum of rewards.

        Raises InputError if the environment does not repeat itself for the same seed and actions.
        """
        rows: list[tuple[Array, Array, Array, Array]] = []
        self._most = self.env_steps + most
        try:
            while len(rows) < 2 * len(seeds):
                rows += self._visits(roll_in, seeds[len(rows) // 2 :], rng)
        except _Spent:
            return None
        obs, actions, experts, returns = (tensors_of(np.stack(column)) for column in zip(*rows, strict=True))
        ends = torch.ones(len(rows), dtype=torch.bool)
        return Transitions(obs, actions, returns.float(), obs, ends, ~ends, experts)

    def advantages(self, transitions: Transitions) -> Tensor:
        """Advantages (B,) of steps from `collect`: the return of each action minus that of the expert's.

        They are 0 for the expert's own actions.
        """
        pairs = transitions.rewards.reshape(-1, 2)
        return (pairs - pairs[:, 1:]).flatten()

    def _visits(
        self, roll_in: Chooser[Array], seeds: Sequence[int], rng: np.random.Generator
    ) -> list[tuple[Array, Array, Array, Array]]:
        with closing(self._make_envs()) as envs:
            seeds = seeds[: envs.num_envs]

            def counted(obs: Array, begun: Array) -> tuple[Array, Array]:
                self._spend(envs)
                return roll_in(obs, begun)

            rollout, episodes = whole_episodes(envs, counted, seeds), np.arange(len(seeds))
            action_space = envs.single_action_space
        lengths = rollout.steps.sum(0)[episodes]
        times = np.array([rng.integers(length) for length in lengths.tolist()])
        obs = rollout.obs[times, episodes]
        drawn = uniform_actions(action_space, len(obs), np.random.default_rng(rng.integers(2**31)))
        experts = self.ask(obs).astype(drawn.dtype)
        pairs = [
            (action, self._play_on(seeds, rollout.actions, times, action, obs)) for action in (drawn, experts)
        ]
        return [(obs[n], actions[n], experts[n], returns[n]) for n in episodes for actions, returns in pairs]

    def _play_on(
        self, seeds: Sequence[int], prefix: Array, times: Array, first: Array, expected: Array
    ) -> Array:
        """Discounted returns (N,) from `times` (N,) on.

        Replays the actions `prefix` (T, N, ...) up to `times`, takes `first` (N, ...) in the state `expected`, then
        follows the expert.
        """
        returns, discounts, clock = np.zeros(len(seeds)), np.ones(len(seeds)), itertools.count()
        with closing(self._make_envs()) as envs:

            def choose(obs: Array, _begun: Array) -> tuple[Array, Array]:
                """Actions, and the environments (K,) int whose rewards count."""
                t = next(clock)
                here = np.flatnonzero(times == t)
                later = np.flatnonzero((times < t) & envs.running[: len(seeds)])
                if not np.array_equal(obs[here], expected[here]):
                    raise InputError(
                        "Monte-Carlo returns need an environment that does the same again for the same seed and "
                        "actions, and this one does not: use aggrevated, or check the critic without --probes"
                    )
                actions = prefix[min(t, len(prefix) - 1)].copy()
                actions[here] = first[here]
                if len(later):
                    actions[later] = self.ask(obs[later])
                self._spend(envs)
                return actions, np.concatenate([here, later])

            for _, valued, step, _ in stepping(envs, choose, envs.reset(seeds)):
                returns[valued] += discounts[valued] * step.rewards[valued]
                discounts[valued] *= self.gamma
        return returns

    def ask(self, obs: Array) -> Array:
        """The expert's deterministic actions, counted."""
        actions = self._ask(obs)
        self.expert_queries += len(obs)
        return actions

    def _spend(self, envs: VecEnv) -> None:
        steps = int(envs.running.sum())
        if self.env_steps + steps > self._most:
            raise _Spent
        self.env_steps += steps
