"""Verdicts of comparisons and suites on returns that were made up."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from reported import fill, five, outcome, result
from test_suite import fill as fill_suite

from imitate.compare.plan.comparison import POINTS
from imitate.compare.statistics.aggregate import read_suite
from imitate.compare.statistics.finished_runs import read_outcome
from imitate.compare.statistics.intervals import Difference, difference, interval, stretched
from imitate.compare.statistics.job_results import Point, Result
from imitate.compare.statistics.pairs import Pair, _corrected
from imitate.compare.statistics.suite_verdict import suite_answer
from imitate.compare.statistics.verdict import answer, typical_cost
from imitate.files import write_json


def quick(out: Path, algorithm: str = "dagger") -> Path:
    """The learner's curve is at its final return from the first 100 steps on."""
    for path in (out / "runs").glob(f"{algorithm}-*"):
        found = Result.load(path)
        assert found is not None
        points = [Point(100 * n, 50 * n, 2.0 * n, [found.mean if n else 20.0] * 2) for n in range(POINTS + 1)]
        result(algorithm, found.seed, found.returns, curve=points).save(path)
    return out


def test_the_interval_by_hand() -> None:
    """Seeds' means 2 and 10: variance 32 / 2 = 16 with one degree of freedom. Episodes' 3 and 9: 18 / 2 = 9 with one.
    Residuals of +-1: 4 / (1 * 1) / (2 * 2) = 1, which is in both, so the variance is 16 + 9 - 1 = 24. Degrees
    24^2 / (16^2 + 9^2) = 1.7092: t is 5.0863."""
    low, high = interval([[0.0, 4.0], [6.0, 14.0]])
    assert (low, high) == pytest.approx((6 - 5.0863 * math.sqrt(24), 6 + 5.0863 * math.sqrt(24)), abs=0.01)


def test_noise_alone_leaves_the_degrees_of_the_seeds() -> None:
    """Seeds' means -1 and 1: variance 2 / 2 = 1 with one degree of freedom. The episodes' means are both 0. Residuals
    of +-2: 16 / 4 = 4, more than there is, so the variance is that of the seeds: Student's 12.706."""
    assert interval([[1.0, -3.0], [-1.0, 3.0]]) == pytest.approx((-12.706, 12.706), abs=1e-3)


