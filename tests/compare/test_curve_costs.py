"""Costs of the points of a learning curve, also after validations and interruptions."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from imitate.compare.execute import worker
from imitate.compare.execute.recording import Recorded
from imitate.compare.execute.snapshots import Mark, Snapshots


def test_answers_before_a_validation_count_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The iteration of 2,000 steps was followed by a validation of 1,500."""
    monkeypatch.setattr(worker, "stored_policy", lambda *_: None)
    monkeypatch.setattr(worker, "curve_returns", lambda *_: [1.0])
    marks = {0: Mark("00", 0, 0.0), 1: Mark("01", 3_500, 1.0), 2: Mark("02", 4_500, 2.0)}
    answers = {500: 500, 1_000: 600, 2_000: 700, 4_500: 900}
    job: Any = SimpleNamespace(folder=Path())
    comparison: Any = None
    points = worker._curve(comparison, job, marks, answers, 0.0)
    assert [point.queries for point in points] == [0, 700, 900]
    offline = worker._curve(comparison, job, marks, {}, 0.0)
    assert [point.queries for point in offline] == [0, 3_500, 4_500]


def test_points_of_the_run_itself_pay_for_its_demonstrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recording took five seconds. A training for the curve has its own share of them already."""
    monkeypatch.setattr(worker, "stored_policy", lambda *_: None)
    monkeypatch.setattr(worker, "curve_returns", lambda *_: [1.0])
    marks = {0: Mark("00", 0, 0.0), 1: Mark("01-run", 100, 1.0), 2: Mark("../policy", 200, 2.0)}
    job: Any = SimpleNamespace(folder=Path())
    comparison: Any = None
    points = worker._curve(comparison, job, marks, {}, 5.0)
    assert [point.cpu_seconds for point in points] == [0.0, 1.0, 7.0]


def test_a_training_for_the_curve_pays_for_its_share_of_the_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three seconds of training on one of two episodes, whose recording took eight. One is an eighth of the budget, and
    two are the run itself."""
    monkeypatch.setattr(worker, "DemoReader", lambda _: nullcontext(SimpleNamespace(lengths=[100, 100])))
    monkeypatch.setattr(worker, "recorded", lambda _: Recorded(2, 200, 8.0))
    monkeypatch.setattr(worker, "training", lambda *_: SimpleNamespace(execute=lambda *_: True))
    monkeypatch.setattr(worker, "_cpu_seconds", lambda _: 3.0)
    job: Any = SimpleNamespace(demos=Path(), folder=Path(), steps=800)
    comparison: Any = None
    none, part, whole = Mark("00", 0, 0.0), Mark("02-run", 100, 7.0), Mark("../policy", 200, 9.0)
    found = worker._parts(comparison, job, whole)
    assert found == {0: none, 1: none, 2: part, 3: part, **dict.fromkeys(range(4, 16), whole)}


def test_recorded_actions_are_answers_too(tmp_path: Path) -> None:
    """200 were recorded; the learner asked for 10 more, then 30."""
    rows = [{"budget_steps": 300, "expert_queries": 10}, {"budget_steps": 400, "expert_queries": 30}]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert worker._answers(tmp_path, 200) == {200: 200, 300: 210, 400: 230}


def test_the_last_point_is_the_policy_that_the_run_hands_over(tmp_path: Path) -> None:
    """The run passed its whole budget of 1,600 steps before a validation of 50; its seventh point was not kept."""
    snapshots = Snapshots(tmp_path, 1_600, lambda: 0.0, lambda *_: None)
    for spent in (0, 1_600):
        snapshots(spent, None)
    del snapshots.marks[7]
    found, last = snapshots.complete(Path("run/policy"), 1_650, 9.0), Mark("../policy", 1_650, 9.0)
    assert (found[0], found[15]) == (Mark("00", 0, 0.0), Mark("01", 1_600, 0.0))
    assert found[7] == found[16] == last


@pytest.mark.parametrize(("resumed", "paid", "seconds"), [(0, 0.0, 160.0), (4, 40.0, 160.0)])
def test_seconds_of_a_killed_run_go_on_from_its_checkpoint(
    resumed: int, paid: float, seconds: float, tmp_path: Path
) -> None:
    """Ten seconds for each sixteenth. It is killed after eight, and goes on from its checkpoint."""
    now = [0.0]

    def parts(snapshots: Snapshots, first: int, last: int) -> None:
        for part in range(first, last + 1):
            now[0] += 10.0
            snapshots(part * 100, None)

    def made(**given: float) -> Snapshots:
        return Snapshots(tmp_path, 1_600, lambda: now[0], lambda *_: None, **given)

    killed = made()
    killed(0, None)
    parts(killed, 1, 8)
    now[0] = 1_000.0
    again = made(paid=paid)
    parts(again, resumed + 1, 16)
    assert [again.marks[n].cpu_seconds for n in (8, 9, 16)] == [80.0, 90.0, seconds]


def test_neither_preparation_nor_saving_costs_the_run_seconds(tmp_path: Path) -> None:
    """Otherwise a point of the curve costs more than the whole run, whose own account leaves both out."""
    now = [0.0]

    def save(*_: Any) -> None:
        now[0] += 5.0

    snapshots = Snapshots(tmp_path, 1_600, lambda: now[0], save)
    now[0] = 100.0
    for part in range(17):
        snapshots(part * 100, None)
        now[0] += 10.0
    assert [snapshots.marks[n].cpu_seconds for n in (0, 1, 2, 16)] == [0.0, 10.0, 20.0, 160.0]
    assert snapshots.seconds == 170.0
