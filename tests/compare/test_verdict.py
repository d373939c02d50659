"""The report's answer, and what it warns of."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from reported import fill, five, outcome, result

from imitate.compare.formatting import duration, listed, number, percent
from imitate.compare.plan.comparison import POINTS
from imitate.compare.report import page_data
from imitate.compare.report.report import write_report
from imitate.compare.statistics.finished_runs import read_outcome
from imitate.compare.statistics.intervals import difference, holm
from imitate.compare.statistics.job_results import Point, Result
from imitate.compare.statistics.verdict import answer, warnings
from imitate.files import read_json, write_json


def test_pairs_are_paired_and_corrected(tmp_path: Path) -> None:
    table = {(pair.a, pair.b): pair for pair in outcome(tmp_path).pairs}
    assert list(table) == [
        ("bc", "dagger"), ("bc", "ppo"), ("bc", "expert"),
        ("dagger", "ppo"), ("dagger", "expert"), ("ppo", "expert"),
    ]  # fmt: skip
    best = table["dagger", "ppo"]
    assert (best.mean, best.improvement) == (360.0, 1.0)
    # PPO's means are 20 apart: standard error sqrt(1000 / 5) = 14.14, t(0.975, 4) = 2.776; the episodes cancel.
    assert best.high - best.mean == pytest.approx(39.26, abs=0.01)
    assert best.certain
    same = table["dagger", "expert"]
    assert (same.mean, same.p, same.certain) == (0.0, 1.0, False)


def test_the_answer_is_yes_where_imitation_is_certainly_better(tmp_path: Path) -> None:
    said = answer(outcome(tmp_path))
    assert said.verdict == "yes"
    assert said.sentence == (
        "Worth it: yes. DAgger ended at 100 %, PPO at 25 % after 1,600 steps. The final return decides: a difference "
        "of 360 (95 % interval 320.7 to 399.3, p < 0.001). DAgger reached 95 % of the expert at the least cost: 800 "
        "expert answers and 1,600 steps."
    )
    assert (said.test, said.a, said.b) == ("final return", "dagger", "ppo")


@pytest.mark.parametrize(
    ("returns", "verdict", "said"),
    [
        ({"bc": five(100, 180), "ppo": five(500, 500)}, "no", "Worth it: no. PPO ended at 100 %, BC at 25 %"),
        ({"bc": five(100, 480), "ppo": five(120, 470)}, "unclear", "; 5 seeds do not tell them apart: "),
        ({"bc": five(500, 500)[:1], "ppo": five(20, 20)[:1]}, "unclear", "; one seed allows no test."),
        ({"bc": five(390, 410)}, "unclear", "no learner by pure RL (add ppo) took part. BC ended at 79 %"),
        ({"ppo": five(390, 410)}, "unclear", "no learner by imitation took part."),
    ],
)
def test_the_answer_claims_no_more_than_the_numbers(
    tmp_path: Path, returns: dict[str, list[list[float]]], verdict: str, said: str
) -> None:
    found = answer(outcome(tmp_path, returns))
    assert found.verdict == verdict
    assert said in found.sentence


@pytest.mark.usefixtures("undrawn")
def test_there_is_no_verdict_on_the_runs_that_survived(tmp_path: Path) -> None:
    fill(tmp_path, {"dagger": five(495, 505)[:2], "ppo": five(295, 305)})
    for seed in (2, 3, 4):
        error = {"error": f"dagger-seed{seed}: learning diverged", "traceback": ""}
        write_json(tmp_path / "errors" / f"dagger-seed{seed}.json", error)
    said = answer(read_outcome(tmp_path))
    assert said.verdict == "unclear"
    assert "Can't tell: 3 runs of DAgger failed, and the others, which are ahead, may be" in said.sentence
    (tmp_path / "errors" / "dagger-seed2.json").unlink()
    fill(tmp_path, {"dagger": five(495, 505), "ppo": five(295, 305)[:4]})
    write_json(tmp_path / "errors" / "ppo-seed4.json", {"error": "ppo-seed4: it fell", "traceback": ""})
    assert answer(read_outcome(tmp_path)).verdict == "yes"  # a failure of the others makes them no better


@pytest.mark.parametrize("failed", [True, False])
def test_there_is_no_verdict_while_a_learner_has_no_result(failed: bool, tmp_path: Path) -> None:
    """DQN may be better than BC: all its runs failed, or none has ended."""
    out = fill(tmp_path, {"bc": five(480, 490), "ppo": five(100, 180), "dqn": []})
    for seed in range(5 if failed else 0):
        error = {"error": f"dqn-seed{seed}: learning diverged", "traceback": ""}
        write_json(out / "errors" / f"dqn-seed{seed}.json", error)
    found = read_outcome(out)
    said = answer(found)
    assert said.verdict == "unclear"
    assert said.sentence.startswith("Can't tell: DQN has no result. BC ended at 97 % after 1,600 steps.")


def test_a_learner_that_failed_did_take_part(tmp_path: Path) -> None:
    """The answer doesn't advise to add PPO, which was compared and has no result."""
    said = answer(outcome(tmp_path, {"bc": five(480, 490), "ppo": [], "a2c": []})).sentence
    assert said.startswith("Can't tell: PPO and A2C have no result. BC ended at")


