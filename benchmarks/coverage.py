"""Simulate how often 95 % intervals cover the truth: for a learner's mean return, and a suite's interquartile mean
(IQM).

    python benchmarks/coverage.py [--repetitions 2000]

Returns are drawn from known distributions, for 3, 5 and 10 seeds and 20 test episodes. `before` are the intervals of
commit 8e71fdf: Student's t over the seeds' means below five seeds, and for a suite the percentiles of a bootstrap over
seeds only. `after` are those of `imitate.compare.statistics.intervals`. `pooled` is a narrower alternative for a suite,
with the degrees of freedom of all environments, tasks * (S - 1). Writes results/coverage.json.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from scipy import stats

from imitate.compare.statistics.collapse import lower_group
from imitate.compare.statistics.intervals import drawn_scores, interval, iqm, iqms, stretched
from imitate.envs.spaces import Array
from imitate.files import versions, write_json

RECORD = Path(__file__).parent / "results" / "coverage.json"
SEEDS, EPISODES = (3, 5, 10), 20
DRAWS = 1_000  # of the bootstrap; reports use 2,000
Ends = tuple[float, float]


@dataclass(frozen=True)
class Returns:
    """Standard deviations in units of the way from random actions to the expert.

    of_all       effect of an episode on the learner and the expert; random actions get 0.3 of it
    of_learners  effect of an episode on all seeds of the learner, and on nothing else
    collapse     probability that a seed's mean is 0
    """

    seeds: float = 0.1
    of_all: float = 0.0
    of_learners: float = 0.0
    noise: float = 0.2
    collapse: float = 0.0

    def learner(self, rng: np.random.Generator, mean: float, seeds: int, shared: Array) -> Array:
        """Returns (S, E) of a learner."""
        means = mean + self.seeds * rng.normal(size=(seeds, 1))
        means = means * (rng.random((seeds, 1)) >= self.collapse)
        own = self.of_learners * rng.normal(size=EPISODES)
        return np.asarray(means + shared + own + self.noise * rng.normal(size=(seeds, EPISODES)))

    def mean(self, mean: float) -> float:
        return mean * (1 - self.collapse)


SINGLE = {
    "seeds differ": Returns(seeds=0.2, noise=0.1),
    "episodes differ": Returns(seeds=0.03, of_learners=0.2, noise=0.1),
    "both differ": Returns(seeds=0.1, of_learners=0.1, noise=0.05),
    "one seed in five collapses": Returns(seeds=0.05, noise=0.1, collapse=0.2),
    "one in five collapses, episodes differ": Returns(seeds=0.05, of_learners=0.3, noise=0.1, collapse=0.2),
}
MEANS = (1.0, 0.95, 0.8, 0.6)  # of the learner, in the environments of a suite
CALM = Returns(seeds=0.005, noise=0.05)
SUITES = {
    "seeds differ": [Returns()] * 4,
    "episodes hard for all": [Returns(of_all=0.5)] * 4,
    "episodes hard for the learner": [Returns(of_learners=0.6)] * 4,
    "one seed in five collapses": [Returns(collapse=0.2)] * 4,
    "one in five collapses, episodes hard for the learner": [Returns(collapse=0.2, of_learners=0.6)] * 4,
    "seeds differ in one environment only": [CALM, Returns(seeds=0.3, noise=0.05), CALM, CALM],
}
GROUPS = (0.05, 0.1, 0.2)  # deviation of the seeds' means if there is one group


def before(x: Array) -> Ends:
    """The interval of a mean as of 8e71fdf."""
    return interval(x.mean(1, keepdims=True) if len(x) < 5 else x)


def coverage_of_means(world: Returns, seeds: int, repetitions: int) -> dict[str, float]:
    """Coverage before and after, and the share of learners that are marked as two groups."""
    rng, found = np.random.default_rng(1), defaultdict[str, list[bool]](list)
    for _ in range(repetitions):
        x = world.learner(rng, 1.0, seeds, np.zeros(EPISODES))
        for name, form in (("before", before), ("after", interval)):
            low, high = form(x)
            found[name].append(low <= world.mean(1.0) <= high)
        found["marked"].append(lower_group(x.mean(1), 1.0) > 0)
    return shares(found)


def coverage_of_iqm(suite: list[Returns], seeds: int, repetitions: int) -> dict[str, float]:
    rng, found = np.random.default_rng(1), defaultdict[str, list[bool]](list)
    truth = true_iqm(suite)
    for _ in range(repetitions):
        for name, (low, high) in suite_intervals(suite, seeds, rng).items():
            found[name].append(low <= truth <= high)
    return shares(found)


def suite_intervals(suite: list[Returns], seeds: int, rng: np.random.Generator) -> dict[str, Ends]:
    scores, draws = [], []
    for task, (world, mean) in enumerate(zip(suite, MEANS, strict=True)):
        shared = world.of_all * rng.normal(size=EPISODES)
        x = world.learner(rng, mean, seeds, shared)
        expert = 1 + shared + 0.1 * rng.normal(size=EPISODES)
        random = 0.3 * shared + 0.1 * rng.normal(size=EPISODES)
        scores.append((x.mean(1) - random.mean()) / (expert.mean() - random.mean()))
        draws.append(drawn_scores(x, random, expert, seed=task, count=DRAWS))
    table, drawn = np.stack(scores, 1), iqms(np.stack(draws, 2))
    value = iqm(table)
    rows = rng.integers(seeds, size=(DRAWS, seeds, len(suite)))
    old = np.percentile(iqms(table[rows, np.arange(len(suite))]), (2.5, 97.5))
    low, high = stretched(value, drawn, seeds)
    # The stretch uses t(S - 1); the ratio of two t values changes it to the degrees of freedom of all environments'
    # seeds.
    narrower = stats.t.ppf(0.975, len(suite) * (seeds - 1)) / stats.t.ppf(0.975, seeds - 1)
    return {
        "before": (float(old[0]), float(old[1])),
        "after": (float(low), float(high)),
        "pooled": (value + narrower * (float(low) - value), value + narrower * (float(high) - value)),
    }


def true_iqm(suite: list[Returns]) -> float:
    """The IQM of 200,000 seeds on infinitely many episodes."""
    rng = np.random.default_rng(0)
    columns = []
    for world, mean in zip(suite, MEANS, strict=True):
        means = mean + world.seeds * rng.normal(size=200_000)
        columns.append(means * (rng.random(200_000) >= world.collapse))
    return iqm(np.stack(columns, 1))


def shares(found: Mapping[str, list[bool]]) -> dict[str, float]:
    return {name: round(float(np.mean(each)), 3) for name, each in found.items()}


def table(
    title: str,
    worlds: Mapping[str, Any],
    measure: Callable[[Any, int, int], dict[str, float]],
    repetitions: int,
) -> dict[str, dict[str, dict[str, float]]]:
    """Measurements by kind of returns and number of seeds; each is printed when it is done."""
    print(title)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, world in worlds.items():
        found[name] = {str(seeds): measure(world, seeds, repetitions) for seeds in SEEDS}
        cells = (
            f"{seeds} seeds: " + ", ".join(f"{form} {share:.2f}" for form, share in each.items())
            for seeds, each in found[name].items()
        )
        print(f"  {name:54}" + "; ".join(cells), flush=True)
    return found


def main(repetitions: int = 2_000) -> None:
    single = table("Mean return of a learner", SINGLE, coverage_of_means, repetitions)
    suites = table("IQM of a suite of four environments", SUITES, coverage_of_iqm, repetitions)
    groups = {
        f"{seeds} seeds, deviation {deviation}": shares(
            {"marked": [lower_group(deviation * row, 1.0) > 0 for row in normal]}
        )["marked"]
        for seeds in SEEDS
        for normal in [np.random.default_rng(2).normal(size=(repetitions, seeds))]
        for deviation in GROUPS
    }
    print("One group of seeds, taken for two:", groups)
    record = {"repetitions": repetitions, "episodes": EPISODES, "draws": DRAWS, "versions": versions()}
    write_json(RECORD, record | {"mean": single, "suite": suites, "one_group_marked": groups})


if __name__ == "__main__":
    tyro.cli(main)
