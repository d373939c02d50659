"""The contest between learning with a critic's step and without it, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

from imitate.aggrevated.contest import Contest, learners_gains
from imitate.rl.rollout import Rollout


class TenTimes:
    """Two heads; the mean value of the expert's action, which is 1, is ten times the observation."""

    gamma, reward_scale, greedy = 0.5, 2.0, False

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        return torch.stack([9.0 * obs[:, 0], 11.0 * obs[:, 0]]) * actions


def test_a_step_gains_its_reward_and_the_difference_of_the_experts_values() -> None:
    """States 1 2 3 | 4 5 in one environment: the task ends after state 3, the rollout after state 5. Values 10 to 50.

    1 + 0.5 * 20 - 10 = 1, the second step is the expert's, 3 - 30 = -27 as nothing follows, 4 + 0.5 * 50 - 40 = -11,
    and what follows the last is not known.
    """
    obs = np.float32([[[1]], [[2]], [[3]], [[4]], [[5]]])
    terminated = np.array([[False], [False], [True], [False], [False]])
    rewards = np.float32([[2], [4], [6], [8], [10]])  # 1 to 5 in the critic's units
    nothing = np.zeros((5, 1), bool)
    rollout = Rollout(
        obs,
        np.zeros((5, 1)),
        rewards,
        terminated,
        nothing,
        np.array([[2, 0]]),
        np.float32([[9]]),
        np.float32([[6]]),
    )
    turns = np.array([[False], [True], [False], [False], [False]])
    gains = learners_gains(TenTimes(), rollout, np.ones((5, 1)), turns, torch.device("cpu"))  # type: ignore[arg-type]
    assert_allclose(gains, [1.0, -27.0, -11.0])


@pytest.mark.parametrize(("with_it", "lost"), [([0.0, 2.0], False), ([-2.0, -4.0], True)])
def test_the_critics_step_loses_if_it_is_worse_by_two_standard_errors(
    with_it: list[float], lost: bool
) -> None:
    """Both have a standard error of 1 / sqrt(2), so their difference has 1; -3 - 1 is 4 of it below, 1 - 1 is not."""
    contest = Contest()
    contest.record(torch.tensor([99.0]))  # of a learner that was not trained yet: nobody's
    assert not contest.lost
    for acting, gains in ((False, [0.0, 2.0]), (True, with_it)):
        contest.acting = acting
        contest.record(torch.tensor(gains))
    assert contest.difference == (pytest.approx(sum(with_it) / 2 - 1), pytest.approx(1.0))
    assert contest.lost == lost
    again = Contest()
    again.load_state_dict(contest.state_dict())
    assert (again.difference, again.acting) == (contest.difference, True)
