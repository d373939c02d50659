"""The job of a worker process: record demonstrations, or train a learner and measure it."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from imitate.compare.backends import Report
from imitate.compare.execute.recording import affordable_episodes, is_recorded, record, recorded
from imitate.compare.execute.snapshots import Mark, Snapshots
from imitate.compare.execute.training import stored_policy, training
from imitate.compare.machine import provenance
from imitate.compare.plan.comparison import POINTS, Comparison, Job
from imitate.compare.plan.learners import find
from imitate.compare.statistics.job_results import MetricsRow, Point, Result
from imitate.datasets.evaluation import Evaluation, evaluate
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.trajectory import Policy
from imitate.envs.seeds import TEST_SEED, Stream, draw_seed
from imitate.errors import InputError
from imitate.files import read_json, versions, write_json
from imitate.training.checkpoint import Checkpoint
from imitate.training.process import cpu_seconds

__all__ = ["curve_returns", "is_done", "record", "run", "test", "train_and_measure"]

NUM_ENVS = 8  # for tests; the results do not depend on it
TRAINED_ANEW = (1, 2, 4, 8)
"""Sixteenths of the budget at which an offline learner is trained for its curve. With the run itself that makes at most
five trainings; one at every sixteenth would take minutes."""


def is_done(comparison: Comparison, job: Job) -> bool:
    if job.records:
        return is_recorded(job)
    result = Result.load(job.folder)
    return result is not None and len(result.returns) >= comparison.episodes


def run(root: Path, comparison: Comparison, job: Job, *, progress: Report) -> None:
    """Carry out a job, or the rest of it if it was interrupted. Its paths are relative to `root`."""
    job = job.moved(lambda path: root / path)
    (record if job.records else train_and_measure)(comparison, job, progress)


def train_and_measure(comparison: Comparison, job: Job, progress: Report) -> bool:
    """Train or resume, measure the policies on the way, and test the one that the run hands over, and its last one if
    that is another; returns False if Ctrl-C came first."""
    if (before := Result.load(job.folder)) is not None:  # only more test episodes have been asked for since
        _test_again(comparison, job.folder, before)
        return True
    chosen = training(comparison, job, affordable_episodes(comparison, job))
    checkpoint = Checkpoint.read(job.folder)
    paid = 0.0 if checkpoint is None else checkpoint.account.cpu_seconds
    snapshots = Snapshots(job.folder / "snapshots", job.steps, cpu_seconds, chosen.save, paid=paid)
    if not chosen.execute(job.folder, progress, snapshots):
        return False
    _make_portable(job.folder)
    totals = read_json(job.folder / "finished.json", dict[str, int])
    demo_steps, validation_steps = totals["demo_steps"], totals["validation_steps"]
    spent = demo_steps + totals["env_steps"] + validation_steps
    recording = 0.0 if job.demos is None else recorded(job).seconds_of(demo_steps)
    seconds = _cpu_seconds(job.folder)
    marks = snapshots.complete(job.folder / ("last_policy" if validation_steps else "policy"), spent, seconds)
    answers = {}
    if find(job.algorithm).offline:  # every step is an answer
        parts = _parts(comparison, job, marks[POINTS])
        if parts is None:
            return False
        marks = parts | {POINTS: marks[POINTS]}
    else:
        answers = _answers(job.folder, demo_steps)
    final = test(comparison, stored_policy(comparison, job.folder))
    Result(
        env_id=comparison.env_id,
        algorithm=job.algorithm,
        seed=job.seed,
        budget=job.steps,
        curve=_curve(comparison, job, marks, answers, recording),
        returns=final.returns.tolist(),
        lengths=final.lengths.tolist(),
        last_returns=_test_last(comparison, job.folder) if validation_steps else [],
        # Every recorded action counts as an expert's answer.
        expert_queries=totals["expert_queries"] + demo_steps,
        env_steps=totals["env_steps"],
        demo_steps=demo_steps,
        validation_steps=validation_steps,
        cpu_seconds=seconds + recording,
        hyperparameters=chosen.hyperparameters,
        stepped=chosen.stepped,
        notes=chosen.notes,
        versions=versions(),
        machine=provenance(),
        settings_from=chosen.settings_from,
    ).save(job.folder)
    shutil.rmtree(job.folder / "snapshots", ignore_errors=True)
    return True


def _test_again(comparison: Comparison, run: Path, before: Result) -> None:
    """Test a finished run on all episodes that are asked for by now."""
    final = test(comparison, stored_policy(comparison, run))
    last = _test_last(comparison, run) if before.last_returns else []
    returns, lengths = final.returns.tolist(), final.lengths.tolist()
    dataclasses.replace(before, returns=returns, lengths=lengths, last_returns=last).save(run)


def _cpu_seconds(run: Path) -> float:
    """Processor seconds of training a run."""
    return read_json(run / "timing.json", dict[str, float])["cpu_seconds"]


def _make_portable(folder: Path) -> None:
    """Name the demonstrations relative to the run's folder, since both move together to other machines."""
    path = folder / "config.json"
    config = read_json(path, dict[str, Any]) if path.is_file() else {}
    if config.get("demos"):
        write_json(path, config | {"demos": os.path.relpath(folder / config["demos"], folder)})


