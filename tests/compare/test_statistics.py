"""Statistics against arithmetic by hand, against rliable, and intervals against what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from imitate.compare.statistics.intervals import (
    area,
    difference,
    drawn_scores,
    holm,
    improvement,
    interval,
    iqm,
    iqms,
    optimality_gap,
    profile,
    reached,
    share_interval,
    stretched,
    stretched_p,
    worst,
)

SCORES = np.array([[0.1, 0.5, 0.9], [0.3, 0.7, 1.1], [0.2, 0.2, 1.0], [0.6, 0.4, 0.8]])  # (4 seeds, 3 tasks)
OTHERS = np.array([[0.2, 0.5, 0.3], [0.1, 0.6, 0.7], [0.25, 0.2, 0.9]])


# --- intervals


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize(
    ("of_seeds", "of_episodes", "noise"), [(1, 0, 0.5), (0, 1, 0.5), (0.5, 2, 1), (1, 1, 0.2)]
)
def test_95_percent_intervals_hold_95_percent(
    seeds: int, of_seeds: float, of_episodes: float, noise: float
) -> None:
    """The true mean is 0. 400 repetitions: one standard error is 1.1 %."""
    rng, held, paired = np.random.default_rng(3), 0, 0
    for _ in range(400):
        hardness = of_episodes * rng.normal(size=(1, 20))
        a, b = (
            of_seeds * rng.normal(size=(seeds, 1)) + hardness + noise * rng.normal(size=(seeds, 20))
            for _ in range(2)
        )
        low, high = interval(a)
        held += low <= 0 <= high
        found = difference(a, b)
        paired += found.low <= 0 <= found.high
    least = 0.89 if seeds == 3 else 0.92  # with three seeds it is 0.92 (benchmarks/coverage.py)
    assert least <= held / 400 <= 0.985
    assert least <= paired / 400 <= 0.995  # seeds that are all alike are taken to differ a little


def test_noise_of_100_episodes_is_not_taken_for_knowledge_of_the_seeds() -> None:
    """Three seeds differ by 0.2, and every episode by 1. With the noise in the degrees of freedom, 90 % were held."""
    rng, held = np.random.default_rng(4), 0
    for _ in range(2_000):
        low, high = interval(0.2 * rng.normal(size=(3, 1)) + rng.normal(size=(3, 100)))
        held += low <= 0 <= high
    assert held / 2_000 >= 0.93


def test_five_seeds_that_differ_and_episodes_that_do_not_give_students_t() -> None:
    # Means 1 to 5: 3 +- t(0.975, 4) * sqrt(2.5 / 5) = 2.776 * 0.7071 = 1.963
    low, high = interval(np.repeat([[1.0], [2.0], [3.0], [4.0], [5.0]], 4, axis=1))
    assert (low, high) == pytest.approx((3 - 1.963, 3 + 1.963), abs=1e-3)


def test_below_five_seeds_the_interval_is_for_other_episodes_too() -> None:
    # Three seeds that do the same on episodes of 1, 2 and 3: 2 +- 4.303 * 1 / sqrt(3) = 2.484. It had no width.
    same = [[1.0, 2.0, 3.0]] * 3
    assert interval(same) == pytest.approx((2 - 2.484, 2 + 2.484), abs=1e-3)
    # Seeds of 1, 2 and 3 on episodes without an effect: the same again, from the seeds.
    assert interval(np.transpose(same)) == pytest.approx((2 - 2.484, 2 + 2.484), abs=1e-3)


def test_one_policy_has_an_interval_over_its_episodes() -> None:
    # 1, 2, 3: the same three numbers, now as episodes.
    assert interval([[1.0, 2.0, 3.0]]) == pytest.approx((2 - 2.484, 2 + 2.484), abs=1e-3)
    assert all(map(math.isnan, interval([[7.0]])))


def test_what_never_varies_has_an_interval_of_no_width() -> None:
    assert interval(np.full((5, 4), 500.0)) == (500.0, 500.0)
    assert difference(np.full((5, 4), 500.0), np.full((1, 4), 500.0)).p == 1.0
    assert difference(np.full((5, 4), 500.0), np.full((5, 4), 20.0)).p == 0.0


# --- differences


def test_differences_between_episodes_cancel_in_a_pair() -> None:
    """Episodes differ by hundreds; b is one lower on each."""
    hardness = np.array([[-300.0, -100.0, 0.0, 250.0]])
    seeds = np.array([[-0.2], [-0.1], [0.0], [0.1], [0.2]])
    a, b = hardness + seeds + 1, hardness + seeds
    paired = difference(a, b)
    # Standard error: sqrt(2 * 0.025 / 5) = 0.1; degrees of freedom 8: t = 2.306
    assert (paired.mean, paired.low, paired.high) == pytest.approx((1.0, 1 - 0.2306, 1 + 0.2306), abs=1e-4)
    assert paired.p == pytest.approx(1e-5, rel=0.2)
    low, high = interval(a)
    assert high - low > 700


def test_the_expert_is_one_policy_and_no_sample() -> None:
    learner = np.array([[9.0, 11.0], [8.0, 10.0], [10.0, 12.0], [9.0, 11.0], [9.0, 11.0]])
    found = difference(learner, [[10.0, 12.0]])
    # Seeds' means are 10, 9, 11, 10, 10: variance 0.5; every episode is one below the expert's.
    assert found.mean == -1.0
    assert found.high - found.mean == pytest.approx(2.776 * math.sqrt(0.5 / 5), abs=1e-3)


def test_holm_multiplies_the_smallest_by_all_and_never_goes_down() -> None:
    # Sorted: 0.01 * 3 = 0.03, 0.02 * 2 = 0.04, 0.03 * 1 = 0.03 -> not below 0.04
    assert holm([0.02, 0.01, 0.03]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    adjusted = holm([math.nan, 0.01])
    assert math.isnan(adjusted[0])
    assert adjusted[1] == 0.01


def test_improvement_counts_pairs_of_runs() -> None:
    # Run means 1, 3 against 2, 3: 1 < 2, 1 < 3, 3 > 2, 3 = 3: (0 + 0 + 1 + 0.5) / 4
    assert improvement([[0.0, 2.0], [3.0, 3.0]], [[2.0, 2.0], [2.0, 4.0]]) == 0.375


def test_the_worst_tenth_sees_the_crashes() -> None:
    returns = np.full((2, 10), 300.0)
    returns[1, 3] = -100.0
    assert worst(returns) == 100.0  # the two worst of twenty
    assert worst([[5.0, 7.0]]) == 5.0
    # A tenth of 15 is two, rounded.
    assert worst([[0.0, 10.0] + [100.0] * 13]) == 5.0


# --- suites: values that rliable 1.2.0 gave for the same arrays


def test_aggregates_are_those_of_rliable() -> None:
    assert iqm(SCORES) == pytest.approx(0.5499999999999999)
    assert optimality_gap(SCORES) == pytest.approx(0.44166666666666665)
    by_task = [improvement(SCORES[:, [task]], OTHERS[:, [task]]) for task in range(3)]
    assert np.mean(by_task) == pytest.approx(0.6805555555555555)


def test_a_profile_is_the_share_of_runs_above() -> None:
    assert profile(SCORES, [0.0, 0.5, 0.95]).tolist() == [1.0, 6 / 12, 2 / 12]


def test_draws_keep_environments_apart_and_episodes_together() -> None:
    """Random actions get 0 or 10 by episode, the expert 20 more, seed 0 ten more than random and seed 1 twenty more:
    scores of 0.5 and 1 in every draw, since an episode gives the same to all three."""
    random = np.array([0.0, 10.0, 0.0, 10.0])
    drawn = drawn_scores(np.stack([random + 10, random + 20]), random, random + 20, count=200)
    assert drawn.shape == (200, 2)
    assert set(drawn.ravel().round(9)) == {0.5, 1.0}
    fixed = drawn_scores(np.full((2, 4), 10.0), random, random + 20, count=200)
    # Now 0 to 4 of the episodes drawn are hard, and the scale is drawn too.
    assert len(set(fixed[:, 0].round(9))) == 5


def test_a_pair_is_drawn_with_the_same_seeds_and_episodes() -> None:
    x = np.random.default_rng(0).normal(size=(5, 8))
    a, b = (drawn_scores(x + gain, np.zeros(8), np.ones(8), seed=3) for gain in (0.25, 0.0))
    np.testing.assert_allclose(a - b, 0.25)
    assert not np.allclose(a, drawn_scores(x + 0.25, np.zeros(8), np.ones(8), seed=4))


def test_learners_with_other_numbers_of_seeds_are_drawn_the_same_episodes() -> None:
    """All seeds of both learners are alike, so only the episodes can tell their draws apart."""
    two, three = (
        drawn_scores(np.tile(np.arange(8.0), (seeds, 1)), np.zeros(8), np.ones(8), count=50)
        for seeds in (2, 3)
    )
    np.testing.assert_allclose(two[:, 0], three[:, 0])


def test_an_expert_that_some_draws_leave_below_random_gives_no_narrow_interval() -> None:
    drawn = drawn_scores(np.ones((3, 4)), np.zeros(4), [-10.0, 0.0, 0.0, 12.0], count=400)
    assert np.isfinite(drawn).all()
    low, high = stretched(2.0, drawn.mean(1), 3)
    assert high - low > 100


def test_ends_are_stretched_for_few_seeds() -> None:
    # 2.5 and 97.5 % of 0, 1, ... 1000 are 25 and 975; times sqrt(5 / 4) * 2.776 / 1.960 = 1.5838
    low, high = stretched(500.0, np.arange(1_001.0), 5)
    assert (low, high) == pytest.approx((500 - 475 * 1.5838, 500 + 475 * 1.5838), abs=0.1)
    assert np.isnan(stretched(500.0, np.arange(1_001.0), 1)).all()
    low, high = stretched([1.0, 2.0], [[1.0, 1.0], [2.0, 2.0]], 5)
    assert low.tolist() == high.tolist() == [1.0, 2.0]


def test_the_interval_of_a_share_is_at_least_wilsons() -> None:
    """Of z = 1.96: with all of n runs n / (n + z^2). With four of five, (0.8 + z^2 / 10) / (1 + z^2 / 5) = 0.6697, and
    z sqrt(0.16 / 5 + z^2 / 100) / (1 + z^2 / 5) = 0.2941 on both sides. One seed allows no interval."""
    assert share_interval(1.0, np.ones(9), 3, 3) == pytest.approx((3 / 6.8415, 1.0), abs=1e-4)
    assert share_interval(0.0, np.zeros(9), 5, 20) == pytest.approx((0.0, 3.8415 / 23.8415), abs=1e-4)
    assert share_interval(0.8, np.full(9, 0.8), 5, 5) == pytest.approx((0.3755, 0.9638), abs=1e-4)
    assert np.isnan(share_interval(1.0, np.ones(9), 1, 4)).all()


def test_the_interval_of_a_share_is_that_of_the_draws_if_they_vary_more() -> None:
    """As above, 25 and 975 thousandths are 0.475 from the middle: stretched, they end at 0 and 1."""
    assert share_interval(0.5, np.linspace(0, 1, 1_001), 5, 5) == pytest.approx((0.0, 1.0))


def test_p_is_below_5_percent_if_the_interval_leaves_0_out_and_has_no_floor() -> None:
    assert stretched_p(1.0, 0.0, 3.0, seeds=5) == pytest.approx(0.05)
    assert stretched_p(-1.0, -9.0, 0.0, seeds=3) == pytest.approx(0.05)
    assert stretched_p(1.0, 0.1, 9.0, seeds=5) < 0.05 < stretched_p(1.0, -0.1, 1.1, seeds=5)
    # Ten times the end's distance: t = 27.76 with 4 degrees of freedom.
    assert stretched_p(1.0, 0.9, 1.1, seeds=5) == pytest.approx(1.0e-5, rel=0.02)
    assert stretched_p(0.0, 0.0, 0.0, seeds=5) == 1.0
    assert stretched_p(0.5, 0.5, 0.5, seeds=5) == 0.0
    assert math.isnan(stretched_p(0.5, math.nan, math.nan, seeds=1))


def test_iqms_are_those_of_each_draw() -> None:
    assert iqms(np.stack([SCORES, SCORES + 1])) == pytest.approx([iqm(SCORES), iqm(SCORES) + 1])


# --- curves


def test_reached_is_the_least_cost_or_none() -> None:
    curve = [(0, 0.0), (100, 0.6), (200, 0.95), (300, 0.7), (400, 1.0)]
    assert reached(curve, 0.5) == 100
    assert reached(curve, 0.95) == 200
    assert reached(curve, 1.01) is None
    assert reached([], 0.5) is None
    assert reached([(5, 0.2), (9, 0.8), (7, 0.9)], 0.5) == reached([(5, 0.2), (9, 0.8), (7, 0.9)], 0.85) == 7


def test_area_is_the_mean_height_up_to_the_budget() -> None:
    # A ramp from 0 to 1 over the first half (area 0.25), then 1 (0.5).
    assert area([(0, 0.0), (50, 1.0)], 100) == pytest.approx(0.75)
    assert area([(10, 0.5)], 100) == pytest.approx(0.5)
    # The last point is past the budget: a ramp from 0 to 0.6 (0.18), then from 0.6 to 1 in the 40 left (0.32).
    assert area([(0, 0.0), (60, 0.6), (160, 1.0)], 100) == pytest.approx(0.5)
    # An offline learner is flat until it is trained anew: 0 for a half, then 0.6, and 1 only at the end.
    assert area([(0, 0.0), (8, 0.6), (8, 0.6), (16, 1.0)], 16, steps=True) == pytest.approx(0.3)
