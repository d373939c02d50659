"""Aggregates and verdicts of suites on made-up returns, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reported import fill, five, outcome, result

from imitate.compare.plan.comparison import POINTS
from imitate.compare.report.suite_report import _cheapest
from imitate.compare.statistics.aggregate import THRESHOLDS, SuiteOutcome, together
from imitate.compare.statistics.finished_runs import read_outcome
from imitate.compare.statistics.intervals import drawn_scores
from imitate.compare.statistics.job_results import Point
from imitate.compare.statistics.outcome import Outcome
from imitate.compare.statistics.suite_verdict import suite_answer, suite_warnings

LUCKY = [*[[495.0, 505.0]] * 4, [18.0, 22.0]]
"""Four seeds are as good as the expert on each episode, and one as bad as random actions."""
HALF = [256.5, 263.5]
"""Half way from random actions to the expert on each episode."""


def suite(**parts: Outcome) -> SuiteOutcome:
    return together("mine", parts, {})


def test_each_environment_draws_seeds_and_episodes_of_its_own() -> None:
    """If all episodes are alike only the draw of the seeds shows, and if all seeds are, only that of the episodes."""
    seeds = np.repeat(np.arange(8.0)[:, None], 8, axis=1)
    for returns in (seeds, seeds.T):
        a, b = (drawn_scores(returns, np.zeros(8), np.ones(8), seed=seed, count=50) for seed in (0, 1))
        assert not np.allclose(a, b)


def test_an_environment_with_two_experts_has_the_same_episodes_twice(tmp_path: Path) -> None:
    found = outcome(tmp_path, {"bc": [[100.0, 500.0], [260.0, 260.0]]})
    (bc,) = suite(one=found, two=found).aggregates
    assert (bc.draws[..., 0] == bc.draws[..., 1]).all()
    assert bc.runs == 2  # not 4, as those of pure RL are the same
    other = replace(found, comparison=replace(found.comparison, env_kwargs={"max_episode_steps": 9}))
    (bc,) = suite(one=found, other=other).aggregates
    assert (bc.draws[..., 0] != bc.draws[..., 1]).any()
    assert bc.runs == 4


def test_intervals_of_shares_end_at_0_and_1(tmp_path: Path) -> None:
    """The unlucky seed is drawn three times in 97.5 % of the draws at most, and not at all in 2.5 %. So the share of
    the others is 0.8, from 0.4 to 1; stretched by 1.5838 the ends are 0.1665 and 1.117."""
    found = suite(one=outcome(tmp_path, {"bc": LUCKY, "ppo": [HALF] * 5}))
    share = pytest.approx((0.8, 0.8 - 1.5838 * 0.4, 1.0), abs=1e-4)
    bc, _ = found.aggregates
    assert bc.profile[np.searchsorted(THRESHOLDS, 0.75)] == share
    gap = bc.gap.subtracted_from(1.0)
    assert (gap.value, gap.low, gap.high) == share
    (lead,) = found.leads
    assert (lead.improvement.value, lead.improvement.low, lead.improvement.high) == share
    assert bc.mean.high == pytest.approx(0.8 + 1.5838 * 0.2, abs=1e-4)  # a score may be above 1


def test_a_lead_turned_round(tmp_path: Path) -> None:
    (lead,) = suite(one=outcome(tmp_path, {"bc": LUCKY, "ppo": [HALF] * 5})).leads
    turned = lead.turned()
    assert (turned.a, turned.b) == ("ppo", "bc")
    assert (turned.iqm.low, turned.iqm.high) == (-lead.iqm.high, -lead.iqm.low)
    assert turned.improvement.value == pytest.approx(0.2)
    assert turned.improvement.low == 0.0
    assert turned.turned() == lead


def test_a_lead_is_as_uncertain_as_the_learner_with_fewer_seeds(tmp_path: Path) -> None:
    """With the unlucky seed drawn three times, BC's middle three scores are 0, 0 and 1: 2/3 below its 1. For two seeds
    this is stretched by sqrt(2) * 12.706 / 1.96 = 9.168."""
    (lead,) = suite(one=outcome(tmp_path, {"bc": LUCKY, "ppo": [HALF] * 2})).leads
    assert lead.iqm.value == pytest.approx(0.5)
    assert lead.iqm.low == pytest.approx(0.5 - 9.168 * 2 / 3, abs=1e-2)


def test_only_scored_environments_and_complete_learners_count(tmp_path: Path) -> None:
    """Environments without an expert have no scores, so neither a failure nor a verdict there counts. DQN has one seed,
    in one environment, where it keeps BC from being better than all."""
    learners = {"bc": five(500, 500), "ppo": five(20, 68)}
    scored = outcome(tmp_path / "scored", learners | {"dqn": five(20, 68)[:1]})
    without = outcome(tmp_path / "without", learners, None)
    failed = replace(without, failures=["bc-seed5: it fell"])
    again = outcome(tmp_path / "again", learners)
    found = suite(scored=scored, without=without, failed=failed, again=again)
    assert (found.seeds, found.partly, found.failed("bc")) == (5, ["dqn"], 0)
    said = suite_answer(found)
    assert said.verdict == "yes"
    assert said.sentence.endswith("By environment it is 1 times yes, 0 times no.")


def test_environments_without_a_verdict_are_not_counted_as_no(tmp_path: Path) -> None:
    better, worse = five(480, 500), five(20, 40)
    found = suite(
        yes=outcome(tmp_path / "yes", {"bc": better, "ppo": worse}),
        no=outcome(tmp_path / "no", {"bc": worse, "ppo": better}),
        none=outcome(tmp_path / "none", {"bc": five(100, 480), "ppo": five(120, 470)}),
        neither=outcome(tmp_path / "neither", {"bc": five(100, 480), "ppo": five(120, 470)}),
    )
    assert suite_answer(found).sentence.endswith("By environment it is 1 times yes, 1 times no.")


def test_the_answer_names_a_test_that_decides_nothing(tmp_path: Path) -> None:
    """BC is certainly ahead of PPO, but not of A2C, whose seeds differ."""
    wide = [[each - 5, each + 5] for each in (20.0, 20.0, 500.0, 500.0, 260.0)]
    said = suite_answer(
        suite(one=outcome(tmp_path, {"bc": five(500, 500), "ppo": five(300, 300), "a2c": wide}))
    )
    assert said.sentence.startswith("Can't tell yet. Over 1 environment BC reaches 1 of the expert")
    assert "A2C 0.50;" in said.sentence


@pytest.mark.parametrize(("count", "said"), [(4, "a, b, c and d"), (5, "a, b, c and 2 more")])
def test_at_most_four_missing_runs_are_named(count: int, said: str, tmp_path: Path) -> None:
    found = replace(outcome(tmp_path, {"ppo": five(20, 68)}), missing=list("abcde")[:count])
    assert f"one: not run yet: {said}." in suite_warnings(suite(one=found))


def reaching(out: Path, **parts: int) -> Outcome:
    """Learners that are as good as the expert from these parts of their curves on; 0 is never."""
    fill(out, dict.fromkeys(parts, five(500, 500)[:1]), audit=False)
    for name, part in parts.items():
        points = [
            Point(100 * n, 0, 1.0, [500.0 if part and n >= part else 20.0] * 2) for n in range(POINTS + 1)
        ]
        result(name, 0, [495.0, 505.0], curve=points).save(next((out / "runs").glob(f"{name}-*")))
    return read_outcome(out)


def test_the_cheapest_learner_reaches_the_goal_in_most_environments(tmp_path: Path) -> None:
    """BC takes 400 and 1,600 steps: 800 as a geometric mean, 1,000 as another. GAIL takes 900 twice."""
    first = reaching(tmp_path / "first", bc=4, gail=9, ppo=1)
    other = reaching(tmp_path / "other", bc=16, gail=9, ppo=0)
    assert _cheapest(suite(first=first, other=other)) == {
        "title": "Steps to 95 % of the expert",
        "value": "400 to 1,600",
        "who": "BC, in 2 of 2 environments",
    }
    assert _cheapest(suite(first=first, again=first)) == {
        "title": "Steps to 95 % of the expert",
        "value": "100",
        "who": "PPO, in 2 of 2 environments",
    }
