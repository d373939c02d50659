"""Experiments and rows name each other; the prediction interval by hand."""

from __future__ import annotations

import math
import shlex
from dataclasses import fields

import pytest

from imitate.algorithms import find
from imitate.commands.described import RunArguments
from imitate.commands.train import TrainArguments
from imitate.compare.plan.learners import baseline
from imitate.reproduce.experiments import failing_forms, read_experiments
from imitate.reproduce.rows import Row, read_rows
from imitate.reproduce.summaries import Summary, prediction_interval, read_summaries


def test_every_experiment_is_answered_by_rows_that_exist() -> None:
    experiments = read_experiments()
    assert [each.number for each in experiments] == list(range(1, len(experiments) + 1))
    assert len(experiments) >= 28
    assert all(
        each.rows or each.failing or each.scripts or "Here" in each.why or each.open for each in experiments
    )
    named = {name for each in experiments for name in (*each.rows, *each.failing)}
    assert named <= set(read_rows())


def test_summaries_are_of_rows() -> None:
    assert set(read_summaries()) <= set(read_rows())
    assert read_summaries()["ppo-cartpole"].mean == 500.0


def test_the_mean_of_a_summary_is_no_median() -> None:
    assert Summary((1.0, 2.0, 6.0), None, None, 0.0, 1, 1.0).mean == 3.0


def test_every_row_of_an_experiment_says_what_it_costs() -> None:
    rows, known = read_rows(), read_summaries()
    named = {name for each in read_experiments() for name in (*each.rows, *each.failing)}
    assert [name for name in named if name not in known and rows[name].core_minutes is None] == []


def test_commands_by_kind() -> None:
    """A teacher is trained first; Stable-Baselines3 has its own command; an expert is only measured."""
    rows, measure = read_rows(), "imitate evaluate run --episodes 50 --json"
    first, then, last = rows["notebook-a-bipedalwalkerhardcore-weak-teacher"].commands(7)
    assert first.startswith(
        "imitate train ppo --env BipedalWalkerHardcore-v3 --budget 2000000 --seed 7 --out t"
    )
    assert "--expert teacher --seed 7 --out run" in then
    assert last == measure
    assert rows["sb3-dqn-mountaincar"].commands(7) == [
        "imitate expert train --algo dqn --env MountainCar-v0 --seed 7 --out run",
        measure,
    ]
    demonstrated = Row("BC", "bc", "CartPole-v1", expert="CartPole-v1:ppo", demos=2, recording="--every 20")
    assert demonstrated.commands(7, "cuda") == [
        "imitate collect CartPole-v1:ppo --episodes 2 --every 20 --seed 7 --out demos.h5",
        "imitate train bc --env CartPole-v1 --demos demos.h5 --seed 7 --out run --device cuda",
        measure,
    ]
    (only,) = rows["plate-damped-feedback"].commands(7)
    assert only.startswith(
        "imitate evaluate imitate.reproduce.feedback:light --env imitate/BalancingPlate-v0 "
    )
    assert rows["ppo-pendulum-sampled"].commands(7)[-1] == measure + " --stochastic"


def test_every_option_of_a_row_is_one_of_its_learner() -> None:
    for name, row in read_rows().items():
        if row.algorithm == "expert" or baseline(row.algorithm):
            continue
        owners = (TrainArguments, RunArguments, find(row.algorithm).config)
        known = {field.name for owner in owners for field in fields(owner)}
        known |= {f"no_{each}" for each in known}
        options = [word for word in shlex.split(f"{row.options} {row.teacher}") if word.startswith("--")]
        assert {each[2:].replace("-", "_") for each in options} <= known, name


def test_prediction_interval_by_hand() -> None:
    """t(0.975; 1) = 12.706, s = sqrt(2), six further seeds: 2 +- 12.706 * sqrt(2) * sqrt(1/2 + 1/6)."""
    among = prediction_interval([1.0, 3.0], 6)
    half = 12.7062 * math.sqrt(2) * math.sqrt(2 / 3)
    assert among == pytest.approx((2 - half, 2 + half), abs=1e-3)
    assert prediction_interval([1.0], 2) is None


def test_costs_in_words() -> None:
    def fits(minutes: float) -> str:
        return Summary((1.0,), None, None, 0.0, 1, minutes).fits

    assert [fits(10), fits(10.1), fits(61), fits(601)] == ["10 minutes", "an hour", "a night", "days"]


def test_a_failing_form_belongs_to_the_row_that_mends_it() -> None:
    assert failing_forms("gail-cartpole-30-pairs") == ["gail-cartpole-30-pairs-positive"]
    assert failing_forms("dagger-cartpole") == []
