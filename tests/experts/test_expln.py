"""The deviation of agents that were trained with `use_expln`."""

from __future__ import annotations

import math

import numpy as np

from imitate.experts.sb3.acting import _expln


def test_it_grows_as_a_logarithm_above_one_and_as_a_power_below() -> None:
    found = _expln(np.float64([-2, 0, 1, math.e - 1]))
    np.testing.assert_allclose(found, [math.exp(-2), 1, math.log(2) + 1, 2], rtol=1e-5)
