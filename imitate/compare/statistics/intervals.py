"""Statistics of a comparison, as recommended in arXiv:2108.13264, for crossed seeds and episodes.

`x` has shape (S, E): the return of each of S seeds (independent trainings) on each of E test episodes. The episodes are
the same for every seed and every learner. So they are crossed with the seeds, not nested in them: a hard episode is
hard for every seed, and more seeds do not average it out.

No interval can account for a kind of failure that none of its seeds had. `benchmarks/coverage.py` measures how often
these intervals cover the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from imitate.envs.spaces import Array

__all__ = [
    "ENOUGH_SEEDS",
    "Difference",
    "area",
    "difference",
    "drawn_scores",
    "holm",
    "improvement",
    "interval",
    "iqm",
    "iqms",
    "optimality_gap",
    "profile",
    "reached",
    "share_interval",
    "stretched",
    "stretched_p",
    "worst",
]

ENOUGH_SEEDS = 5
"""With fewer seeds, a failure of one seed in five is too often missed."""
_CONFIDENCE = 0.95
_NORMAL = float(special.ndtri((1 + _CONFIDENCE) / 2))  # 1.96


@dataclass(frozen=True)
class Difference:
    """The mean of a minus the mean of b, its 95 % interval, and the two-sided p-value of no difference."""

    mean: float
    low: float
    high: float
    p: float


def interval(x: ArrayLike) -> tuple[float, float]:
    """95 % interval of the mean of x (S, E), for other seeds and other episodes.

    It is a t interval from the variance components of seeds and episodes (two-way random effects, Satterthwaite's
    degrees of freedom). In simulations it covers 92 to 99 % from three seeds on and 88 to 99 % of two; a percentile
    bootstrap of so few seeds is too narrow.
    It can't cover if the seeds show only one of two groups (`imitate.compare.statistics.collapse`). For one row, a
    single policy, the interval is over its episodes. NaN for a single number.
    """
    found = _contrast(np.atleast_2d(np.asarray(x, float)))
    return found.low, found.high


def difference(a: ArrayLike, b: ArrayLike) -> Difference:
    """Mean of a (S, E) minus mean of b (R, E), paired by episode, so that an episode's effect on both cancels.

    A single row is one given policy, such as an expert, and not a sample of seeds.
    """
    return _contrast(*(np.atleast_2d(np.asarray(x, float)) for x in (a, b)))


def _contrast(*groups: Array) -> Difference:
    """The mean of one group, or that of the first minus that of the second, with the variance of seeds within each
    group and of episodes across all."""
    first, *others = (group.mean(0) for group in groups)
    by_episode = first - sum(others)  # (E,)
    estimate, episodes = float(by_episode.mean()), by_episode.size
    parts: list[tuple[float, float]] = []  # variance and degrees of freedom
    noise = 0.0
    for group in groups:
        seeds = len(group)
        if seeds > 1:
            means = group.mean(1)
            parts.append((float(means.var(ddof=1)) / seeds, seeds - 1.0))
            if episodes > 1:
                residual = group - means[:, None] - group.mean(0) + group.mean()
                free = (seeds - 1) * (episodes - 1)
                noise += float((residual**2).sum()) / free / (seeds * episodes)
    if episodes > 1:
        parts.append((float(np.var(by_episode, ddof=1)) / episodes, episodes - 1.0))
    if not parts:
        return Difference(estimate, np.nan, np.nan, np.nan)
    # The noise is in both the seeds' part and the episodes', so it is subtracted once. The sum is never below its
    # largest part.
    variance = max(sum(part for part, _ in parts) - noise, *(part for part, _ in parts), 0.0)
    if variance <= 1e-24 * max(1.0, estimate**2):
        return Difference(estimate, estimate, estimate, float(abs(estimate) <= 1e-12))
    # Satterthwaite's degrees of freedom are those of the variance without the noise: with it, few noisy seeds would
    # seem to tell more than they do. They are never fewer than those of one part.
    degrees = variance**2 / sum(part**2 / count for part, count in parts)
    degrees = max(degrees, min(count for part, count in parts if part))
    half = special.stdtrit(degrees, (1 + _CONFIDENCE) / 2) * np.sqrt(variance)
    p = 2 * special.stdtr(degrees, -abs(estimate) / np.sqrt(variance))
    return Difference(estimate, float(estimate - half), float(estimate + half), float(p))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: adjusted p-values, in the order given. NaN (no test) stays NaN and is not
    counted."""
    p = np.asarray(p_values, float)
    tested = np.flatnonzero(~np.isnan(p))
    adjusted, highest = p.copy(), 0.0
    for rank, index in enumerate(tested[np.argsort(p[tested], kind="stable")]):
        highest = max(highest, min(1.0, (len(tested) - rank) * p[index]))
        adjusted[index] = highest
    return [float(value) for value in adjusted]


