"""The search, from the expert to the verdict.

1. The expert plays validation episodes.
2. The learners that suit it are chosen, as many as the budget allows.
3. Imitators are trained to their end. The others race: at each rung all play the same validation episodes as the
   expert, and half of them go on; the last one is trained to its end.
4. The best policy in validation and the expert play episodes that chose nothing. If the expert wins, the best other
   policy plays them too.
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from imitate.datasets.trajectory import Policy
from imitate.envs.make import make_env
from imitate.envs.seeds import Stream
from imitate.errors import InputError
from imitate.experts import Expert, load_expert
from imitate.files import lock, read_json, sweep, versions, write_json
from imitate.improve.candidates import imitates, suited
from imitate.improve.films import films
from imitate.improve.journal import Journal
from imitate.improve.plan import PLAYERS, Plan, affordable
from imitate.improve.ranking import ranked
from imitate.improve.report import write_report
from imitate.improve.result import Result
from imitate.improve.study import Study
from imitate.improve.task import Task
from imitate.improve.teacher import teacher
from imitate.improve.verdict import Verdict, gain, verdict_of
from imitate.nn.stored_policy import load_policy
from imitate.training.inputs import check_expert

__all__ = ["search"]

logger = logging.getLogger(__name__)

_MARGIN = 0.15  # of the last steps: episodes may be longer than they were


def search(task: Task, out: Path) -> Verdict:
    """Carry out the search in `out`, or the rest of it; see `imitate.improve.improve`."""
    journal = Journal.open(out, task)
    if (out / "verdict.json").exists():
        logger.info("%s is finished: this is its verdict", out)
        return read_json(out / "verdict.json", Result).verdict
    expert = _expert(task)
    study = Study(journal, expert, out)
    try:
        with lock(out, "a search"):
            sweep(out)
            verdict = _test(study, _race(study, _plan(study)))
            study.hand_over([verdict.policy])
            _report(study, verdict)
    finally:
        if out.is_dir() and not any(out.iterdir()):
            out.rmdir()
    return verdict


def _expert(task: Task) -> Expert:
    expert = load_expert(
        task.expert, env_id=task.env_id, env_kwargs=task.env_kwargs, vecnormalize=task.vecnormalize
    )
    check_expert(expert, task.expert, task.env_id, expert.env_kwargs)
    return expert


def _plan(study: Study) -> Plan:
    """Measure the expert, and divide the budget."""
    task, expert = study.task, study.expert
    with closing(make_env(task.env_id, expert.env_kwargs)) as env:
        candidates = suited(env.observation_space, env.action_space)
    first = study.measure_expert()
    plan = affordable(
        [each.name for each in candidates if not each.imitates],
        [each.name for each in candidates if each.imitates],
        task.budget,
        first.length,
    )
    played = study.measure_expert(plan.validation)
    logger.info("%s", teacher(expert, played).describe())
    return plan


def _race(study: Study, plan: Plan) -> list[str]:
    """Train everybody; returns the learners, the one that came farthest first."""
    for name in plan.imitators:
        study.train(name, plan, plan.imitation / plan.winner)
    racers, out_of_race = list(plan.racers), list(plan.imitators)
    for number, rung in enumerate(plan.rungs):
        out_of_race = racers[rung.racers :] + out_of_race
        racers = racers[: rung.racers]
        for place, name in enumerate(racers):
            study.train(name, plan, rung.share, plan.kept_for_others(number, place))
            study.hand_over(_order(study, [*racers, *out_of_race]))
        racers = _ranked_by_latest(study, racers)
    return racers + out_of_race


def _ranked_by_latest(study: Study, learners: list[str]) -> list[str]:
    """The learners that were not dropped, by their latest validation."""
    latest = {name: found for name in learners if (found := study.journal.latest(name)) is not None}
    return ranked(list(latest), {name: found.validation.by_seed for name, found in latest.items()})


def _order(study: Study, learners: list[str]) -> list[str]:
    """The names of all snapshots, best first. Where validation can't tell, the order of the learners decides, and then
    the later of two snapshots."""
    played = [each for each in study.journal.snapshots if each.validation.seeds and each.learner in learners]
    played.sort(key=lambda each: (learners.index(each.learner), -each.steps))
    return ranked([each.name for each in played], {each.name: each.validation.by_seed for each in played})


def _test(study: Study, learners: list[str]) -> Verdict:
    """Let the best policy and the expert play the test; if the expert wins, the best imitator plays it too.

    If the student is ahead, what was kept for the imitator pays for more episodes. A test that is extended only then
    finds no more false improvements than one that is always extended.
    """
    order = _order(study, learners)
    if not order:
        reasons = [each.reason for each in study.journal.dropped] or ["the budget is too small"]
        raise InputError(f"no learner could be trained: {reasons[0]}")
    student, tests = order[0], study.journal.tests
    study.test([student, "expert"], keep=1 / PLAYERS)
    found = gain(tests[student], tests["expert"])
    extended = len(study.journal.counts) > 1
    if found is not None and found.worse and not extended:
        imitators_first = sorted(learners, key=lambda name: not imitates(name))
        others = [name for name in _order(study, imitators_first) if name != student][:1]
        study.test(others)
        for other in others:
            second = gain(tests[other], tests["expert"])
            if second is not None and (not second.worse or second.mean > found.mean):
                student, found = other, second
    elif found is not None and (found.mean > 0 or extended):
        study.test([student, "expert"], 1, keep=_MARGIN)
        found = gain(tests[student], tests["expert"])
    return verdict_of(student, found, study.task.budget)


def _report(study: Study, verdict: Verdict) -> None:
    """Write the report and then verdict.json, which says that the search is finished."""
    journal, expert, task = study.journal, study.expert, study.task
    assert journal.expert is not None
    tested = journal.tests["expert"]
    facts = teacher(expert, journal.expert + tested)
    seeds = {
        name: study.seed(stream)
        for name, stream in (("validation", Stream.VALIDATION), ("test", Stream.VERDICT))
    }
    result = Result(verdict, facts, task, seeds, journal.costs, versions())
    players: dict[str, Policy] = {"expert": expert, "student": load_policy(study.out / "policy")}
    episodes = {}
    if tested.seeds:
        worst = tested.seeds[min(range(len(tested.seeds)), key=lambda n: tested.returns[n])]
        episodes = {"The episode in which the expert did worst": worst}
        if worst != tested.seeds[0]:
            episodes = {"The first episode": tested.seeds[0]} | episodes
    shown = films(players, task.env_id, expert.env_kwargs, episodes, study.out / "films")
    write_report(journal, result, shown, study.out)
    write_json(study.out / "verdict.json", asdict(result))
