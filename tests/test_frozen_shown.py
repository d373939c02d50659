"""The frozen measurement in RESULTS.md: titles, means, bold, scores and costs of a record made by hand."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


def references(random: float, teacher: float) -> dict[str, dict[str, list[float]]]:
    return {
        who: {"returns": [mean - 1, mean + 1], "curve": [mean]}
        for who, mean in (("random", random), ("teacher", teacher))
    }


def run(*returns: float, curve: list[tuple[int, float]] | None = None) -> dict[str, Any]:
    found = {"returns": list(returns), "demo_steps": 100, "expert_queries": 100, "cpu_seconds": 9.0}
    if curve is not None:
        found["curve"] = [
            {"steps": steps, "queries": steps, "cpu_seconds": steps / 10, "returns": [mean]}
            for steps, mean in curve
        ]
    return found


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    curve = [(0, 20.0), (400, 450.0), (800, 490.0)]
    rows = {
        "bc-cartpole-dqn": {"seeds": {"100": run(259, 261), "101": {"failed": "ValueError: no"}}},
        "dagger-cartpole-dqn": {"seeds": {str(n): run(598, 602, curve=curve) for n in (100, 101, 102)}},
        "ppo-cartpole-v1": {"seeds": {"100": run(139, 141, curve=curve[:2])}},
    }
    record = {
        "episodes": 2,
        "missing_runs": 5,
        "references": {"cartpole-dqn": references(20, 500)},
        "rows": rows,
    }
    return importlib.import_module("frozen_shown").Frozen(record)


def test_learners_with_a_run_are_shown_in_order(frozen: Any) -> None:
    assert list(frozen.learners) == ["bc", "dagger", "ppo"]
    assert frozen.done == 6


def test_a_failure_counts_as_random_actions_and_is_named(frozen: Any) -> None:
    assert frozen.returns("bc", "cartpole-dqn").tolist() == [[259, 261], [19, 21]]
    assert frozen.failures == ["bc-cartpole-dqn, seed 101: ValueError: no"]
    assert frozen.cell("bc", "cartpole-dqn") == "140 (2)"


def test_bold_is_above_the_teacher_with_three_seeds(frozen: Any) -> None:
    assert frozen.cell("dagger", "cartpole-dqn") == "**600 (3)**"
    assert frozen.cell("ppo", "cartpole-dqn") == "140 (1)"
    assert frozen.cell("loki", "cartpole-dqn") == ""


def test_scores_have_an_interval_with_three_seeds(frozen: Any) -> None:
    assert frozen.score("ppo") == pytest.approx(0.25)  # (140 - 20) / (500 - 20)
    low = frozen.score("dagger").low
    assert frozen.score("dagger").value == pytest.approx(580 / 480)
    assert low <= 580 / 480
    assert frozen.score("bc", to_best=True) == pytest.approx(0.25)  # the best known is 500 too


def test_costs_are_read_from_the_curve_or_from_the_end(frozen: Any) -> None:
    cost = frozen.cost("dagger")  # 95 % of the way is 476
    assert (cost.steps, cost.queries, cost.cpu_seconds, cost.reached, cost.runs) == (800, 800, 80, 3, 3)
    assert frozen.cost("ppo").reached == 0
    assert frozen.cost("bc", level=0.5).reached == 1  # of its two runs
    assert frozen.cost("bc", level=0.5).steps == float("inf")  # the median of 100 and of never


@pytest.mark.usefixtures("frozen")  # for its path
def test_runs_beside_two_teachers_of_one_environment_are_drawn_once() -> None:
    """Four runs with scores 0, 0.2, 0.8 and 1. A second, equal task has the same runs and tells nothing new: twice
    each, the middle half is the same too. Drawn apart, its interval would be narrower by sqrt(2)."""
    evidence = importlib.import_module("evidence")
    runs = {"ppo": np.array([[0.0, 0.0], [0.1, 0.3], [0.7, 0.9], [0.9, 1.1]])}
    once, other = (evidence.Task(env, np.ones(2), np.zeros(2), runs) for env in ("Ant-v5", "Hopper-v5"))
    assert evidence.aggregate([once, once], "ppo") == evidence.aggregate([once], "ppo")
    assert evidence.aggregate([once, other], "ppo").low > evidence.aggregate([once], "ppo").low


def test_a_run_beside_two_teachers_is_one_run(frozen: Any) -> None:
    """BipedalWalker has two teachers."""
    frozen.record["rows"]["ppo-bipedalwalker-v3"] = {"seeds": {"100": run(1, 2), "101": run(1, 2)}}
    for task in ("bipedalwalker-ppo", "bipedalwalker-tqc"):
        frozen.record["references"][task] = references(0, 300)
    assert frozen.distinct_runs("ppo") == 3
    assert frozen.cost("ppo").runs == 5