def improvement(a: ArrayLike, b: ArrayLike) -> float:
    """Probability that a run of a (S, E) has a higher mean than a run of b (R, E); ties count half."""
    x, y = (np.atleast_2d(np.asarray(scores, float)).mean(1) for scores in (a, b))
    ahead = np.sign(x[:, None] - y)
    return float((ahead.mean() + 1) / 2)


def worst(x: ArrayLike) -> float:
    """Mean of the worst tenth of all seeds' episodes, at least of one episode."""
    returns = np.sort(np.asarray(x, float).ravel())
    return float(returns[: max(1, round(0.1 * returns.size))].mean())


def iqm(scores: ArrayLike) -> float:
    """Interquartile mean of run scores (S, tasks): the mean of their middle half."""
    from scipy import stats  # takes half a second, which only suites need

    return float(stats.trim_mean(np.asarray(scores, float), 0.25, axis=None))


def iqms(draws: Array) -> Array:
    """Interquartile mean of each draw of run scores (count, ...): (count,)."""
    from scipy import stats

    return np.asarray(stats.trim_mean(draws.reshape(len(draws), -1), 0.25, axis=1))


def optimality_gap(scores: ArrayLike) -> float:
    """Optimality gap: the mean distance of run scores (S, tasks) from 1; scores above count as 1."""
    return float(1.0 - np.minimum(np.asarray(scores, float), 1.0).mean())


def profile(scores: ArrayLike, thresholds: ArrayLike) -> Array:
    """Share of run scores (S, tasks) above each of the thresholds (K,): (K,)."""
    table = np.asarray(scores, float)
    return np.array([(table > threshold).mean() for threshold in np.asarray(thresholds, float)])


def drawn_scores(
    returns: ArrayLike, random: ArrayLike, expert: ArrayLike, *, seed: int = 0, count: int = 2_000
) -> Array:
    """Crossed bootstrap of the runs' scores in one environment: `count` draws of seeds and of episodes, (count, S).

    `returns` are (S, E), those of random actions and of the expert (E,). A score is 0 for random's mean and 1 for the
    expert's, on the drawn episodes of all three. The same `seed` draws the same episodes for every learner, and the
    same seeds for learners with equally many.
    """
    x, low, high = (np.asarray(each, float) for each in (returns, random, expert))
    seeds, episodes = x.shape
    # The number of times that each draw has each episode; divided by `episodes` they are weights.
    weights = np.random.default_rng((seed, 0)).multinomial(episodes, np.full(episodes, 1 / episodes), count)
    rows = np.random.default_rng((seed, seeds)).integers(seeds, size=(count, seeds))
    # (count, S), (count,), (count,)
    means, low, high = (weights @ each.T / episodes for each in (x, low, high))
    # If a draw's expert is no better than random actions, any score is possible, so a huge one is used.
    span = np.maximum(high - low, 1e-6 * np.abs(high - low).max())
    return np.asarray((np.take_along_axis(means, rows, 1) - low[:, None]) / span[:, None])