def test_degrees_are_never_fewer_than_those_of_one_part() -> None:
    # Seeds' means 1, 0 and 0: variance 1/3 / 3 = 1/9 with two degrees of freedom; the episodes' the same. Residuals of
    # 4/3, four of 2/3 and four of 1/3: 4 / 4 / 9 = 1/9, which is in both, so the variance is 1/9. The degrees
    # (1/9)^2 / (2 * (1/9)^2 / 2) = 1 are fewer than 2: t is 4.303.
    low, high = interval([[3.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert (low, high) == pytest.approx(((1 - 4.303) / 3, (1 + 4.303) / 3), abs=1e-3)


def test_seeds_that_are_all_alike_do_not_count_among_the_parts() -> None:
    # As above, against two seeds that always get 0: their part is 0, and its one degree of freedom means nothing.
    found = difference([[3.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [[0.0] * 3] * 2)
    assert (found.low, found.high) == pytest.approx(((1 - 4.303) / 3, (1 + 4.303) / 3), abs=1e-3)


def test_the_noise_of_both_learners_is_subtracted() -> None:
    """The seeds' parts are 16 and 16 with one degree of freedom each, the episodes cancel, and the noise is 1 and 1:
    30, with 30^2 / (16^2 + 16^2) = 1.7578 degrees. t is 4.9238."""
    found = difference([[0.0, 4.0], [6.0, 14.0]], [[0.0, 4.0], [6.0, 14.0]])
    assert (found.low, found.high) == pytest.approx(
        (-4.9238 * math.sqrt(30), 4.9238 * math.sqrt(30)), abs=0.01
    )


def test_an_interval_holds_its_own_value() -> None:
    """97.5 % of draws 2 and 3 is 2.975, stretched by 1.5838; none is below 1."""
    low, high = stretched(1.0, [2.0, 3.0], 5)
    assert (low, high) == pytest.approx((1.0, 1 + 1.5838 * 1.975), abs=1e-3)


WIDE = [[each - 5, each + 5] for each in (20.0, 20.0, 500.0, 500.0, 260.0)]


@pytest.mark.parametrize(
    ("returns", "verdict"),
    [
        ({"bc": five(500, 500), "ppo": five(300, 300), "a2c": WIDE}, "unclear"),
        ({"bc": five(500, 500), "ppo": five(300, 300), "a2c": five(20, 20)}, "yes"),
        ({"ppo": five(500, 500), "bc": five(300, 300), "dagger": WIDE}, "unclear"),
        ({"ppo": five(500, 500), "bc": five(300, 300), "dagger": five(20, 20)}, "no"),
    ],
)
def test_a_suites_winner_is_ahead_of_all_of_the_other_kind(
    returns: dict[str, list[list[float]]], verdict: str, tmp_path: Path
) -> None:
    found = read_suite(fill_suite(tmp_path, {"CartPole-v1": returns}))
    assert [each.algorithm for each in found.aggregates][:2] == list(returns)[:2]
    assert suite_answer(found).verdict == verdict


def test_there_is_no_verdict_on_a_suites_runs_that_survived(tmp_path: Path) -> None:
    learners = {"bc": five(500, 500)[:4], "ppo": five(300, 300)}
    suite = fill_suite(tmp_path, dict.fromkeys(("CartPole-v1", "Acrobot-v1"), learners))
    assert suite_answer(read_suite(suite)).verdict == "yes"
    errors = suite / "Acrobot-v1" / "errors"
    write_json(errors / "bc-seed4.json", {"error": "bc-seed4: learning diverged", "traceback": ""})
    said = suite_answer(read_suite(suite))
    assert (said.verdict, "1 run of BC failed" in said.sentence) == ("unclear", True)


def test_there_is_no_verdict_on_a_suite_while_a_learner_lacks_a_result(tmp_path: Path) -> None:
    """DQN ended in one environment and in the other not. Where no environment has discrete actions it wasn't asked."""
    learners = {"bc": five(500, 500), "ppo": five(300, 300)}
    parts = {"CartPole-v1": learners | {"dqn": five(20, 20)}, "Acrobot-v1": learners | {"dqn": []}}
    said = suite_answer(read_suite(fill_suite(tmp_path / "lacking", parts)))
    assert (said.verdict, said.sentence) == ("unclear", "Can't tell: DQN has no result in some environments.")
    parts["Acrobot-v1"] = learners
    assert suite_answer(read_suite(fill_suite(tmp_path / "unasked", parts))).verdict == "yes"


def test_a_suites_verdict_is_corrected_for_its_tests(tmp_path: Path) -> None:
    rivals = dict.fromkeys(("ppo", "a2c", "dqn", "reinforce"), five(170, 430))
    found = read_suite(fill_suite(tmp_path, {"CartPole-v1": {"bc": five(480, 480)} | rivals}))
    for lead in found.leads:
        if lead.asked:
            assert lead.alone < 0.05 < lead.p
    assert suite_answer(found).verdict == "unclear"


@pytest.mark.parametrize(
    ("final", "verdict", "test"),
    [
        (five(400, 600), "unclear", None),  # level on average, but it may be 98 behind: the margin is 24
        # at most 23.8 behind, and 24.5
        (five(475.7, 524.3), "yes", "area under the curve"),
        (five(475.04, 524.96), "unclear", None),
        (five(490, 490), "no", "final return"),  # certainly behind, though by less than the margin
        (five(500, 500), "yes", "area under the curve"),
    ],
)
def test_the_faster_one_must_certainly_be_level(
    final: list[list[float]], verdict: str, test: str | None, tmp_path: Path
) -> None:
    said = answer(read_outcome(quick(fill(tmp_path / "out", {"dagger": final, "ppo": five(499, 501)}))))
    assert (said.verdict, said.test) == (verdict, test)


def test_one_is_not_better_if_it_is_level_with_one_of_the_others(tmp_path: Path) -> None:
    returns = {"dagger": five(500, 500), "ppo": five(20, 20), "a2c": five(500, 500)}
    assert answer(outcome(tmp_path, returns)).verdict == "unclear"


def test_the_hardest_test_that_was_passed_is_named(tmp_path: Path) -> None:
    said = answer(outcome(tmp_path, {"dagger": five(500, 500), "ppo": five(20, 20), "a2c": five(100, 180)}))
    assert (said.verdict, said.b) == ("yes", "a2c")


@pytest.mark.parametrize("few", ["dagger", "ppo"])
def test_one_seed_of_either_learner_allows_no_test(few: str, tmp_path: Path) -> None:
    returns = {"dagger": five(500, 500), "ppo": five(100, 180)}
    found = outcome(tmp_path, returns | {few: returns[few][:1]})
    (pair,) = [each for each in found.pairs if each.asked]
    assert pair.area is not None
    assert all(map(math.isnan, (pair.p, pair.low, pair.high, pair.area.p)))
    assert answer(found).verdict == "unclear"


def test_a_learner_meets_the_expert_on_the_test_episodes(tmp_path: Path) -> None:
    """Both get 495 and 505 there; on the episodes of the curves the expert gets 500 twice."""
    found = {(pair.a, pair.b): pair for pair in outcome(tmp_path, {"dagger": five(500, 500)}).pairs}
    pair = found["dagger", "expert"]
    assert (pair.mean, pair.low, pair.high) == (0.0, 0.0, 0.0)


def test_the_typical_cost_is_the_median_seeds() -> None:
    assert typical_cost([400.0, 100.0, None, 300.0, 200.0]) == 300.0
    assert typical_cost([200.0, 100.0]) == 200.0
    assert typical_cost([100.0, None]) is None


def test_each_of_the_two_families_is_corrected() -> None:
    # Of three tests: 3 * 0.01, 2 * 0.02, and 0.03, which is not below the one before. Of one: 0.04.
    given = ((0.01, False), (0.02, False), (0.03, False), (0.04, True))
    found = _corrected([Pair("a", "b", 1.0, 0.5, 1.5, p, 1.0, p, asked) for p, asked in given])
    assert [pair.p for pair in found] == pytest.approx([0.03, 0.04, 0.04, 0.04])
    assert [pair.alone for pair in found] == [0.01, 0.02, 0.03, 0.04]


def test_a_pair_turned_round() -> None:
    pair = Pair("a", "b", 3.0, 1.0, 5.0, 0.01, 0.75, 0.005, True, Difference(0.25, 0.125, 0.5, 0.03))
    area = Difference(-0.25, -0.5, -0.125, 0.03)
    assert pair.turned() == Pair("b", "a", -3.0, -5.0, -1.0, 0.01, 0.25, 0.005, True, area)
    assert pair.turned().turned() == pair


def test_the_curve_of_an_offline_learner_is_flat_between_its_trainings(tmp_path: Path) -> None:
    """n / 16 after the n-th of 16 parts: as steps (0 + 1 + ... + 15) / 16 / 16, as a ramp a half."""
    bc, dagger = outcome(tmp_path, {"bc": five(500, 500), "dagger": five(500, 500)}).learners
    found = read_outcome(tmp_path / "out")
    assert found.area(bc) == pytest.approx([120 / 256] * 5)
    assert found.area(dagger) == pytest.approx([0.5] * 5)


def test_who_fell_back_reached_nothing(tmp_path: Path) -> None:
    out = fill(tmp_path / "out", {"dagger": five(260, 260), "ppo": five(20, 20)})
    for path in (out / "runs").glob("dagger-*"):
        found = Result.load(path)
        assert found is not None
        points = [Point(100 * n, 0, 2.0 * n, [500.0 if n == 3 else 20.0] * 2) for n in range(POINTS + 1)]
        result("dagger", found.seed, found.returns, curve=points).save(path)
    dagger = read_outcome(out).learners[0]
    assert read_outcome(out).to_reach(dagger, 0.95) == [300.0] * 5
    assert "at the least cost" not in answer(read_outcome(out)).sentence


def test_who_fell_back_by_less_than_the_margin_reached_it(tmp_path: Path) -> None:
    """460 is 92 % of the way from 20 to 500: 3 % below the goal."""
    out = fill(tmp_path / "out", {"dagger": five(460, 460), "ppo": five(20, 20)})
    for path in (out / "runs").glob("dagger-*"):
        found = Result.load(path)
        assert found is not None
        points = [Point(100 * n, 50 * n, 2.0 * n, [500.0 if n >= 3 else 20.0] * 2) for n in range(POINTS + 1)]
        result("dagger", found.seed, found.returns, curve=points).save(path)
    said = answer(read_outcome(out)).sentence
    assert "DAgger reached 95 % of the expert at the least cost: 150 expert answers and 300 steps." in said


def test_references_are_of_the_learners_first_episodes(tmp_path: Path) -> None:
    out = fill(tmp_path / "out", {"bc": five(390, 410)})
    text = json.loads((out / "references.json").read_text("utf-8"))
    text["random"]["returns"], text["random"]["lengths"] = [18.0, 22.0, 110.0], [10] * 3
    text["expert"]["measured"]["returns"], text["expert"]["measured"]["lengths"] = (
        [495.0, 505.0, 9.0],
        [10] * 3,
    )
    (out / "references.json").write_text(json.dumps(text))
    found = read_outcome(out)
    assert (found.random_mean, found.expert_mean) == (20.0, 500.0)


def test_who_is_always_ahead_may_not_be_so_with_other_seeds(tmp_path: Path) -> None:
    """All draws are 1. Wilson's interval of five runs, all ahead, begins at 5 / (5 + 1.96^2)."""
    found = read_suite(fill_suite(tmp_path, {"CartPole-v1": {"bc": five(480, 500), "ppo": five(20, 68)}}))
    (lead,) = found.leads
    found = (lead.improvement.value, lead.improvement.low, lead.improvement.high)
    assert found == pytest.approx((1.0, 5 / 8.8415, 1.0), abs=1e-4)


def test_a_lead_is_drawn_with_the_same_seeds_and_episodes_for_both(tmp_path: Path) -> None:
    """The seeds of both differ by 300, and each of one by 24 from the same of the other: 24 / 480 in every draw but for
    the scale, which is 477 to 483."""
    found = read_suite(fill_suite(tmp_path, {"CartPole-v1": {"bc": five(124, 424), "ppo": five(100, 400)}}))
    (lead,) = found.leads
    assert 0.049 < lead.iqm.low <= lead.iqm.value <= lead.iqm.high < 0.051
    assert lead.certain


def test_a_suite_ranks_by_the_iqm_and_stretches_each_values_own_draws(tmp_path: Path) -> None:
    # DAgger's scores are four times 0.4, and 2. 97.5 % of the draws have the 2 three times or less: a mean of
    # (2 * 0.4 + 3 * 2) / 5 = 1.36 and, with 1 for the 2, a gap of 1 - 3.8 / 5 = 0.24; stretched by 1.5838.
    dagger = [*five(212, 212)[:4], [975.0, 985.0]]
    found = read_suite(fill_suite(tmp_path, {"CartPole-v1": {"dagger": dagger, "bc": five(260, 260)}}))
    assert [each.algorithm for each in found.aggregates] == ["bc", "dagger"]
    _, lucky = found.aggregates
    assert (lucky.iqm.value, lucky.mean.value, lucky.gap.value) == pytest.approx((0.4, 0.72, 0.48))
    assert lucky.mean.high == pytest.approx(0.72 + 1.5838 * (1.36 - 0.72), abs=1e-3)
    assert lucky.gap.low == pytest.approx(0.48 - 1.5838 * (0.48 - 0.24), abs=1e-3)
