"""What every algorithm's settings promise."""

from __future__ import annotations

import dataclasses
import math

import pytest

from imitate.algorithms import ALGORITHMS
from imitate.errors import InputError

GAUSSIAN = [
    name
    for name, algorithm in ALGORITHMS.items()
    if "log_std_init" in {field.name for field in dataclasses.fields(algorithm.config)}
]


@pytest.mark.parametrize("name", GAUSSIAN)
@pytest.mark.parametrize("value", [math.nan, math.inf, -10.5, 2.5])
def test_a_log_std_that_no_policy_can_have_is_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=r"log_std_init must be in \[-10\.0, 2\.0\], got"):
        ALGORITHMS[name].config(log_std_init=value)


def test_the_gaussian_policies_are_all_there() -> None:
    assert {"bc", "dagger", "aggrevated", "ppo", "a2c", "reinforce"} <= set(GAUSSIAN)
