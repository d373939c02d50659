"""Trains the learners of a search, up to a rung or to the end."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from imitate.compare.statistics.job_results import MetricsRow
from imitate.errors import InputError
from imitate.files import read_json
from imitate.improvement.candidates import experiment
from imitate.improvement.episodes import Played
from imitate.improvement.journal import Dropped, Snapshot
from imitate.improvement.plan import FINALISTS, PLAYERS, Plan
from imitate.improvement.snapshots import store
from imitate.improvement.study import Study
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import load_policy
from imitate.rl.paired import LEAST_PAIRS
from imitate.training.execute import as_begun, execute
from imitate.training.process import cpu_seconds

__all__ = ["train"]

logger = logging.getLogger(__name__)


def train(study: Study, learner: str, plan: Plan, shares: Sequence[float], others: int = 0) -> None:
    """Train a learner up to the last of these shares of the winner's steps; validate its policies at all of them.

    others   steps that are kept for other learners

    It is not stopped at the earlier ones: each stop cuts episodes, and if it came often, long ones would hardly ever
    finish.
    """
    if any(each.learner == learner for each in study.journal.dropped):
        return
    imitates, folder = learner in plan.imitators, study.out / "runs" / learner
    if study.journal.at(learner, shares[-1]) is None:
        steps = plan.imitation if imitates else plan.winner
        until = math.inf if imitates else shares[-1] * plan.winner
        passing = _passing(study, learner, plan, shares[:-1])
        trained = (folder / "finished.json").exists() or _execute(
            study, learner, steps, until, others + _reserve(study, plan), passing
        )
        if trained:
            _take(study, learner, shares[-1], _timed(folder), load_policy(folder))
    study.validate(learner, plan)


def _passing(
    study: Study, learner: str, plan: Plan, shares: Sequence[float]
) -> Callable[[int, ActorPolicy], None]:
    """A function that takes a snapshot when the learner passes one of these shares."""
    began = cpu_seconds() - _timed(study.out / "runs" / learner)

    def take(spent: int, policy: ActorPolicy) -> None:
        passed = [share for share in shares if spent >= share * plan.winner]
        if passed and study.journal.at(learner, passed[-1]) is None:
            _take(study, learner, passed[-1], cpu_seconds() - began, policy)

    return take


def _timed(run: Path) -> float:
    """Processor seconds of a run until it last stopped; 0 if it has not begun."""
    timing = run / "timing.json"
    return read_json(timing, dict[str, float])["cpu_seconds"] if timing.exists() else 0.0


def _take(study: Study, learner: str, share: float, seconds: float, policy: ActorPolicy) -> None:
    """Keep the policy of a learner as a snapshot, unless it took no step since the last one."""
    run = study.out / "runs" / learner
    row, before = MetricsRow.last(run / "metrics.jsonl") or MetricsRow(), study.journal.latest(learner)
    if before is not None and before.steps == row.budget_steps:
        study.journal.snapshots[study.journal.snapshots.index(before)] = replace(before, share=share)
    else:
        taken = Snapshot(learner, share, row.budget_steps, row.expert_queries, seconds, Played())
        store(study.out / "snapshots", taken, run, policy)
        study.journal.snapshots.append(taken)
    study.keep()


def _execute(
    study: Study,
    learner: str,
    steps: int,
    until: float,
    reserved: int,
    passing: Callable[[int, ActorPolicy], None],
) -> bool:
    """Train to `until`, keeping `reserved` steps of the budget; returns False if the learner is dropped."""
    folder, journal = study.out / "runs" / learner, study.journal
    limit = journal.spent_by(learner) + journal.left - reserved
    try:
        run = experiment(learner, study.task, study.expert.env_kwargs, steps)
        run = as_begun(replace(run, budget=max(min(limit, steps), 1)), folder)
        study.expert.seed(0)
        logger.info("%s learns, up to %d steps", learner, min(until, run.budget))
        experts, resume = [study.expert], folder.exists()
        if not execute(run, folder, experts=experts, resume=resume, snapshot=passing, until=until):
            raise KeyboardInterrupt
    except InputError as error:
        begun = (folder / "config.json").exists()
        unwritten = isinstance(error, OSError) or isinstance(error.__cause__, OSError)
        if (begun or unwritten) and not isinstance(error.__cause__, FloatingPointError):
            reason = str(error).rpartition("; ")[0] or str(error)
            raise InputError(f"{reason}; go on with `{study.task.command(study.out)}`") from error
        row = MetricsRow.last(folder / "metrics.jsonl") or MetricsRow()
        journal.dropped.append(Dropped(learner, str(error), row.budget_steps))
        logger.warning("%s is left out: %s", learner, error)
        study.keep()
        return False
    return True


def _reserve(study: Study, plan: Plan) -> int:
    """Steps for the validations and the test that are still to come, also if episodes have become longer."""
    few = LEAST_PAIRS * study.journal.longest
    validations = plan.validations - sum(bool(each.validation.seeds) for each in study.journal.snapshots)
    checks = FINALISTS * max(plan.choice, few) + PLAYERS * max(plan.test, few)
    return math.ceil(validations * max(plan.validation, few) + checks)
