"""The one loop that steps environments, on episodes of the counting environment: seed s lasts 1 + s % 7 steps."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from counting import counting_envs

from imitate.datasets.play import scores
from imitate.envs.spaces import Array
from imitate.envs.stepping import Score, Scores, stepping


def zeros(obs: Array, begun: Array) -> tuple[Array, list[bool]]:
    """Action 0; records where an episode begins."""
    return np.zeros(len(obs), np.int64), begun.tolist()


def test_each_step_has_its_observation_and_its_ends() -> None:
    """Seeds 1 and 2 take 2 and 3 steps; seed 0, which comes last, takes 1."""
    envs = counting_envs(2)
    taken = stepping(envs, zeros, envs.reset([1, 2, 0]))
    seen, begun, steps, ends = zip(*taken, strict=True)
    assert [obs.tolist() for obs in seen] == [[[1, 0], [2, 0]], [[1, 1], [2, 1]], [[0, 0], [2, 2]]]
    assert begun == ([True, True], [False, False], [True, False])
    assert ends == ([], [0], [0, 1])
    assert steps[1].final_obs.tolist() == [[1, 2], [2, 2]]


@pytest.mark.parametrize(("limit", "steps"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (100, 3)])
def test_no_step_is_begun_that_would_exceed_the_limit(limit: int, steps: int) -> None:
    """Each step but the last takes one of both environments."""
    envs = counting_envs(2)
    assert len(list(stepping(envs, zeros, envs.reset([1, 2, 0]), limit=limit))) == steps


def test_a_step_is_taken_when_it_is_asked_for() -> None:
    envs = counting_envs(1)
    (_, (obs, _, step, _)) = islice(stepping(envs, zeros, envs.reset([6])), 2)
    assert obs[0, 1] == 1
    ((obs, begun, _, _),) = islice(stepping(envs, zeros, step.obs, begun=step.terminated), 1)
    assert obs[0, 1] == 2
    assert begun == [False]


def test_scores_are_of_episodes_and_unfinished_ones_say_so() -> None:
    """Step t is worth t: 0 + 1, then 0, and 0 + 1 + 2."""
    envs = counting_envs(2)
    obs = envs.reset([1, 2, 0])
    tally, ended = Scores(envs), []
    for _, _, step, ends in islice(stepping(envs, zeros, obs), 2):
        ended += tally.add(step, ends)
    assert ended == [Score(1, 1.0, 2)]
    assert tally.unfinished() == [Score(0, 0.0, 0, whole=False), Score(2, 1.0, 2, whole=False)]


class Zero:
    def act(self, obs: Array, **_: Any) -> Array:
        return np.zeros(len(obs), np.int64)


def test_scores_come_in_the_order_in_which_episodes_end() -> None:
    found = list(scores(Zero(), counting_envs(2), [1, 2, 0]))
    assert found == [Score(1, 1.0, 2), Score(0, 0.0, 1), Score(2, 3.0, 3)]
