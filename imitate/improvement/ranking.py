"""Ranks policies by paired episodes, in an order that decides where the episodes can't."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from imitate.compare.statistics.intervals import difference
from imitate.rl.paired import LEAST_PAIRS, paired, wins

__all__ = ["ranked"]


def ranked(order: Sequence[str], returns: Mapping[str, Mapping[int, float]]) -> list[str]:
    """The names, best first: the first of `order` that the leader is not clearly ahead of, and so on with the others.

    `returns` has the returns of each by the episode's seed. The leader has the highest mean over the episodes that all
    have played. "Clearly" is `imitate.rl.paired.wins`, and a 95 % interval above 0: the normal quantile of `wins` is
    too small for three episodes. So a few episodes rarely tell two good policies apart.
    """
    left, found = list(order), []
    common = set.intersection(*(set(returns[name]) for name in left)) if left else set()
    if len(common) < LEAST_PAIRS:
        return left
    means = {name: float(np.mean([returns[name][seed] for seed in sorted(common)])) for name in left}
    while left:
        leader = max(left, key=lambda name: means[name])
        first = next(name for name in left if not _behind(returns[name], returns[leader]))
        left.remove(first)
        found.append(first)
    return found


def _behind(own: Mapping[int, float], leaders: Mapping[int, float]) -> bool:
    both = paired(leaders, own, min(len(own), len(leaders)))
    return both is not None and wins(*both) and difference(*both).low > 0