def test_level_in_the_end_the_faster_one_is_better(tmp_path: Path) -> None:
    out = fill(tmp_path / "out", {"dagger": five(500, 500), "ppo": five(499, 501)})
    assert answer(read_outcome(out)).verdict == "unclear"  # both climb alike
    for path in (out / "runs").glob("dagger-*"):
        quick = Result.load(path)
        assert quick is not None
        points = [Point(100 * n, 50 * n, 2.0 * n, [500.0 if n else 20.0] * 2) for n in range(POINTS + 1)]
        result("dagger", quick.seed, quick.returns, curve=points).save(path)
    said = answer(read_outcome(out))
    assert said.verdict == "yes"
    # DAgger's curve is a step at 100 (area 1 - 1/32), PPO's a ramp (1/2): 15/32 apart.
    assert "The area under the curve decides: a difference of 47 % (95 % interval 47 % to" in said.sentence
    assert said.sentence.endswith("at the least cost: 50 expert answers and 100 steps.")
    (pair,) = [each for each in read_outcome(out).pairs if each.asked]
    assert said.test == "area under the curve"
    assert said.result == pair.area
    assert pair.p == 1.0  # the final return, which does not decide
    assert (
        json.loads(write_report(out).with_name("summary.json").read_text("utf-8"))["test"]["name"]
        == said.test
    )


def test_the_cost_is_that_of_the_cheapest_and_not_of_the_best(tmp_path: Path) -> None:
    out = fill(tmp_path / "out", {"dagger": five(500, 500), "bc": five(480, 480), "ppo": five(20, 60)})
    for path in (out / "runs").glob("bc-*"):
        quick = Result.load(path)
        assert quick is not None
        points = [Point(100 * n, 100 * n, 2.0 * n, [480.0 if n > 2 else 20.0] * 2) for n in range(POINTS + 1)]
        result("bc", quick.seed, quick.returns, curve=points).save(path)
    said = answer(read_outcome(out))
    assert "DAgger ended at 100 %, PPO at" in said.sentence
    assert "BC reached 95 % of the expert at the least cost: 300 expert answers" in said.sentence


def test_the_verdicts_family_is_imitators_against_rl(tmp_path: Path) -> None:
    """Final return and area of one pair are two tests; how many other learners are compared does not matter."""
    few = {"dagger": five(200, 400), "ppo": five(100, 240)}
    found = outcome(tmp_path / "few", few)
    (alone,) = [each for each in found.pairs if each.asked]
    more = few | {name: five(300, 320) for name in ("bc", "gail", "sqil")}
    table = {(each.a, each.b): each for each in outcome(tmp_path / "more", more).pairs}
    assert alone.area is not None
    raw = [alone.alone, difference(*(found.areas(entry) for entry in found.learners)).p]
    assert [alone.p, alone.area.p] == pytest.approx(holm(raw))
    assert alone.p > alone.alone
    asked = [names for names, each in table.items() if each.asked]
    assert asked == [("dagger", "ppo"), ("ppo", "bc"), ("ppo", "gail"), ("ppo", "sqil")]
    assert table["ppo", "bc"].p <= 8 * table["ppo", "bc"].alone  # four pairs, two tests each: not 15 pairs
    assert table["bc", "gail"].area is None


