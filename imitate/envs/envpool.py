"""EnvPool's C++ environments (arXiv:2206.10558) under the contract of `imitate.datasets.environments.VecEnv`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from itertools import islice
from typing import Any

import gymnasium as gym
import numpy as np

from imitate.datasets.environments import Step, check_supported, make_env
from imitate.datasets.errors import InputError
from imitate.datasets.trajectory import Array

__all__ = ["EnvPoolVecEnv", "installed", "knows"]

NO_LIMIT = np.iinfo(np.int32).max - 1


class EnvPoolVecEnv:
    """N environments in one C++ pool, in the calling thread's step.

    EnvPool seeds an environment once, when it is made, and goes on from there. So `reset` makes a new pool, whose
    first episodes have the first seeds drawn: the same seeds give the same bytes, whatever num_threads. Episodes after
    those draw a seed only to keep count (a seed an episode, idle where they run dry): `seeds` tells them
    apart, but an episode can't be played again by itself.

    The time limit is gymnasium's, kept here: EnvPool calls an episode that ends by itself in the limit's very step
    truncated only, gymnasium says both.

    Raises InputError where EnvPool is absent or its environment is another one than gymnasium's of that name.
    """

    def __init__(self, env_id: str, num_envs: int, *, num_threads: int = 1) -> None:
        if not installed():
            raise InputError("EnvPool is not installed: pip install 'imitate-rl[envpool]'")
        if not knows(env_id):
            raise InputError(f"EnvPool has no {env_id}, or another one than gymnasium's; use another backend")
        env = make_env(env_id)
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space
        env.close()
        check_supported(self.single_observation_space, self.single_action_space)
        limit = gym.spec(env_id).max_episode_steps
        self._limit = NO_LIMIT if limit is None else limit
        # One more than the limit: the pool itself never cuts an episode.
        self._settings = {"num_threads": num_threads, "max_episode_steps": self._limit + 1}
        self._env_id = env_id
        self._pool: Any = None
        self.num_envs = num_envs
        self.running = np.zeros(num_envs, bool)
        self.seeds = np.zeros(num_envs, np.int64)
        self._seeds: Iterator[int] = iter(())

    def reset(self, seeds: Iterable[int]) -> Array:
        import envpool

        self._seeds = iter(seeds)
        drawn = list(islice(self._seeds, self.num_envs))
        idle = self.num_envs - len(drawn)
        self.running = np.arange(self.num_envs) < len(drawn)
        self.seeds[: len(drawn)] = drawn
        self._pool = envpool.make_gymnasium(
            self._env_id,
            num_envs=self.num_envs,
            env_seed=[seed % (1 << 31) for seed in drawn] + [0] * idle,
            **self._settings,
        )
        with warnings.catch_warnings():  # of bounds that are rounded to float32
            warnings.simplefilter("ignore")
            self._obs = self._as_ours(self._pool.reset()[0])
        return self._obs.copy()

    def step(self, actions: Array) -> Step:
        pool_obs, pool_rewards, terminated, _, info = self._pool.step(actions)
        final_obs, rewards = self._as_ours(pool_obs), pool_rewards.astype(np.float32, copy=False)
        truncated = info["elapsed_step"] >= self._limit
        if not self.running.all():  # those that idle play on unseen
            final_obs = np.where(self._per_env(self.running, final_obs), final_obs, self._obs)
            rewards = rewards * self.running
            terminated, truncated = terminated & self.running, truncated & self.running
        obs = final_obs
        ended = np.flatnonzero(terminated | truncated)
        if len(ended):
            obs = final_obs.copy()
            obs[ended] = self._begin_episodes(ended, obs[ended])
        self._obs = obs
        return Step(obs, rewards, terminated, truncated, final_obs)

    def close(self) -> None:
        self._pool = None  # its threads end with it

    def _begin_episodes(self, ended: Array, last_obs: Array) -> Array:
        for index in ended:
            seed = next(self._seeds, None)
            self.running[index] = seed is not None
            if seed is not None:
                self.seeds[index] = seed
        # Right after the end, so the pool does not spend the next step on it, as it would by itself.
        begun = self._as_ours(self._pool.reset(ended.astype(np.int32))[0])
        return np.where(self._per_env(self.running[ended], begun), begun, last_obs)

    def _as_ours(self, obs: Array) -> Array:
        return obs.astype(self.single_observation_space.dtype, copy=False)

    @staticmethod
    def _per_env(flags: Array, like: Array) -> Array:
        return flags.reshape(-1, *[1] * (like.ndim - 1))


def installed() -> bool:
    return find_spec("envpool") is not None


def knows(env_id: str) -> bool:
    """Whether EnvPool is here and has an environment of this name with gymnasium's spaces."""
    if not installed():
        return False
    import envpool

    if env_id not in envpool.list_all_envs():
        return False
    try:
        env = make_env(env_id)
    except InputError:  # a package is missing that gymnasium's needs, and policies are evaluated on that
        return False
    with warnings.catch_warnings():  # of bounds that are rounded to float32
        warnings.simplefilter("ignore")
        theirs = envpool.make_spec(env_id).gymnasium_observation_space
        actions = envpool.make_spec(env_id).gymnasium_action_space
    env.close()
    same = type(theirs) is type(env.observation_space) and theirs.shape == env.observation_space.shape
    return same and bool(actions == env.action_space)
