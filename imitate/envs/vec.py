"""Vector environments: the protocol `VecEnv`, its `Step`, and `SyncVecEnv`, which seeds each episode separately."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from imitate.envs.answers import Answering
from imitate.envs.make import Env
from imitate.envs.numbers import all_finite
from imitate.envs.seeds import episode_seed
from imitate.envs.spaces import Array, Space, check_supported, kind
from imitate.envs.structured import structured
from imitate.errors import InputError

MOST_ENVS = 10_000
"""Maximum number of environments side by side. More would take minutes to make, and a settings file may ask for any
number."""

_FLAGS = frozenset((bool, np.bool_))
_NUMBERS = frozenset((float, int, np.float64, np.float32))
"""Types of a step's flags and rewards that need no closer look."""

__all__ = ["MOST_ENVS", "CountsGames", "Step", "SyncVecEnv", "VecEnv", "check_count", "check_envs"]


class Step(NamedTuple):
    """One step of N environments; environments whose episode ended have already been reset.

    obs         (N, *obs_shape) to act on next; the first observation of a new episode if the last one ended
    rewards     (N,) float32
    terminated  (N,) bool: the task ended
    truncated   (N,) bool: cut by the time limit
    final_obs   (N, *obs_shape) the true successor of the action, before any reset
    """

    obs: Array
    rewards: Array
    terminated: Array
    truncated: Array
    final_obs: Array


class VecEnv(Protocol):
    """N environments, stepped together.

    When `seeds` runs out, an environment idles: its `running` is False, its rewards are 0 and its flags False.
    """

    num_envs: int
    single_observation_space: Space
    single_action_space: Space
    running: Array  # (N,) bool
    seeds: Array  # (N,) int64, seed of each environment's current episode

    def reset(self, seeds: Iterable[int]) -> Array:
        """Begin N episodes, dropping unfinished ones; one seed is drawn whenever an episode begins."""
        ...

    def step(self, actions: Array) -> Step: ...

    def close(self) -> None: ...


def check_envs(envs: object) -> None:
    """Raise InputError unless this is a VecEnv. Those of Gymnasium and Stable-Baselines3 seed no single episode."""
    # Since Python 3.12 isinstance would not see what a wrapper passes on by `__getattr__`.
    if not all(hasattr(envs, name) for name in (*VecEnv.__annotations__, "reset", "step", "close")):
        raise InputError(
            f"envs must be a vector environment of this package, got {type(envs).__name__}: give, for example, "
            'SyncVecEnv([lambda: make_env("CartPole-v1")] * 8) of imitate.datasets'
        )


def check_count(actions: Array, num_envs: int) -> None:
    """Raise InputError unless there is one action for each environment."""
    if len(actions) != num_envs:
        raise InputError(f"got {len(actions)} actions for {num_envs} environments: give one for each")


@runtime_checkable
class CountsGames(Protocol):
    """A VecEnv that alters episodes or rewards for learning, as `TrainingGames` and `Rewarded` do."""

    def pop_games(self) -> list[tuple[float, int]]:
        """True returns and lengths of the full games that ended since the last call."""
        ...


