"""AggreVaTeD's rival: DAgger on the same states.

A critic can be wrong in ways that no test of it shows. So DAgger's policy is trained beside AggreVaTeD's, and once they
play the same whole episodes. DAgger's is kept if it is clearly ahead, and learns from these episodes too. Otherwise it
leaves no states: it doesn't roll in, and the episodes are not learned from. On BipedalWalker and Hopper such states
cost AggreVaTeD returns (benchmarks/RESULTS.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.nn.policy import ActorPolicy
from imitate.rl.rollout import Rollout, whole_episodes

__all__ = ["episode_returns", "lead", "played", "wins"]

_CLEAR = 0.03  # of the mean return
# Standard errors: one-sided, a level of 5 %. One fall in any number of episodes against none is a lead of 1, two in
# seven are 1.55, three 2.12.
_LEAD = 1.645


def played(policy: ActorPolicy, envs: VecEnv, seeds: Sequence[int], limit: int) -> Rollout:
    """One episode for each seed with the policy's deterministic actions, in all at most `limit` steps."""

    def choose(obs: Array, begun: Array) -> tuple[Array, Array]:  # noqa: ARG001
        actions = policy.act(obs, deterministic=True)
        return actions, actions

    return whole_episodes(envs, choose, seeds, limit)


def episode_returns(rollout: Rollout) -> Array:
    """(E,) returns of the episodes that ended in a rollout of whole episodes."""
    sums = (rollout.rewards * rollout.steps).cumsum(0, dtype=np.float64)  # (T, N)
    returns, before = [], np.zeros(sums.shape[1])
    for t, n in rollout.ends:
        returns.append(sums[t, n] - before[n])
        before[n] = sums[t, n]
    return np.array(returns)


def lead(returns: Array, others: Array) -> float:
    """By how many standard errors the mean of `returns` is above that of `others`; -infinity with fewer than three.

    >>> lead(np.array([3.0, 4.0, 5.0]), np.array([0.0, 0.0, 0.0]))  # mean 4, standard error 1 / sqrt(3)
    6.928...
    """
    if min(len(returns), len(others)) < 3:
        return -math.inf
    error = math.sqrt(returns.var(ddof=1) / len(returns) + others.var(ddof=1) / len(others))
    return float(returns.mean() - others.mean()) / max(error, 1e-8)


def wins(returns: Array, others: Array) -> bool:
    """Whether the mean of `returns` is higher by more than 1.645 standard errors and by more than 3 %.

    So one fall does not decide. A few episodes often show none of a policy's rare falls, and then their standard
    error is nearly 0.
    """
    if lead(returns, others) <= _LEAD:  # also if there are too few episodes
        return False
    return float(returns.mean() - others.mean()) > _CLEAR * abs(float(returns.mean()))
