"""Monte-Carlo returns against arithmetic by hand, and against the advantages that they imply."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from imitate.envs.spaces import Array
from imitate.rl.returns import discounted_returns, explained_variance, gae


def column(*values: float) -> Array:
    return np.array(values, np.float64)[:, None]


def flags(*values: int) -> Array:
    return np.array(values, bool)[:, None]


NEVER = flags(0, 0, 0)
REWARDS, NEXT_VALUES = column(1, 2, 4), column(10, 20, 40)


@pytest.mark.parametrize(
    ("next_values", "terminated", "truncated", "wanted"),
    [
        (NEXT_VALUES, NEVER, NEVER, (8, 14, 24)),
        (NEXT_VALUES, flags(0, 1, 0), NEVER, (2, 2, 24)),
        (NEXT_VALUES, NEVER, flags(0, 1, 0), (7, 12, 24)),
        (NEXT_VALUES, flags(0, 0, 1), NEVER, (3, 4, 4)),
        (np.zeros((3, 1)), NEVER, flags(0, 0, 1), (3, 4, 4)),  # nothing is known of what was cut off
    ],
)
def test_monte_carlo_returns(
    next_values: Array, terminated: Array, truncated: Array, wanted: tuple[float, ...]
) -> None:
    assert_allclose(discounted_returns(REWARDS, next_values, terminated, truncated, 0.5), column(*wanted))


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 3), st.integers(0, 2**31), st.floats(0, 1))
def test_advantages_are_what_the_returns_imply(steps: int, num_envs: int, seed: int, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    shape = (steps, num_envs)
    rewards, values, next_values = rng.normal(size=(3, *shape))
    terminated = rng.random(shape) < 0.2
    truncated = (rng.random(shape) < 0.2) & ~terminated
    # Within an episode the successor's value is that of the next row.
    next_values[:-1] = np.where((terminated | truncated)[:-1], next_values[:-1], values[1:])
    ends = (terminated, truncated, gamma)
    monte_carlo = discounted_returns(rewards, next_values, *ends)
    assert_allclose(monte_carlo, gae(rewards, values, next_values, *ends, 1.0) + values, atol=1e-9)
    one_step = rewards + gamma * next_values * ~terminated
    assert_allclose(one_step, gae(rewards, values, next_values, *ends, 0.0) + values, atol=1e-9)


@pytest.mark.parametrize("scale", [1e6, 1.0, 1e-6])
def test_explained_variance_is_a_share_whatever_the_unit_of_returns(scale: float) -> None:
    returns, errors = torch.tensor([[0.0, 2.0, 4.0], [0.0, 1.0, 2.0]]) * scale  # variances 4 and 1
    assert explained_variance(errors, returns) == pytest.approx(0.75)


def test_returns_without_variance_have_no_share_to_explain() -> None:
    assert explained_variance(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 3.0])) == 0
    assert explained_variance(torch.tensor([1.0]), torch.tensor([3.0])) == 0
    rounded = torch.full((64,), 1.1) + 1e-7 * (torch.arange(64) % 2)
    assert explained_variance(torch.linspace(0, 1, 64), rounded) == 0
