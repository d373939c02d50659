"""Paired episodes: every policy plays the episodes of the same seeds, within a share of the budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from imitate.datasets.play import scores
from imitate.datasets.trajectory import Policy
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.files import Count, Number
from imitate.rl.paired import LEAST_PAIRS

__all__ = ["Played", "play"]


@dataclass(frozen=True)
class Played:
    """Whole episodes, one for each seed.

    steps   environment steps, with those of episodes that a limit cut; these are not among the others
    """

    seeds: list[Count] = field(default_factory=list)
    returns: list[Number] = field(default_factory=list)
    lengths: list[Count] = field(default_factory=list)
    steps: Count = 0

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns)) if self.returns else math.nan

    @property
    def length(self) -> float:
        """Mean length of the episodes; 0 if there are none."""
        return float(np.mean(self.lengths)) if self.lengths else 0.0

    @property
    def worst_seed(self) -> int:
        """Seed of the episode with the lowest return."""
        return self.seeds[int(np.argmin(self.returns))]

    @property
    def by_seed(self) -> dict[int, float]:
        return dict(zip(self.seeds, self.returns, strict=True))

    def first(self, count: int) -> Played:
        """The first of these episodes."""
        lengths = self.lengths[:count]
        return Played(self.seeds[:count], self.returns[:count], lengths, sum(lengths))

    def __add__(self, more: Played) -> Played:
        return Played(
            self.seeds + more.seeds, self.returns + more.returns, self.lengths + more.lengths, self.steps + more.steps
        )  # fmt: skip


def play(
    policy: Policy,
    env_id: str,
    env_kwargs: Mapping[str, Any],
    seeds: Sequence[int],
    *,
    room: float,
    limit: int,
) -> Played:
    """Play the episodes of `seeds` in their order, three at a time, as long as the next ones probably fit into `room`.

    An episode that has begun is played to its end, since the short ones alone would be no fair sample; only `limit`, in
    environment steps, cuts it. The first three are played in any case.
    """
    played, longest = Played(), 0
    count = min(LEAST_PAIRS, len(seeds))
    with closing(SyncVecEnv([partial(make_env, env_id, env_kwargs)] * count)) as envs:
        for start in range(0, len(seeds), count):
            some = seeds[start : start + count]
            if start and played.steps + longest * len(some) / count > room:
                break
            ended = scores(policy, envs, some, limit=limit - played.steps)
            found = sorted(ended, key=lambda score: seeds.index(score.seed))
            whole = [score for score in found if score.whole]
            taken = sum(score.length for score in found)
            longest = max(longest, taken)
            played += Played(
                [score.seed for score in whole],
                [score.episode_return for score in whole],
                [score.length for score in whole],
                taken,
            )
            if len(whole) < len(found):
                break
    return played
