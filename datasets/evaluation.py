"""Evaluation on individually seeded episodes: every policy gets the same starts, so results can be paired."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from imitate.datasets.play import scores
from imitate.datasets.trajectory import Policy
from imitate.envs.make import Env, make_env
from imitate.envs.seeds import TEST_SEED, episode_seeds
from imitate.envs.spaces import Array
from imitate.envs.stepping import Score
from imitate.envs.vec import SyncVecEnv, VecEnv
from imitate.errors import InputError, check_whole

__all__ = ["Evaluation", "evaluate", "play"]


@dataclass(frozen=True)
class Evaluation:
    """Undiscounted returns (E,) float and lengths (E,) int of E episodes, in the order of their seeds.

    dropped_steps   environment steps of episodes that `max_steps` left unfinished; these are not among the E
    complete        every requested episode was finished. Otherwise only the short ones are here, and the result
                    should decide nothing
    distance        of the steps from those of demonstrations (`imitate.imitators.likeness`); None: not measured

    Statistics of no episodes at all are NaN.
    """

    returns: Array
    lengths: Array
    complete: bool = True
    dropped_steps: int = 0
    distance: float | None = None

    @property
    def steps(self) -> int:
        """Environment steps taken, including dropped ones."""
        return int(self.lengths.sum()) + self.dropped_steps

    @property
    def mean(self) -> float:
        return float(self.returns.mean()) if len(self.returns) else math.nan

    @property
    def score(self) -> float:
        """The number that policies are compared by: the mean return, or minus the distance if that was measured."""
        return self.mean if self.distance is None else -self.distance

    @property
    def std(self) -> float:
        """Population standard deviation over the episodes."""
        return float(self.returns.std()) if len(self.returns) else math.nan

    @property
    def iqm(self) -> float:
        """Interquartile mean: the mean of the middle half of the returns (arXiv:2108.13264).

        It is SciPy's `trim_mean`, which takes half a second to import: every run ends with an evaluation.
        """
        count, cut = len(self.returns), len(self.returns) // 4
        return float(np.sort(self.returns)[cut : count - cut].mean()) if count else math.nan

    @cached_property
    def ci95(self) -> tuple[float, float]:
        """95 % interval of the mean for other episodes: Student's t. NaN for fewer than two episodes."""
        if (count := len(self.returns)) < 2:
            return math.nan, math.nan
        from scipy import special  # every run ends with an evaluation, and few show an interval

        half = float(special.stdtrit(count - 1, 0.975) * self.returns.std(ddof=1) / math.sqrt(count))
        return self.mean - half, self.mean + half

    def __str__(self) -> str:
        if not len(self.returns):
            return f"no episode ended within {self.steps} steps"
        if len(self.returns) == 1:  # which says nothing of others
            return f"return {self.mean:.2f} in 1 episode of {self.lengths[0]} steps"
        low, high = self.ci95
        shortest, longest = self.lengths.min(), self.lengths.max()
        return (
            f"return {self.mean:.2f} +- {self.std:.2f} (IQM {self.iqm:.2f}, 95 % interval of the mean {low:.2f} to "
            f"{high:.2f}) over {len(self.returns)} episodes of {shortest} to {longest} steps "
            f"(mean {self.lengths.mean():.1f})"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data. `std` and `ci95` of a single episode are null, since it says nothing of others."""
        return {
            "mean": self.mean,
            "std": None if math.isnan(self.ci95[0]) else self.std,
            "iqm": self.iqm,
            "ci95": None if math.isnan(self.ci95[0]) else list(self.ci95),
            "returns": self.returns.tolist(),
            "lengths": self.lengths.tolist(),
        }


def evaluate(
    policy: Policy,
    env_id: str,
    *,
    episodes: int = 20,
    seed: int = TEST_SEED,
    env_kwargs: Mapping[str, Any] | None = None,
    num_envs: int = 8,
    deterministic: bool = True,
    max_steps: int | None = None,
    progress: Callable[[Score], object] | None = None,
    first: Env | None = None,
) -> Evaluation:
    """Play `episodes` episodes, the n-th with the n-th seed of `episode_seeds(seed)`, for any num_envs.

    max_steps   maximum environment steps of all episodes together; see `Evaluation.complete`
    progress    called with each episode that comes to its end
    first       one of the environments, which plays the first episode; by default it is made like the others

    Raises InputError if the environment can't be made, and for numbers that are too small; a `Fault` if the policy or
    an environment fails.
    """
    counts = {"episodes": episodes, "num_envs": num_envs}
    counts |= {} if max_steps is None else {"max_steps": max_steps}
    check_whole(**counts)
    for name, count in counts.items():
        if count < 1:
            raise InputError(f"{name} must be at least 1, got {count}")
    makers = [partial(make_env, env_id, env_kwargs)] * min(num_envs, episodes)
    with closing(SyncVecEnv(makers if first is None else [lambda: first, *makers[1:]])) as envs:
        return play(
            policy,
            envs,
            episodes=episodes,
            seed=seed,
            deterministic=deterministic,
            max_steps=max_steps,
            progress=progress,
        )


def play(
    policy: Policy,
    envs: VecEnv,
    *,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    max_steps: int | None = None,
    progress: Callable[[Score], object] | None = None,
) -> Evaluation:
    """`evaluate` on existing environments. For trajectories use `imitate.datasets.play.episodes`."""
    seeds = list(itertools.islice(episode_seeds(seed), episodes))
    limit = math.inf if max_steps is None else max_steps
    found: dict[int, Score] = {}
    for score in scores(policy, envs, seeds, deterministic=deterministic, limit=limit):
        found[score.seed] = score
        if progress is not None and score.whole:
            progress(score)
    played = [found[each] for each in seeds if each in found]
    whole = [score for score in played if score.whole]
    return Evaluation(
        np.array([score.episode_return for score in whole]),
        np.array([score.length for score in whole], np.int64),
        complete=len(whole) == episodes,
        dropped_steps=sum(score.length for score in played if not score.whole),
    )