def test(comparison: Comparison, policy: Policy) -> Evaluation:
    """Evaluate a policy on the test episodes, which are the same for learners, the expert and random actions."""
    return _evaluated(comparison, policy, comparison.episodes, TEST_SEED)


def _evaluated(comparison: Comparison, policy: Policy, episodes: int, seed: int) -> Evaluation:
    return evaluate(
        policy,
        comparison.env_id,
        episodes=episodes,
        seed=seed,
        env_kwargs=comparison.env_kwargs,
        num_envs=NUM_ENVS,
    )


def _test_last(comparison: Comparison, run: Path) -> list[float]:
    """Returns of the last policy of a run that kept another, or the same, by validation."""
    returns: list[float] = test(comparison, stored_policy(comparison, run / "last_policy")).returns.tolist()
    return returns


def curve_returns(comparison: Comparison, policy: Policy) -> list[float]:
    """Returns on the episodes of the learning curves: a third set, the same for all policies and points."""
    found = _evaluated(comparison, policy, comparison.curve_episodes, draw_seed(Stream.CURVES))
    returns: list[float] = found.returns.tolist()
    return returns


def _parts(comparison: Comparison, job: Job, whole: Mark) -> dict[int, Mark] | None:
    """Marks of an offline learner, trained anew on what 1/16, 1/8, 1/4 and 1/2 of the budget pays for. The curve is
    flat between these points. A share of less than one episode teaches nothing. None if Ctrl-C came first.

    whole   the mark of the run itself, which learned from all demonstrations
    """
    assert job.demos is not None
    with DemoReader(job.demos) as demos:
        steps = np.cumsum(demos.lengths)
    note = recorded(job)
    marks = {0: Mark("00", 0, 0.0)}
    trained = 0  # episodes in the latest training
    for n in range(1, POINTS):
        count = int(np.searchsorted(steps, job.steps * n / POINTS, side="right"))
        marks[n] = marks[n - 1]
        if n in TRAINED_ANEW and count > trained:
            trained = count
            if count == len(steps):
                marks[n] = whole
                continue
            folder = job.folder / "snapshots" / f"{n:02}-run"
            if not training(comparison, job, count).execute(folder, lambda _steps: None):
                return None
            own = int(steps[count - 1])
            marks[n] = Mark(folder.name, own, _cpu_seconds(folder) + note.seconds_of(own))
    return marks


def _curve(
    comparison: Comparison, job: Job, marks: Mapping[int, Mark], answers: Mapping[int, int], recording: float
) -> list[Point]:
    """Measure the policy of each mark once.

    answers    of the expert up to each number of steps; empty if every step is one
    recording  processor seconds spent on the demonstrations
    """
    measured: dict[str, list[float]] = {}
    points = []
    for n in sorted(marks):
        mark = marks[n]
        if mark.policy not in measured:
            policy = stored_policy(comparison, job.folder / "snapshots" / mark.policy)
            measured[mark.policy] = curve_returns(comparison, policy)
        paid = 0.0 if n == 0 or "-run" in mark.policy else recording
        asked = mark.steps
        if answers and n:  # the mark may lie behind a validation, which asks nobody
            asked = answers[max(steps for steps in answers if steps <= mark.steps)]
        points.append(Point(mark.steps, asked, mark.cpu_seconds + paid, measured[mark.policy]))
    return points


def _answers(folder: Path, demo_steps: int) -> dict[int, int]:
    """The expert's answers up to each number of steps, including recorded ones."""
    if not (folder / "metrics.jsonl").is_file():
        raise InputError(f"{folder / 'metrics.jsonl'} is no file; run the comparison again without this run")
    rows = MetricsRow.every(folder / "metrics.jsonl")
    return {demo_steps: demo_steps} | {row.budget_steps: row.expert_queries + demo_steps for row in rows}
