"""Whole episodes of two policies on the same seeds, and whether one is clearly ahead."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from imitate.envs.spaces import Array
from imitate.envs.stepping import as_taken
from imitate.rl.rollout import Rollout, Sampler, whole_episodes

__all__ = ["LEAST_PAIRS", "lead", "paired", "played", "wins"]

LEAST_PAIRS = 3  # of episodes: fewer tell nothing
_LEAST_SHARE = 0.5  # of the episodes: if the limit cuts more, those that ended are the short ones
_CLEAR = 0.03  # of the mean return
# Standard errors: one-sided, a level of 5 % of many pairs, 12 % of three and 7 % of ten (by Student's t). One fall in
# any number of episodes against none is a lead of 1, two in seven are 1.55, three 2.12.
_LEAD = 1.645


def played(
    act: Callable[[Array], Array], sampler: Sampler, seeds: Sequence[int], limit: int
) -> tuple[Rollout, dict[int, float]]:
    """One episode for each seed, in all at most `limit` steps, which the sampler counts; `act` gives actions
    (N, *action_shape).

    Also the return of each episode that came to its end, by seed. Those that the limit cut, or that it left out, are
    not among them.
    """
    playing: list[Array] = []  # (N,) seeds at each step

    def noting(obs: Array) -> Array:
        playing.append(sampler.envs.seeds.copy())
        return act(obs)

    rollout = whole_episodes(sampler.envs, as_taken(noting), seeds, limit, count=sampler.count)
    return rollout, {int(playing[t][n]): found for t, n, found, _ in rollout.whole()}


def paired(own: Mapping[int, float], others: Mapping[int, float], wanted: int) -> tuple[Array, Array] | None:
    """Returns (P,) of both on the seeds that both played to the end; None if these are fewer than three, or than half
    of the seeds `wanted`."""
    both = [seed for seed in own if seed in others]
    if len(both) < max(LEAST_PAIRS, _LEAST_SHARE * wanted):
        return None
    return np.array([own[seed] for seed in both]), np.array([others[seed] for seed in both])


def lead(returns: Array, others: Array) -> float:
    """By how many standard errors the mean of the paired differences (P,) of `returns` and `others` is above 0.

    >>> lead(np.array([3.0, 4.0, 5.0]), np.array([0.0, 0.0, 0.0]))  # mean 4, standard error 1 / sqrt(3)
    6.928...
    """
    gains = returns - others
    error = float(gains.std(ddof=1)) / math.sqrt(len(gains))
    return float(gains.mean()) / max(error, 1e-8)


def wins(returns: Array, others: Array) -> bool:
    """True if the mean of `returns` is higher by more than 1.645 standard errors and by more than 3 %.

    So one fall does not decide. A few episodes often show none of a policy's rare falls, and then their standard
    error is nearly 0.
    """
    if lead(returns, others) <= _LEAD:
        return False
    return float(returns.mean() - others.mean()) > _CLEAR * abs(float(returns.mean()))
