"""The loop that steps environments; playing, measuring and learning consume the steps that it yields."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from imitate.envs.spaces import Array
from imitate.envs.vec import Step, VecEnv

__all__ = ["Chooser", "Games", "Score", "Scores", "Taken", "as_taken", "stepping"]

R = TypeVar("R")

Chooser = Callable[[Array, Array], tuple[Array, R]]
"""(obs (N, ...), begun (N,) bool: an episode starts here) -> (actions for the environment, what to record)."""


Taken = tuple[Array, R, Step, list[int]]
"""A step that was taken: the observations (N, ...) that were acted on, the chooser's record, the environments' answer,
and the environments whose episode ended with it. It is a plain tuple, since one is made in every step."""


def as_taken(act: Callable[[Array], Array]) -> Chooser[Array]:
    """The chooser that acts by `act`, observations (N, ...) to actions (N, ...), and records these actions."""

    def choose(obs: Array, begun: Array) -> tuple[Array, Array]:  # noqa: ARG001
        actions = act(obs)
        return actions, actions

    return choose


def stepping(
    envs: VecEnv, choose: Chooser[R], obs: Array, *, begun: Array | None = None, limit: float = math.inf
) -> Iterator[Taken[R]]:
    """Step the environments from `obs` (N, ...) on, until none is running, or another step would exceed `limit`.

    The next step is taken only when it is asked for. An environment took part in a step if it is still running or its
    episode ended.

    begun   (N,) bool: an episode starts here; by default in every environment
    limit   steps of all environments together
    """
    begun = np.ones(envs.num_envs, bool) if begun is None else begun
    running = np.count_nonzero(envs.running)
    while 0 < running <= limit:
        limit -= running
        actions, recorded = choose(obs, begun)
        step = envs.step(actions)
        begun = step.terminated | step.truncated
        ends: list[int] = np.flatnonzero(begun).tolist() if np.count_nonzero(begun) else []
        yield obs, recorded, step, ends
        obs = step.obs
        if ends:
            running = np.count_nonzero(envs.running)


class Score(NamedTuple):
    """Undiscounted return and length of an episode.

    whole   the episode came to its end
    """

    seed: int
    episode_return: float
    length: int
    whole: bool = True


class Scores:
    """Adds up the rewards and steps of each environment's current episode. Made after a reset."""

    def __init__(self, envs: VecEnv) -> None:
        self._envs, self._seeds = envs, envs.seeds.copy()
        self._returns = np.zeros(envs.num_envs)
        self._steps = 0
        self._begun = np.zeros(envs.num_envs, np.int64)  # steps that had been taken when the episode began

    def add(self, step: Step, ends: list[int]) -> list[Score]:
        """Count a step that was taken; returns the episodes that ended with it, in environments `ends`."""
        self._returns += step.rewards
        self._steps += 1
        if not ends:
            return []
        ended = [self._score(env) for env in ends]
        self._returns[ends], self._begun[ends] = 0.0, self._steps
        self._seeds[ends] = self._envs.seeds[ends]
        return ended

    def unfinished(self) -> list[Score]:
        """The unfinished episodes, with their returns and lengths so far."""
        return [self._score(env)._replace(whole=False) for env in np.flatnonzero(self._envs.running).tolist()]

    def _score(self, env: int) -> Score:
        return Score(int(self._seeds[env]), float(self._returns[env]), self._steps - int(self._begun[env]))


class Games:
    """True returns and lengths of the episodes of environments that learning sees otherwise. Made after a reset."""

    def __init__(self, envs: VecEnv) -> None:
        self._scores, self._ended = Scores(envs), list[tuple[float, int]]()

    def add(self, step: Step) -> None:
        """Count a step of these environments."""
        ends: list[int] = np.flatnonzero(step.terminated | step.truncated).tolist()
        self._ended += [(score.episode_return, score.length) for score in self._scores.add(step, ends)]

    def pop(self) -> list[tuple[float, int]]:
        """Those that ended since the last call."""
        ended, self._ended = self._ended, []
        return ended