def stretched(value: ArrayLike, draws: ArrayLike, seeds: int) -> tuple[Array, Array]:
    """Ends of the 95 % interval of `value` (...) from its bootstrap draws (..., count); NaN for one seed.

    The distance of the draws' 2.5 and 97.5 % points is stretched by sqrt(S / (S - 1)) * t(S - 1) / 1.96: drawing S
    seeds out of S varies too little, and a normal distribution ignores that S seeds determine their spread poorly.
    """
    center = np.asarray(value, float)
    if seeds < 2:
        return np.full(center.shape, np.nan), np.full(center.shape, np.nan)
    points = np.percentile(
        np.asarray(draws, float), (50 * (1 - _CONFIDENCE), 50 * (1 + _CONFIDENCE)), axis=-1
    )
    factor = np.sqrt(seeds / (seeds - 1)) * special.stdtrit(seeds - 1, (1 + _CONFIDENCE) / 2) / _NORMAL
    low, high = np.minimum(points[0] - center, 0.0), np.maximum(points[1] - center, 0.0)
    return np.asarray(center + factor * low), np.asarray(center + factor * high)


def share_interval(value: ArrayLike, draws: ArrayLike, seeds: int, runs: int) -> tuple[Array, Array]:
    """Ends of the 95 % interval of a share (...) of `runs` runs, from its bootstrap draws (..., count).

    They are those of `stretched`, which vary by seed and by episode, but at least as far apart as those of Wilson's
    score interval (1927): where all runs are above a threshold, the draws have no width.

    Wilson's variance, share (1 - share) / runs, is that of a share above a threshold, and the largest that the
    probability of improvement can have for as many runs of either learner (Birnbaum and Klose 1957, "Bounds for the
    variance of the Mann-Whitney statistic"). Environments that differ only make it smaller.
    """
    share, square = np.asarray(value, float), _NORMAL**2
    half = _NORMAL * np.sqrt(share * (1 - share) / runs + square / (2 * runs) ** 2)
    low, high = ((share + square / (2 * runs) + end) / (1 + square / runs) for end in (-half, half))
    least, most = stretched(share, draws, seeds)
    return np.clip(np.minimum(low, least), 0, 1), np.clip(np.maximum(high, most), 0, 1)


def stretched_p(value: float, low: float, high: float, seeds: int) -> float:
    """Two-sided p-value of 0 for a value with `stretched` ends: below 0.05 exactly if they exclude 0.

    It does not depend on the number of draws. It belongs to a t statistic whose standard error is the distance of the
    end on the side of 0, in units of t(S - 1).
    """
    if seeds < 2 or np.isnan(low):
        return float("nan")
    distance = value - low if value > 0 else high - value
    if distance <= 1e-12:
        return float(abs(value) <= 1e-12)
    units = special.stdtrit(seeds - 1, (1 + _CONFIDENCE) / 2)
    return float(2 * special.stdtr(seeds - 1, -abs(value) / distance * units))


def reached(curve: ArrayLike, share: float) -> float | None:
    """The least cost at which a curve (P, 2) of (cost, share) reaches `share`; None if it never does.

    The points of an offline learner are trainings of their own, so a later one may cost less time.
    """
    points = np.asarray(curve, float).reshape(-1, 2)
    above = points[points[:, 1] >= share]
    return float(above[:, 0].min()) if len(above) else None


def area(curve: ArrayLike, budget: float, *, steps: bool = False) -> float:
    """Mean height of a curve (P, 2) of (cost, share) from 0 to `budget`. It is linear between its points, or with
    `steps` flat after each, and flat before the first and after the last. A mean of 1 equals the expert from the first
    step on."""
    points = np.asarray(curve, float).reshape(-1, 2)
    cost = np.concatenate([[0.0], np.minimum(points[:, 0], budget), [budget]])
    height = np.concatenate([points[:1, 1], points[:, 1], points[-1:, 1]])
    if steps:
        return float((height[:-1] * np.diff(cost)).sum() / budget)
    from scipy.integrate import trapezoid  # which loads slowly

    return float(trapezoid(height, cost) / budget)
