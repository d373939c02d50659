"""The search, from the expert to the verdict.

1. The expert plays validation episodes.
2. The learners that suit it are chosen, as many as the budget allows.
3. Imitators are trained to their end. The others race: at each rung all play the same validation episodes as the
   expert, and half of them go on; the last one is trained to its end.
4. The best policies play more validation episodes, since the best of many is often a lucky one.
5. The best one and the expert play episodes that chose nothing. If it is not ahead, the best imitator plays too, or
   the next best policy if it is the imitator. If that is worse as well, nothing is handed over.
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import asdict
from pathlib import Path

from imitate.compare.statistics.job_results import MetricsRow
from imitate.datasets.trajectory import Policy
from imitate.envs.answers import closing_env
from imitate.envs.make import make_env
from imitate.envs.seeds import Stream
from imitate.errors import InputError, one_line
from imitate.experts import Expert, load_expert
from imitate.files import filling, read_json, versions, write_json
from imitate.improvement.candidates import imitates, suited
from imitate.improvement.films import films
from imitate.improvement.journal import Journal
from imitate.improvement.learning import train
from imitate.improvement.plan import FINAL_RUNGS, FINALISTS, PLAYERS, Plan, affordable
from imitate.improvement.ranking import ranked
from imitate.improvement.report import write_report
from imitate.improvement.study import Study
from imitate.improvement.task import Task
from imitate.improvement.teacher import teacher
from imitate.improvement.verdict import Result, Verdict, gain, verdict_of
from imitate.own_code import code_of_env
from imitate.rl.paired import LEAST_PAIRS
from imitate.training.inputs import check_expert

__all__ = ["race", "search"]

logger = logging.getLogger(__name__)

# Of the budget, to measure the expert: its share of the best known return decides which learners suit it.
_EXPERT = 0.05
_MARGIN = 0.15  # of the last steps: episodes may be longer than they were


def search(task: Task, out: Path) -> Verdict:
    """Carry out the search in `out`, or the rest of it; see `imitate.improve`."""
    Journal.open(out, task)  # before the expert, which takes seconds
    finished = (out / "verdict.json").exists()
    try:
        expert = _expert(task)
    except InputError as error:
        if not finished:
            raise
        logger.warning("the expert can't be compared with the one that was searched from: %s", error)
    else:
        _journal(out, task, expert)
    if finished:
        logger.info("%s is finished: this is its verdict", out)
        return read_json(out / "verdict.json", Result).verdict
    with filling(out, "a search"):
        study = Study(_journal(out, task, expert), expert, out)  # another search may have gone on
        plan = _plan(study)
        race(study, plan)
        verdict = _test(study, _choose(study, plan))
        if verdict.kind == "worse":
            shutil.rmtree(out / "policy", ignore_errors=True)  # it may be gone: a search goes on
        else:
            study.hand_over(verdict.policy)
        _report(study, verdict)
    return verdict


def _journal(out: Path, task: Task, expert: Expert) -> Journal:
    """The journal, which notes what the expert and the environment are made from. Raises InputError if it was begun
    with others."""
    journal = Journal.open(out, task)
    with closing_env(make_env(task.env_id, expert.env_kwargs)) as env:
        made_from = f"{expert.made_from} {code_of_env(env)}".strip()
    if journal.expert is None:
        journal.weights = made_from
    elif journal.weights not in ("", made_from):
        raise InputError(
            f"{task.expert} or code of your own has changed since the search in {out} began: choose another --out"
        )
    return journal


def _expert(task: Task) -> Expert:
    expert = load_expert(
        task.expert, env_id=task.env_id, env_kwargs=task.env_kwargs, vecnormalize=task.vecnormalize
    )
    check_expert(expert, task.expert, task.env_id, expert.env_kwargs)
    return expert


def _plan(study: Study) -> Plan:
    """Measure the expert, and divide the budget."""
    task, expert = study.task, study.expert
    with closing_env(make_env(task.env_id, expert.env_kwargs)) as env:
        spaces = env.observation_space, env.action_space
    length = study.measure_expert().first(LEAST_PAIRS).length  # the same when the search is resumed

    def plan(share: float | None, measured: int = 0) -> Plan:
        candidates = suited(*spaces, share)
        racers = [each.name for each in candidates if not each.imitates]
        imitators = [each.name for each in candidates if each.imitates]
        return affordable(racers, imitators, task.budget, length, measured)

    validation = plan(None).validation  # steps of the expert's that a plan already counts
    played = study.measure_expert(max(_EXPERT * task.budget, validation))
    described = teacher(expert, played, study.journal.trusted)
    logger.info("%s", described.describe())
    return plan(described.share, max(played.steps - validation, 0))


def race(study: Study, plan: Plan) -> None:
    """Train everybody."""
    for name in plan.imitators:
        train(study, name, plan, [plan.imitation / plan.winner])
    racers = list(plan.racers)
    for number, rung in enumerate(plan.race):
        racers = racers[: rung.racers]
        for place, name in enumerate(racers):
            train(study, name, plan, [rung.share], plan.kept_for_others(number, place))
        racers = _ranked_at(study, racers, rung.share)
    for name in racers[:1]:
        train(study, name, plan, FINAL_RUNGS)


def _ranked_at(study: Study, learners: list[str], share: float) -> list[str]:
    """The learners that were not dropped, by their validation at a rung. In a resumed search some have been further."""
    there = {name: found for name in learners if (found := study.journal.at(name, share)) is not None}
    return ranked(list(there), {name: found.validation.by_seed for name, found in there.items()})


def _choose(study: Study, plan: Plan) -> str:
    """The best policy of the race: those that seem best play more episodes, as the best of many is often a lucky one.

    Raises InputError if no learner could be trained.
    """
    names = study.journal.by_mean()
    if not names:
        dropped = study.journal.dropped
        reason = dropped[0].reason if dropped else "the budget is too small"
        raise InputError(f"no learner could be trained: {reason}")
    return study.journal.by_mean(study.validate_finalists(names[:FINALISTS], plan))[0]


def _test(study: Study, student: str) -> Verdict:
    """Let the student and the expert play the test.

    A third of the steps is kept. If the student is ahead, it pays for more episodes; a test that is extended only then
    finds no more false improvements than one that is always extended. Otherwise the best imitator plays the test too,
    and the better of the two is handed over.
    """
    journal, tests = study.journal, study.journal.tests
    study.test([student, "expert"], keep=1 / PLAYERS)
    found, extended = gain(tests[student], tests["expert"]), len(journal.counts) > 1
    if found is not None and (found.mean > 0 or extended):
        study.test([student, "expert"], 1, keep=_MARGIN)
        found = gain(tests[student], tests["expert"])
    elif found is not None and (imitator := _imitator(study, student)) is not None:
        study.test([imitator])
        second, ahead = (gain(tests[imitator], tests[other]) for other in ("expert", student))
        # Ahead in the episodes of both: one bad episode, which only one of them played, must not decide.
        if second is not None and ahead is not None and ahead.mean > 0:
            student, found = imitator, second
    validated = None
    if found is None and journal.expert is not None:
        validated = gain(journal.snapshot(student).validation, journal.expert)
    return verdict_of(student, found, study.task.budget, validated)


def _imitator(study: Study, student: str) -> str | None:
    """The best other policy of a learner that imitates, or else of any."""
    others = [name for name in study.journal.by_mean() if name != student]
    return next(
        (name for name in others if imitates(study.journal.snapshot(name).learner)), next(iter(others), None)
    )


def _fitted(study: Study) -> float | None:
    """Share of states in which the critic that LOKI fitted to an expert without one knows the expert's action.

    None if the expert has a critic, or LOKI has fitted none, or its metrics are damaged. It is the last openness that
    `measure_gate` found.
    """
    path = study.out / "runs" / "loki" / "metrics.jsonl"
    if study.expert.oracle is not None or not path.is_file():
        return None
    try:
        found = [row.gate for row in MetricsRow.every(path) if row.gate is not None]
    except (ValueError, RecursionError) as error:
        logger.warning("%s can't be read: %s", path, one_line(error))
        return None
    return found[-1] if found else None


def _report(study: Study, verdict: Verdict) -> None:
    """Write the report and then verdict.json, which says that the search is finished."""
    journal, expert, task = study.journal, study.expert, study.task
    assert journal.expert is not None
    tested = journal.tests["expert"]
    facts = teacher(expert, journal.expert + tested, journal.trusted, _fitted(study))
    seeds = {"validation": study.seed(Stream.VALIDATION), "test": study.seed(Stream.VERDICT)}
    result = Result(verdict, facts, task, seeds, journal.costs, versions())
    players: dict[str, Policy] = {"expert": expert, "student": study.policy(verdict.policy)}
    episodes: dict[str, int] = {}
    if tested.seeds:
        first, worst = tested.seeds[0], tested.worst_seed
        episodes = {} if first == worst else {"The first episode": first}
        episodes["The episode in which the expert did worst"] = worst
    shown = films(players, task.env_id, expert.env_kwargs, episodes, study.out / "films")
    write_report(journal, result, shown, study.out)
    write_json(study.out / "verdict.json", asdict(result))