class SyncVecEnv:
    """Gymnasium environments, stepped one after the other in this process.

    It is faster than `gymnasium.vector.SyncVectorEnv` for small environments. Every episode is reset with its own seed,
    so it can be repeated on its own.

    Raises InputError for another number of actions, and a `Fault` if an environment raises, or if its answers have
    another form than Gymnasium's or hold NaN or infinity. If a reset fails after the last step of an episode, this step
    is still returned, and the next one raises.
    """

    def __init__(self, env_fns: Iterable[Callable[[], Env]]) -> None:
        env_fns = list(env_fns)
        if not env_fns:
            raise InputError("num_envs must be at least 1, got 0")
        if not all(map(callable, env_fns)):
            raise InputError(
                f"SyncVecEnv takes functions that make an environment, got {env_fns!r}: give "
                '[lambda: make_env("CartPole-v1")] * 8'
            )
        made: list[Env] = []
        with ExitStack() as unless_all_are_well:
            for make in env_fns:
                made.append(structured(make()))
                unless_all_are_well.callback(Answering(made[-1]).close)
            if len({id(env.unwrapped) for env in made}) < len(made):
                raise InputError(
                    "each function must make an environment of its own, but two of them gave the same environment: "
                    'make it inside, as in [lambda: make_env("CartPole-v1")] * 8'
                )
            kinds = {(kind(env.observation_space), kind(env.action_space)) for env in made}
            if len(kinds) > 1:
                raise InputError(f"environments side by side must have the same spaces, got {sorted(kinds)}")
            check_supported(made[0].observation_space, made[0].action_space)
            unless_all_are_well.pop_all()
        self.num_envs = len(made)
        self.single_observation_space = made[0].observation_space
        self.single_action_space = made[0].action_space
        self._envs, self._steps = [Answering(env) for env in made], [env.step for env in made]
        self.running = np.zeros(self.num_envs, bool)
        self.seeds = np.zeros(self.num_envs, np.int64)
        self._seeds: Iterator[int] = iter(())
        self._reset_fault: InputError | None = None
        self._taken = 0  # steps so far
        self._begun = [0] * self.num_envs  # steps before each environment's episode
        shape, dtype = self.single_observation_space.shape, self.single_observation_space.dtype
        self._obs = np.zeros((self.num_envs, *(shape or ())), dtype)
        axes = len(shape or ())
        self._length = shape[0] if shape and axes == 1 else None
        self._is_checked = axes > 1 or self._obs.dtype.kind in "iub"

    def reset(self, seeds: Iterable[int]) -> Array:
        self._seeds, self._reset_fault = map(episode_seed, seeds), None
        for index in range(self.num_envs):
            self._begin_episode(index, self._obs)
        # Policies also see idle environments, and zeros may be outside the space, as in Discrete(5, start=1).
        self._obs[~self.running] = self._obs[0]
        return self._obs.copy()

    def step(self, actions: Array) -> Step:
        if self._reset_fault is not None:
            raise self._reset_fault
        check_count(actions, self.num_envs)
        actions = np.array(actions)  # an environment may change its action in place
        final_obs = self._obs.copy()
        rewards = np.zeros(self.num_envs, np.float32)
        terminated = np.zeros(self.num_envs, bool)
        truncated = np.zeros(self.num_envs, bool)
        # An assignment would broadcast a number or an array with fewer axes, and cut a fraction to a whole number. This
        # loop must be fast, so of floats with one axis only the length is checked.
        length, is_checked, answer = self._length, self._is_checked, None
        for index, running in enumerate(self.running.tolist()):
            if not running:
                continue
            try:
                answer = self._steps[index](actions[index])
                obs, reward, ended, cut, _ = answer
                rewards[index] = float(reward)  # NumPy would take None for NaN
                terminated[index], truncated[index] = ended, cut
                if type(reward) not in _NUMBERS or type(ended) not in _FLAGS or type(cut) not in _FLAGS:
                    self._envs[index].check_kinds(reward, ended, cut)
                if is_checked or (length is not None and len(obs) != length):
                    self._envs[index].check(obs)
                final_obs[index] = obs
            except BaseException as error:
                self._envs[index].blame(error, answer)
        self._taken += 1
        if not (all_finite(rewards) and all_finite(final_obs)):  # as float32, in which 1e300 is infinite
            for index in np.flatnonzero(self.running).tolist():
                taken = self._taken - self._begun[index]
                self._envs[index].check_finite(final_obs[index], rewards[index], taken)
        obs, over = final_obs, terminated | truncated
        if np.count_nonzero(over):
            obs = final_obs.copy()
            try:
                for index in np.flatnonzero(over).tolist():
                    self._begin_episode(index, obs)
            except InputError as fault:
                self._reset_fault = fault
        self._obs = obs
        return Step(obs, rewards, terminated, truncated, final_obs)

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _begin_episode(self, index: int, obs: Array) -> None:
        seed = next(self._seeds, None)
        self.running[index] = seed is not None
        if seed is not None:
            self.seeds[index], self._begun[index] = seed, self._taken
            obs[index] = self._envs[index].reset(seed)[0]
            self._envs[index].check_finite(obs[index], 0.0, 0)
