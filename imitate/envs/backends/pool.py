"""`VecEnv` over environments that are stepped elsewhere: in C++ or in other processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

import numpy as np

from imitate.envs.numbers import all_finite, finite_rows
from imitate.envs.seeds import episode_seed
from imitate.envs.spaces import Array, Space, check_supported
from imitate.envs.vec import Step, check_count
from imitate.errors import Fault

__all__ = ["Pool", "PoolVecEnv"]


class Pool(Protocol):
    """N environments elsewhere; they never auto-reset visibly."""

    num_envs: int
    single_observation_space: Space
    single_action_space: Space

    def begin(self, seeds: list[int]) -> Array:
        """Begin an episode in each: observations (N, *obs_shape), a new array."""
        ...

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array]:
        """True successors, rewards, terminated, truncated, as new arrays; rows of ended episodes may hold anything."""
        ...

    def begin_again(self, which: Array, seeds: list[int]) -> Array:
        """Begin new episodes in environments `which` (K,) int; returns observations (K, *obs_shape).

        A pool that can't seed single episodes ignores the seeds.
        """
        ...

    def close(self) -> None: ...


class PoolVecEnv:
    """`VecEnv` over a pool: draws seeds, idles environments when they run out, and returns true final observations.

    Raises InputError for another number of actions, and a `Fault` for NaN and infinity.
    """

    def __init__(self, pool: Pool) -> None:
        check_supported(pool.single_observation_space, pool.single_action_space)
        self.pool = pool
        self.num_envs = pool.num_envs
        self.single_observation_space = pool.single_observation_space
        self.single_action_space = pool.single_action_space
        self.running = np.zeros(self.num_envs, bool)
        self.seeds = np.zeros(self.num_envs, np.int64)
        self._seeds: Iterator[int] = iter(())

    def reset(self, seeds: Iterable[int]) -> Array:
        self._seeds = map(episode_seed, seeds)
        drawn = list(islice(self._seeds, self.num_envs))
        self.running = np.arange(self.num_envs) < len(drawn)
        self.seeds[self.running] = drawn
        self._obs = self.pool.begin(drawn + [0] * (self.num_envs - len(drawn)))
        self._obs[~self.running] = self._obs[0]  # zeros may be outside the space
        self._check(self._obs, np.zeros(self.num_envs, np.float32))
        return self._obs.copy()

    def step(self, actions: Array) -> Step:
        check_count(actions, self.num_envs)  # with too few EnvPool ends the process
        final_obs, rewards, terminated, truncated = self.pool.step(actions)
        if not self.running.all():  # hide the output of idle environments, which may be anything
            final_obs[~self.running] = self._obs[~self.running]
            rewards = np.where(self.running, rewards, 0).astype(rewards.dtype)  # NaN too
            terminated, truncated = terminated & self.running, truncated & self.running
        self._check(final_obs, rewards)
        obs = final_obs
        ended = terminated | truncated
        if np.count_nonzero(ended):
            obs = final_obs.copy()
            self._begin_again(np.flatnonzero(ended), obs)
        self._obs = obs
        return Step(obs, rewards, terminated, truncated, final_obs)

    def close(self) -> None:
        self.pool.close()

    def _check(self, obs: Array, rewards: Array) -> None:
        """Raise a `Fault` for the first environment whose observation (N, ...) or reward (N,) holds NaN or infinity."""
        if all_finite(obs) and all_finite(rewards):
            return
        finite = finite_rows(obs, 1) & np.isfinite(rewards)
        seed = int(self.seeds[finite.argmin()])
        fault = Fault(f"an environment returned NaN or infinity, in the episode with seed {seed}")
        fault.seed = seed
        raise fault

    def _begin_again(self, ended: Array, obs: Array) -> None:
        drawn = list(islice(self._seeds, len(ended)))
        begun, idle = np.split(ended, [len(drawn)])
        self.running[idle] = False
        if drawn:
            self.seeds[begun] = drawn
            obs[begun] = self.pool.begin_again(begun, drawn)
            self._check(obs, np.zeros(self.num_envs, np.float32))
