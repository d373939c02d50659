"""AggreVaTeD's rival: DAgger on the same states.

A critic can be wrong in ways that no test of it shows. So DAgger's policy is trained beside AggreVaTeD's, and both roll
in. After the last updates they play the same episodes, whose steps count, and the one with the higher mean return is
kept. What is judged is thus what the run returns: policies of earlier iterations can be much better or worse than it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.nn.policy import ActorPolicy
from imitate.rl.rollout import Rollout, whole_episodes

__all__ = ["episode_returns", "played"]


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
