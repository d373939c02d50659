"""Environments in separate processes; worthwhile if a step takes milliseconds."""

from __future__ import annotations

import errno
import os
import signal
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import active_children
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from imitate.envs.answers import Answering
from imitate.envs.fields import in_rows
from imitate.envs.make import Env
from imitate.envs.spaces import Array
from imitate.errors import Fault, InputError

__all__ = ["ProcessPool"]

_FILES_EACH = 3  # a pipe, the process and its memory
_FILES_BESIDE = 256  # for the rest of a run


class ProcessPool:
    """Gymnasium environments, one process each, as a `Pool`; the same bytes as `SyncVecEnv`.

    In its autoreset modes SAME_STEP and NEXT_STEP, `AsyncVectorEnv` begins episodes without seeds. So autoreset is
    DISABLED here: an environment whose episode has ended gets a second message with a seed before the step returns.

    Raises InputError if the system has no room for the processes, if an environment can't be made in its process, or if
    a process has died, and a `Fault` if an environment fails in its process.
    """

    def __init__(self, env_fns: Sequence[Callable[[], Env]]) -> None:
        self.num_envs = len(env_fns)
        # Gymnasium warns about every error with its traceback, and also raises it.
        warnings.filterwarnings("ignore", ".*ERROR: ", module=AsyncVectorEnv.__module__.replace(".", r"\."))
        before = set(active_children())
        try:
            self._envs: AsyncVectorEnv[Any, Any] = AsyncVectorEnv(
                [partial(_Resting, make, os.getpid()) for make in env_fns],
                autoreset_mode=AutoresetMode.DISABLED,
            )
        except BaseException as error:
            _kill(set(active_children()) - before)
            if isinstance(error, EOFError | ConnectionError):
                raise InputError(
                    "an environment failed while its process made it, though it can be made here: its traceback is "
                    "above; make it work in a process of its own, or take --backend gymnasium"
                ) from error
            if isinstance(error, OSError):
                raise _no_room(self.num_envs, error) from error
            raise
        # Also at exit, before multiprocessing sends SIGTERM and waits; a weakref.finalize may run after that.
        self._close = Finalize(self, _close, (self._envs,), exitpriority=0)
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
        self._close()

    def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Fault as error:  # Gymnasium raises it anew, around the one from the process
            raise error.args[0] from None
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


def _close(envs: AsyncVectorEnv[Any, Any]) -> None:
    with warnings.catch_warnings():  # a dead process leaves a step pending
        warnings.simplefilter("ignore")
        _kill(envs.processes)
        with suppress(EOFError, OSError):  # the pending step of a dead process
            envs.close(terminate=True)
        envs.closed = True


def _kill(processes: Iterable[BaseProcess]) -> None:
    for process in processes:  # they ignore SIGTERM
        process.kill()


def _no_room(num_envs: int, error: OSError) -> InputError:
    wanted = f"{num_envs} processes of environments can't be started ({error.strerror})"
    if error.errno not in (errno.EMFILE, errno.ENFILE):
        return InputError(f"{wanted}: take fewer --num-envs, or --backend gymnasium")
    return InputError(
        f"{wanted}: each takes {_FILES_EACH} open files, and `ulimit -n` may be too low; raise it, such as to "
        f"`ulimit -n {_FILES_EACH * num_envs + _FILES_BESIDE}`, take fewer --num-envs, or --backend gymnasium"
    )


class _Resting(gym.Wrapper[Any, Any, Any, Any]):
    """Checks answers, and ignores steps after the end of an episode: idle environments are stepped with the others.

    The info is left out. Nobody reads it, and Gymnasium can't send or merge every one.

    Signals are left to the run, which still needs its environments: a terminal sends SIGINT to their processes too, and
    a batch system SIGTERM.
    """

    def __init__(self, make: Callable[[], Env], run: int) -> None:
        if os.getpid() != run:  # Gymnasium also makes one in the run's own process
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                if hasattr(signal, name):  # Windows has not all
                    # Not SIG_IGN, which programs that the environment starts would inherit.
                    signal.signal(getattr(signal, name), lambda *_: None)
        super().__init__(make())
        self._answering = Answering(self.env)
        self._final_obs: Any = None

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> tuple[Any, dict[str, Any]]:
        self._final_obs = None
        return self._answering.reset(seed)[0], {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._final_obs is not None:
            return self._final_obs, 0.0, False, False, {}
        obs, reward, terminated, truncated, _ = self._answering.step(action)
        if terminated or truncated:
            self._final_obs = obs
        return obs, reward, terminated, truncated, {}

    def close(self) -> None:
        self._answering.close()
