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
from dataclasses import asdict, dataclass
from pathlib import Path

from imitate.envs.make import make_env
from imitate.errors import InputError
from imitate.experts import Expert, load_expert
from imitate.files import lock, read_json, sweep, versions, write_json
from imitate.improve.candidates import imitates, suited
from imitate.improve.journal import Journal
from imitate.improve.plan import Plan, affordable
from imitate.improve.ranking import ranked
from imitate.improve.study import Study
from imitate.improve.task import Task
from imitate.improve.verdict import Verdict, gain, verdict_of
from imitate.training.inputs import check_expert

__all__ = ["search"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ending:
    """The content of verdict.json. `costs` are environment steps by purpose."""

    verdict: Verdict
    task: Task
    costs: dict[str, int]
    versions: dict[str, str]


def search(task: Task, out: Path) -> Verdict:
    """Carry out the search in `out`, or the rest of it; see `imitate.improve.improve`."""
    journal = Journal.open(out, task)
    if (out / "verdict.json").exists():
        logger.info("%s is finished: this is its verdict", out)
        return read_json(out / "verdict.json", Ending).verdict
    expert = _expert(task)
    with lock(out, "a search"):
        sweep(out)
        study = Study(journal, expert, out)
        plan = _plan(study)
        verdict = _test(study, _race(study, plan))
        study.hand_over([verdict.policy])
        write_json(out / "verdict.json", asdict(Ending(verdict, task, journal.costs, versions())))
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
    critic = "with a critic" if expert.oracle is not None else "without a critic"
    logger.info("%s, %s: %.4g in %d episodes", expert.describe(), critic, played.mean, len(played.seeds))
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
    """Let the best policy and the expert play the test; if the expert wins, the best imitator plays it too."""
    order = _order(study, learners)
    if not order:
        reasons = [each.reason for each in study.journal.dropped] or ["the budget is too small"]
        raise InputError(f"no learner could be trained: {reasons[0]}")
    student = order[0]
    found = gain(study.test(student), study.test("expert"))
    if found is not None and found.worse:
        imitators_first = sorted(learners, key=lambda name: not imitates(name))
        others = [name for name in _order(study, imitators_first) if name != student][:1]
        for other in others:
            second = gain(study.test(other), study.test("expert"))
            if second is not None and (not second.worse or second.mean > found.mean):
                student, found = other, second
    return verdict_of(student, found, study.task.budget)
