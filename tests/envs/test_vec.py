"""The environments that are stepped in turn, by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from functools import partial
from multiprocessing import active_children
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from imitate.envs.backends.pool import PoolVecEnv
from imitate.envs.backends.processes import ProcessPool
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


class _From3(gym.Env[int, int]):
    observation_space = gym.spaces.Discrete(5, start=3)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> tuple[int, dict]:
        super().reset(seed=seed, options=options)
        return 4, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:  # noqa: ARG002
        return 5, 1.0, False, False, {}


@pytest.mark.parametrize("make", [SyncVecEnv, lambda fns: PoolVecEnv(ProcessPool(fns))])
def test_idle_environments_show_an_observation_of_the_space(make: Any) -> None:
    """A policy acts on all rows; a one-hot network can't take 0 where states are 3 to 7."""
    envs = make([_From3] * 3)
    np.testing.assert_array_equal(envs.reset([0]), [4, 4, 4])
    assert envs.running.tolist() == [True, False, False]
    np.testing.assert_array_equal(envs.step(np.zeros(3, int)).obs, [5, 4, 4])


class _Driver(gym.Env[np.ndarray, np.ndarray]):
    """Scales the action that it is given in place, as drivers of motors do."""

    observation_space = action_space = gym.spaces.Box(-1.0, 1.0, (2,))

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> Any:
        super().reset(seed=seed, options=options)
        return np.zeros(2, np.float32), {}

    def step(self, action: np.ndarray) -> Any:
        action *= 0.5
        return np.zeros(2, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize("make", [SyncVecEnv, lambda fns: PoolVecEnv(ProcessPool(fns))])
def test_an_environment_that_changes_its_action_changes_no_record(make: Any) -> None:
    with closing(make([_Driver] * 2)) as envs:
        envs.reset([0, 1])
        actions = np.ones((2, 2), np.float32)
        envs.step(actions)
        assert (actions == 1.0).all()


def _send(envs: ProcessPool, number: signal.Signals) -> None:
    for process in envs._envs.processes:
        os.kill(process.pid, number)


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_processes_of_environments_leave_signals_to_the_run(number: signal.Signals) -> None:
    """A run saves its state after the iteration, so it still needs them."""
    with closing(PoolVecEnv(ProcessPool([_From3] * 2))) as envs:
        envs.reset([0, 1])
        _send(envs.pool, number)
        np.testing.assert_array_equal(envs.step(np.zeros(2, int)).obs, [5, 5])


@posix
def test_when_all_processes_of_environments_are_killed_they_are_named() -> None:
    with closing(PoolVecEnv(ProcessPool([_From3] * 2))) as envs:
        envs.reset([0, 1])
        _send(envs.pool, signal.SIGKILL)
        with pytest.raises(InputError, match=r"are gone \(number: exit code\): {0: -9, 1: -9}"):
            envs.step(np.zeros(2, int))


@pytest.mark.parametrize("end", ["", "raise ValueError", "others = make(); del envs"])
def test_a_script_that_closes_no_environments_ends(end: str) -> None:
    """Their processes ignore the SIGTERM with which multiprocessing and Gymnasium end them."""
    script = f"""
from imitate.envs import make_vec
def make():
    return make_vec("CartPole-v1", 2, backend="async")
envs = make()
envs.reset([1, 2])
{end}
"""
    done = subprocess.run(
        [sys.executable, "-c", script], timeout=60, capture_output=True, text=True, check=False
    )
    assert done.stderr.count("Traceback") == (end == "raise ValueError"), done.stderr


def test_environments_are_closed_if_they_differ_or_a_later_one_can_not_be_made() -> None:
    closed: list[int] = []

    class Told(_From3):
        number: int

        def close(self) -> None:
            closed.append(self.number)

    def told(number: int, actions: int = 2) -> Told:
        env = Told()
        env.number, env.action_space = number, gym.spaces.Discrete(actions)
        return env

    def absent() -> Told:
        raise InputError("no display")

    with pytest.raises(InputError, match="must have the same spaces"):
        SyncVecEnv([lambda: told(0), lambda: told(1, actions=3)])
    with pytest.raises(InputError, match="no display"):
        SyncVecEnv([lambda: told(2), absent])
    assert closed == [1, 0, 2]
    SyncVecEnv([lambda: told(3)])
    assert closed == [1, 0, 2]


def test_environments_that_differ_leave_no_processes() -> None:
    before = set(active_children())
    with pytest.raises(RuntimeError, match="not equivalent") as error:
        ProcessPool([_From3, lambda: gym.make("CartPole-v1")])
    for process in set(active_children()) - before:
        process.join(10)
        assert not process.is_alive(), error


class AtHome(gym.Wrapper[Any, Any, Any, Any]):
    """Can be made in one process only."""

    def __init__(self, process: int) -> None:
        if os.getpid() != process:
            raise RuntimeError("not at home")
        super().__init__(gym.make("CartPole-v1"))


def test_an_environment_that_fails_in_its_process_only_is_no_lack_of_room() -> None:
    with pytest.raises(InputError, match=r"^an environment failed while its process made it, though"):
        ProcessPool([partial(AtHome, os.getpid())] * 2)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("make", [SyncVecEnv, lambda fns: PoolVecEnv(ProcessPool(fns))])
def test_another_number_of_actions_is_no_fault_of_an_environment(make: Any, count: int) -> None:
    """With one too few EnvPool ended the process, and one too many it left out."""
    wrong = f"^got {count} actions for 2 environments: give one for each$"
    with closing(make([_From3] * 2)) as envs:
        envs.reset([0, 1])
        with pytest.raises(InputError, match=wrong):
            envs.step(np.zeros(count, int))


@pytest.mark.parametrize("make", [SyncVecEnv, lambda fns: PoolVecEnv(ProcessPool(fns))])
def test_seeds_of_episodes_may_be_numpy_ints_and_what_is_no_seed_is_one_line(make: Any) -> None:
    """Gymnasium refuses NumPy's ints, and a number that fits no int64 was an OverflowError."""
    with closing(make([_From3])) as envs:
        envs.reset(np.array([5]))
        assert envs.seeds.tolist() == [5]
        for wrong in (1 << 63, -1, 0.5, None):
            with pytest.raises(InputError, match=r"seed of an episode must be a whole number .*, got "):
                envs.reset([wrong])


def test_each_place_has_an_environment_of_its_own() -> None:
    env = make_env("CartPole-v1")
    with pytest.raises(InputError, match="two of them gave the same environment"):
        SyncVecEnv([lambda: env] * 2)