def test_interval_and_p_agree(tmp_path: Path) -> None:
    """p uncorrected is below 0.05 if the interval leaves 0 out."""
    for top in range(200, 600, 50):
        for pair in outcome(tmp_path / str(top), {"dagger": five(180, top), "ppo": five(100, 240)}).pairs:
            assert (pair.alone < 0.05) == (pair.low > 0 or pair.high < 0)
            assert pair.p >= pair.alone


def test_warnings_name_what_is_missing(tmp_path: Path) -> None:
    returns = {"bc": five(390, 410)[:2], "ppo": five(100, 180)[:1]}
    said = warnings(
        outcome(tmp_path, returns, changes={"notes": ["preset made for another budget: 9 steps"]})
    )
    assert said[0] == "One seed says little about others: run 5 or more (add them with --seeds 5)."
    assert "PPO: preset made for another budget: 9 steps." in said
    assert said[-1] == "Not run yet: ppo-seed1."


@pytest.mark.parametrize(("steps", "warned"), [(1_400, True), (1_450, False)])
def test_less_than_nine_tenths_of_the_budget_is_said(steps: int, warned: bool, tmp_path: Path) -> None:
    said = warnings(outcome(tmp_path, {"ppo": five(100, 180)}, changes={"env_steps": steps}))
    assert said == (["PPO spent 1,400 of 1,600 steps."] if warned else [])


@pytest.mark.parametrize(
    ("published", "said"),
    [(-150.0, []), (-100.0, ["The expert is weak here: −160, where −100 was published."])],
)
def test_an_expert_is_weak_a_fifth_below_a_negative_return(
    published: float, said: list[str], tmp_path: Path
) -> None:
    out = fill(tmp_path / "out", {"ppo": five(-500, -400)}, expert=-160.0)
    text = read_json(out / "references.json", dict[str, Any])
    text["random"]["returns"] = [-1_000.0, -1_000.0]
    text["expert"]["published_return"] = published
    write_json(out / "references.json", text)
    assert warnings(read_outcome(out)) == said


@pytest.mark.usefixtures("undrawn")
def test_controls_are_an_audit_and_nothing_else(tmp_path: Path) -> None:
    returns = {"gail": five(490, 500), "ppo": five(100, 180), "gail:plus-one": [[900.0, 900.0]]}
    out = fill(tmp_path / "out", returns)
    found = read_outcome(out)
    assert [entry.algorithm for entry in found.learners] == ["gail", "ppo"]
    assert {pair.a for pair in found.pairs} | {pair.b for pair in found.pairs} == {"gail", "ppo", "expert"}
    page = write_report(out).read_text("utf-8")
    assert "<h1>GAIL and PPO on CartPole-v1</h1>" in page
    audit = page[page.index('id="audit"') : page.index('id="reading"')]
    assert "constant reward +1" in audit
    assert ">187 %</td>" in audit  # (900 - 20) / (490 - 20): seed 0 of GAIL is at 490
    assert json.loads((out / "summary.json").read_text("utf-8"))["audit"] == {"gail:plus-one": 900.0}
    shutil.rmtree(next(out.glob("runs/gail-seed0*")))
    assert [each["share"] for each in page_data.audit(read_outcome(out))] == ["–"]  # no run of that seed


def test_numbers_are_for_people() -> None:
    values = [0.0, -0.0, 3.14159, 42.0, -163.44, 12_345.6, -1.23456e20]
    assert [number(value) for value in values] == ["0", "0", "3.14", "42", "−163.4", "12,346", "−1.235e+20"]
    assert [duration(seconds) for seconds in (5.4, 600, 7_200)] == ["5 s", "10 min", "2.0 h"]
    assert [percent(share) for share in (0.996, -0.82, -0.001)] == ["100 %", "−82 %", "0 %"]
    assert listed(["a", "b", "c"]) == "a, b and c"
