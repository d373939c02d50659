"""EnvPool's C++ environments (arXiv:2206.10558)."""

from __future__ import annotations

import logging
import os
import warnings
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from imitate.envs.answers import spaces_of
from imitate.envs.make import MAX_EPISODE_STEPS
from imitate.envs.spaces import Array
from imitate.errors import InputError, one_line

__all__ = ["EnvPool", "installed", "knows"]

logger = logging.getLogger(__name__)


class EnvPool:
    """N environments as a `Pool`, with the spaces and the time limit of gymnasium's environment.

    EnvPool seeds an environment only when it is made, so `begin` makes a new pool. The same seeds give the same bytes
    for any num_threads (by default one per 16 environments, at most the number of cores). `begin_again` ignores its
    seeds, so a later episode can't be repeated on its own.

    The time limit is enforced here. If an episode terminates in the very step of the limit, EnvPool reports only
    truncated, but gymnasium reports both.
    """

    def __init__(self, env_id: str, num_envs: int, *, num_threads: int | None = None) -> None:
        self.single_observation_space, self.single_action_space = spaces_of(env_id)
        self._limit = gym.spec(env_id).max_episode_steps or MAX_EPISODE_STEPS
        num_threads = num_threads or max(min(num_envs // 16, os.cpu_count() or 1), 1)
        # One more than the limit, so that the pool itself never truncates an episode.
        self._settings = {"num_threads": num_threads, "max_episode_steps": self._limit + 1}
        self._env_id = env_id
        self._pool: Any = None
        self.num_envs = num_envs

    def begin(self, seeds: list[int]) -> Array:
        self._pool = library().make_gymnasium(
            self._env_id,
            num_envs=self.num_envs,
            env_seed=[seed % (1 << 31) for seed in seeds],
            **self._settings,
        )
        with warnings.catch_warnings():  # about bounds that are rounded to float32
            warnings.simplefilter("ignore")
            return self._as_ours(self._pool.reset()[0])

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array]:
        if np.issubdtype(actions.dtype, np.floating):
            actions = actions.astype(self._pool.action_space.dtype, copy=False)  # MuJoCo's are float64 there
        obs, rewards, terminated, _, info = self._pool.step(actions)
        truncated = info["elapsed_step"] >= self._limit
        return self._as_ours(obs), rewards.astype(np.float32, copy=False), terminated, truncated

    def begin_again(self, which: Array, seeds: list[int]) -> Array:  # noqa: ARG002
        # Reset right after the end; otherwise the pool would spend the next step on it.
        return self._as_ours(self._pool.reset(which.astype(np.int32))[0])

    def close(self) -> None:
        self._pool = None  # this ends its threads

    def _as_ours(self, obs: Array) -> Array:
        return obs.astype(self.single_observation_space.dtype, copy=False)


def installed() -> bool:
    """True if the package is installed and can be imported."""
    return find_spec("envpool") is not None and library() is not None


@cache
def library() -> Any:
    try:
        return import_module("envpool")
    except Exception as error:  # built for another Python or NumPy, or half installed
        logger.warning("EnvPool can't be imported (%s): going on without it", one_line(error))
        return None


def knows(env_id: str) -> bool:
    """True if EnvPool is installed and has this environment with gymnasium's spaces.

    False for pixels: EnvPool renders CarRacing differently, and policies are evaluated on gymnasium.
    """
    if not installed():
        return False
    envpool = library()
    if env_id not in envpool.list_all_envs():
        return False
    try:
        observations, actions = spaces_of(env_id)
    except InputError:  # gymnasium's version, on which policies are evaluated, is unusable
        return False
    with warnings.catch_warnings():  # about bounds that are rounded to float32
        warnings.simplefilter("ignore")
        theirs = envpool.make_spec(env_id)
        their_observations, their_actions = theirs.gymnasium_observation_space, theirs.gymnasium_action_space
    if observations.dtype == np.uint8:
        return False
    same = type(their_observations) is type(observations) and their_observations.shape == observations.shape
    return same and _same_actions(their_actions, actions)


def _same_actions(theirs: Any, ours: Any) -> bool:
    if isinstance(ours, spaces.Box) and isinstance(theirs, spaces.Box):  # for MuJoCo, only the dtype differs
        return np.array_equal(theirs.low, ours.low) and np.array_equal(theirs.high, ours.high)
    return bool(theirs == ours)
