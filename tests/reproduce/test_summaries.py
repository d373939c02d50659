"""Experiments and rows name each other; the prediction interval by hand."""

from __future__ import annotations

import math

import pytest

from imitate.reproduce.experiments import failing_forms, read_experiments
from imitate.reproduce.rows import read_rows
from imitate.reproduce.summaries import Summary, prediction_interval, read_summaries


def test_every_experiment_is_answered_by_rows_that_exist() -> None:
    experiments = read_experiments()
    assert [each.number for each in experiments] == list(range(1, 29))
    named = {name for each in experiments for name in (*each.rows, *each.failing)}
    assert named <= set(read_rows())


def test_summaries_are_of_rows() -> None:
    assert set(read_summaries()) <= set(read_rows())
    assert read_summaries()["ppo-cartpole"].mean == 500.0


def test_prediction_interval_by_hand() -> None:
    """t(0.975; 1) = 12.706, s = sqrt(2), two further seeds: 2 +- 12.706 * sqrt(2) * sqrt(1/2 + 1/2)."""
    among = prediction_interval([1.0, 3.0], 2)
    assert among is not None
    assert among == pytest.approx((2 - 12.7062 * math.sqrt(2), 2 + 12.7062 * math.sqrt(2)), abs=1e-3)
    assert prediction_interval([1.0], 2) is None


def test_costs_in_words() -> None:
    def fits(minutes: float) -> str:
        return Summary((1.0,), None, None, 0.0, 1, minutes).fits

    assert [fits(10), fits(10.1), fits(61), fits(601)] == ["10 minutes", "an hour", "a night", "days"]


def test_a_failing_form_belongs_to_the_row_that_mends_it() -> None:
    assert failing_forms("gail-cartpole-30-pairs") == ["gail-cartpole-30-pairs-positive"]
    assert failing_forms("dagger-cartpole") == []
