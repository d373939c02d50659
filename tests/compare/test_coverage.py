"""Intervals cover what they promise: benchmarks/coverage.py with few repetitions."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import stats

from imitate.compare.statistics.intervals import share_interval

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "coverage.py"


@pytest.fixture(scope="module")
def coverage() -> ModuleType:
    spec = importlib.util.spec_from_file_location("coverage_of_intervals", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize(
    ("kind", "worst_before"),
    [
        ("episodes hard for the learner", 0.65),
        ("one in five collapses, episodes hard for the learner", 0.85),
        ("seeds differ in one environment only", 0.95),
    ],
)
def test_a_suites_iqm_is_covered(coverage: ModuleType, kind: str, worst_before: float, seeds: int) -> None:
    """Sixty repetitions; 2,000 are in benchmarks/results/coverage.json."""
    found = coverage.coverage_of_iqm(coverage.SUITES[kind], seeds, 60)
    assert found["before"] < worst_before  # the seeds alone were drawn, and their percentiles were the ends
    assert found["after"] >= 0.9


def test_three_seeds_are_enough_where_only_episodes_differ(coverage: ModuleType) -> None:
    found = coverage.coverage_of_means(coverage.SINGLE["episodes differ"], 3, 200)
    assert found["before"] < 0.87
    assert found["after"] >= 0.9


def test_no_interval_knows_of_a_collapse_that_no_seed_had(coverage: ModuleType) -> None:
    """0.8 ** 5 = 0.33 of all fives have none, which leaves 0.67; those that have one are marked."""
    found = coverage.coverage_of_means(coverage.SINGLE["one seed in five collapses"], 5, 200)
    assert found["after"] == pytest.approx(0.67, abs=0.1)
    assert found["marked"] == pytest.approx(0.67, abs=0.1)


@pytest.mark.parametrize("tasks", [1, 4])
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_probability_of_improvement_is_covered(seeds: int, tasks: int) -> None:
    """200 repetitions with normal scores. The bootstrap alone covered 29 % for three seeds and 0.95."""
    rng, count = np.random.default_rng(0), 100
    for chance in (0.5, 0.75, 0.9, 0.95):
        a = rng.normal(np.sqrt(2) * stats.norm.ppf(chance), 1, (200, 1, tasks, seeds))
        b = rng.normal(0, 1, a.shape)
        rows = rng.integers(seeds, size=(2, 200, count, tasks, seeds))
        value = ahead(a, b)[:, 0]
        draws = ahead(np.take_along_axis(a, rows[0], -1), np.take_along_axis(b, rows[1], -1))
        low, high = share_interval(value, draws, seeds, seeds * tasks)
        assert np.mean((low <= chance) & (chance <= high)) >= 0.95, chance


def ahead(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Share of pairs of runs (..., tasks, S) in which that of a is better, averaged over the environments."""
    return np.asarray((a[..., :, None] > b[..., None, :]).mean((-1, -2, -3)))


def test_the_true_iqm_is_that_of_the_middle_half(coverage: ModuleType) -> None:
    """Four environments whose seeds don't differ: the mean of the middle two of 1, 0.95, 0.8 and 0.6."""
    same = [coverage.Returns(seeds=0.0)] * 4
    assert coverage.true_iqm(same) == pytest.approx((0.95 + 0.8) / 2)
    rng = np.random.default_rng(0)
    low, high = coverage.suite_intervals([coverage.Returns(seeds=0.0, noise=0.0)] * 4, 5, rng)["after"]
    assert low < 0.875 < high
