"""Environments in separate processes; worthwhile if a step takes milliseconds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from imitate.envs.fields import in_rows
from imitate.envs.make import Env
from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = ["ProcessPool"]


class ProcessPool:
    """Gymnasium environments, one process each, as a `Pool`; the same bytes as `SyncVecEnv`.

    With its autoreset modes SAME_STEP and NEXT_STEP, `AsyncVectorEnv` begins episodes without seeds. So autoreset is
    DISABLED here: environments whose episode ended get a second message with a seed before the step returns.

    Raises InputError if a process has died.
    """

    def __init__(self, env_fns: Sequence[Callable[[], Env]]) -> None:
        self.num_envs = len(env_fns)
        self._envs: AsyncVectorEnv[Any, Any] = AsyncVectorEnv(
            [partial(_Resting, make) for make in env_fns], autoreset_mode=AutoresetMode.DISABLED
        )
        self.single_observation_space = self._envs.single_observation_space
        self.single_action_space = self._envs.single_action_space

    def begin(self, seeds: list[int]) -> Array:
        return self._rows(self._ask(lambda: self._envs.reset(seed=list(seeds)))[0])

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array]:
        obs, rewards, terminated, truncated, _ = self._ask(lambda: self._envs.step(actions))
        return self._rows(obs), rewards.astype(np.float32), terminated, truncated

    def begin_again(self, which: Array, seeds: list[int]) -> Array:
        mask = np.zeros(self.num_envs, bool)
        mask[which] = True
        every: list[int | None] = [None] * self.num_envs
        for index, seed in zip(which.tolist(), seeds, strict=True):
            every[index] = seed
        obs = self._rows(self._ask(lambda: self._envs.reset(seed=every, options={"reset_mask": mask}))[0])
        return obs[which]

    def _rows(self, obs: Any) -> Array:
        rows: Array = in_rows(self.single_observation_space, obs, (self.num_envs,))
        return rows

    def close(self) -> None:
        with warnings.catch_warnings():  # a dead process leaves a step pending
            warnings.simplefilter("ignore")
            self._envs.close(terminate=True)

    def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            for process in self._envs.processes:
                process.join(0.2)  # so that its exit code is known
            gone = {
                index: process.exitcode
                for index, process in enumerate(self._envs.processes)
                if not process.is_alive()
            }
            self.close()
            raise InputError(
                f"processes of environments are gone (number: exit code): {gone}; killed, or out of memory? "
                "begin again with fewer --num-envs, or with --backend gymnasium"
            ) from error


class _Resting(gym.Wrapper[Any, Any, Any, Any]):
    """Ignores steps after the end of an episode, since idle environments are stepped with the others."""

    def __init__(self, make: Callable[[], Env]) -> None:
        super().__init__(make())
        self._final_obs: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self._final_obs = None
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._final_obs is not None:
            return self._final_obs, 0.0, False, False, {}
        obs, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            self._final_obs = obs
        return obs, reward, terminated, truncated, info
