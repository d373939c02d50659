"""The one evaluation core: whose episodes count, what a bound on steps costs, and that it ends."""

from __future__ import annotations

import logging
from itertools import islice
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from counting import counting_envs
from numpy.testing import assert_array_equal
from scipy import stats

from imitate.datasets.evaluation import Evaluation, evaluate, play
from imitate.envs.make import make_env
from imitate.envs.seeds import episode_seeds
from imitate.envs.spaces import Array
from imitate.errors import InputError


class Zero:
    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        return np.zeros(len(obs), np.int64)


LENGTHS = [1 + seed % 7 for seed in islice(episode_seeds(0), 6)]
"""Of the counting environment, whose step t is worth t."""


@pytest.mark.parametrize("num_envs", [1, 4])
def test_returns_and_lengths_in_the_order_of_seeds(num_envs: int) -> None:
    result = play(Zero(), counting_envs(num_envs), episodes=6, seed=0)
    assert_array_equal(result.lengths, LENGTHS)
    assert_array_equal(result.returns, [n * (n - 1) / 2 for n in LENGTHS])
    assert result.complete
    assert result.steps == sum(LENGTHS)


def test_a_bound_on_steps_drops_the_episode_that_it_cuts() -> None:
    bound = sum(LENGTHS[:3]) + 1
    assert LENGTHS[3] > 1
    result = play(Zero(), counting_envs(1), episodes=6, seed=0, max_steps=bound)
    assert_array_equal(result.lengths, LENGTHS[:3])
    assert (result.complete, result.steps, result.dropped_steps) == (False, bound, 1)
    enough = play(Zero(), counting_envs(1), episodes=6, seed=0, max_steps=sum(LENGTHS))
    assert enough.complete


@pytest.mark.parametrize("bound", range(0, 30, 3))
def test_a_bound_on_steps_holds_for_all_environments_together(bound: int) -> None:
    result = play(Zero(), counting_envs(4), episodes=6, seed=0, max_steps=bound)
    assert result.steps <= bound
    assert result.complete == (bound >= sum(LENGTHS))
    assert result.complete or bound - 4 < result.steps
    assert set(result.lengths.tolist()) <= set(LENGTHS)


def test_no_episode_is_no_number() -> None:
    nothing = play(Zero(), counting_envs(2), episodes=6, seed=0, max_steps=1)
    assert np.isnan([nothing.mean, nothing.std, nothing.iqm, *nothing.ci95]).all()
    assert str(nothing) == "no episode ended within 0 steps"


@pytest.mark.parametrize("count", range(1, 10))
def test_the_interquartile_mean_is_scipys(count: int) -> None:
    result = play(Zero(), counting_envs(2), episodes=count, seed=0)
    assert result.iqm == pytest.approx(stats.trim_mean(result.returns, 0.25))


def test_it_prints_its_mean_and_interval() -> None:
    result = Evaluation(np.array([1.0, 3.0]), np.array([10, 20]))
    assert str(result) == (
        "return 2.00 +- 1.00 (IQM 2.00, 95 % interval of the mean -10.71 to 14.71) "
        "over 2 episodes of 10 to 20 steps (mean 15.0)"
    )


class Endless(gym.Env[Any, Any]):
    observation_space = gym.spaces.Discrete(1)
    action_space = gym.spaces.Discrete(2)

    def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        return 0, 1.0, False, False, {}


gym.register("Endless-v0", Endless)


def test_an_environment_without_a_time_limit_is_cut_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("imitate.envs.make.MAX_EPISODE_STEPS", 30)
    with caplog.at_level(logging.WARNING, "imitate"):
        assert_array_equal(evaluate(Zero(), "Endless-v0", episodes=3).lengths, 30)
        (said,) = caplog.messages
        assert "has no time limit: an episode was cut after 30 steps" in said
        caplog.clear()
        limited = evaluate(Zero(), "Endless-v0", episodes=2, env_kwargs={"max_episode_steps": 40})
        assert_array_equal(limited.lengths, 40)
        assert caplog.messages == []


def test_an_environment_with_a_time_limit_keeps_it() -> None:
    env = make_env("CartPole-v1")
    assert env.spec is not None
    assert env.spec.max_episode_steps == 500
    assert "Cut" not in str(env)
    env.close()


def test_the_interval_of_a_mean_is_students() -> None:
    few = Evaluation(np.array([1.0, 2.0, 6.0]), np.ones(3, np.int64))
    assert few.ci95 == pytest.approx(stats.t.interval(0.95, 2, 3.0, stats.sem([1.0, 2.0, 6.0])))


def test_one_episode_has_no_spread() -> None:
    one = Evaluation(np.array([7.0]), np.array([12]))
    assert str(one) == "return 7.00 in 1 episode of 12 steps"  # it was "return 7.00 +- 0.00 ..."
    assert one.to_json()["ci95"] is None
    assert one.to_json()["std"] is None


def test_an_environment_is_named_by_its_id() -> None:
    env: Any = make_env("CartPole-v1")
    with pytest.raises(InputError, match=r"named by its id, got a .*: gym.register gives one of yours an id"):
        evaluate(Zero(), env)


@pytest.mark.parametrize("name", ["episodes", "num_envs", "max_steps"])
def test_a_count_below_one_is_one_line(name: str) -> None:
    counts: dict[str, Any] = {name: 0}
    with pytest.raises(InputError, match=f"^{name} must be at least 1, got 0$"):
        evaluate(Zero(), "CartPole-v1", **counts)


def test_the_smallest_distance_has_the_highest_score() -> None:
    returns, lengths = np.array([3.0, 5.0]), np.array([1, 1])
    assert Evaluation(returns, lengths).score == 4.0
    assert Evaluation(returns, lengths, distance=0.25).score == -0.25
