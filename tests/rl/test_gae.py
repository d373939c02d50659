"""Advantages against arithmetic by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from imitate.rl.returns import gae


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float64)[:, None]


def flags(*values: int) -> np.ndarray:
    return np.array(values, bool)[:, None]


def test_a_running_episode_bootstraps_from_the_value_after_the_last_step() -> None:
    # g = .5, lam = 1: A_1 = 1 + .5 * 4 - 2 = 1; delta_0 = 1 + .5 * 2 - 3 = -1; A_0 = -1 + .5 * 1 = -.5
    advantages = gae(column(1, 1), column(3, 2), column(2, 4), flags(0, 0), flags(0, 0), 0.5, 1.0)
    assert_allclose(advantages, column(-0.5, 1.0))


def test_termination_zeroes_the_next_value_and_cuts_the_trace() -> None:
    # A_0 = 1 - 3 = -2, whatever stands in next_values and whatever the next episode brings
    advantages = gae(column(1, 9), column(3, 2), column(100, 4), flags(1, 0), flags(0, 0), 0.5, 1.0)
    assert_allclose(advantages, column(-2.0, 9 + 2 - 2))


def test_truncation_bootstraps_from_the_final_observation_and_cuts_the_trace() -> None:
    # A_0 = 1 + .5 * 10 - 3 = 3, and nothing of the 9 that follows in the next episode
    advantages = gae(column(1, 9), column(3, 2), column(10, 4), flags(0, 0), flags(1, 0), 0.5, 1.0)
    assert_allclose(advantages, column(3.0, 9 + 2 - 2))


def test_lambda_weighs_the_deltas() -> None:
    # deltas 1, 1, 1 (values 0); g = 1, lam = .5: 1 + .5 * (1 + .5) = 1.75, 1.5, 1
    zeros = column(0, 0, 0)
    assert_allclose(
        gae(column(1, 1, 1), zeros, zeros, flags(0, 0, 1), flags(0, 0, 0), 1.0, 0.5), column(1.75, 1.5, 1.0)
    )


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(0, 2**31), st.floats(0, 1))
def test_with_lambda_one_it_is_the_discounted_return_minus_the_value(
    steps: int, seed: int, gamma: float
) -> None:
    rng = np.random.default_rng(seed)
    rewards, values = rng.normal(size=(2, steps, 1))
    terminated = np.zeros((steps, 1), bool)
    terminated[-1] = True
    next_values = np.concatenate([values[1:], np.zeros((1, 1))])
    returns = [sum(gamma**k * rewards[t + k, 0] for k in range(steps - t)) for t in range(steps)]
    advantages = gae(rewards, values, next_values, terminated, np.zeros_like(terminated), gamma, 1.0)
    assert_allclose(advantages[:, 0], np.array(returns) - values[:, 0], atol=1e-9)
