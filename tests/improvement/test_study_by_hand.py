"""Episodes, steps and seeds of a search, by hand."""

from __future__ import annotations

import errno
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from imitate.envs.seeds import Stream, draw_seed
from imitate.errors import InputError, Unwritable
from imitate.files import read_json
from imitate.improvement import learning, report, search, snapshots, study
from imitate.improvement.episodes import Played
from imitate.improvement.journal import Dropped, Journal, Snapshot
from imitate.improvement.plan import Plan
from imitate.improvement.study import Study
from imitate.improvement.task import Task
from imitate.improvement.verdict import Result, verdict_of
from imitate.training.experiment import Experiment

RUN = Experiment.preset("bc", "CartPole-v1")


def played(*returns: float, length: int = 10) -> Played:
    return Played([*range(len(returns))], list(returns), [length] * len(returns), length * len(returns))


def snapshot(name: str, *returns: float, steps: int = 9) -> Snapshot:
    return Snapshot(name, 1.0, steps, 0, 1.0, played(*returns))


def task(budget: int = 9_000, seed: int = 0) -> Task:
    return Task("CartPole-v1", "CartPole-v1", budget, seed)


def still(journal: Journal, expert: Any = None, out: Path = Path()) -> Study:
    """A study that writes nothing."""
    found = Study(journal, expert, out)
    found.keep = lambda: None  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize(("room", "more"), [(59.0, None), (60.0, 30.0), (100.0, 70.0)])
def test_the_expert_plays_more_episodes_if_as_many_steps_are_left_again(
    room: float, more: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first three took 30 steps."""
    asked: list[Any] = []
    monkeypatch.setattr(
        Study, "_play", lambda _, __, seeds, room: asked.append((len(seeds), room)) or played(1.0)
    )
    still(Journal(task(), played(1, 2, 3))).measure_expert(room)
    assert asked == ([] if more is None else [(17, more)])


def test_the_first_episodes_judge_the_experts_critic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "Watched", lambda _: SimpleNamespace(trusted=lambda _: 0.75))
    monkeypatch.setattr(Study, "_play", lambda *_: played(1, 2, 3))
    found = still(Journal(task()))
    assert found.measure_expert() == found.journal.expert == played(1, 2, 3)
    assert found.journal.trusted == 0.75


def test_finalists_have_fifty_episodes_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Study, "_validate", lambda *_: played())
    journal = Journal(task(), played(1, 2, 3), snapshots=[snapshot("bc", 1, 2, 3)])
    still(journal).validate_finalists(["bc-9"], Plan(("a",), ("bc",), 0, 0, choice=600, test=0))
    assert journal.final == 50


def test_a_test_has_three_episodes_at_least_and_a_hundred_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes of ten steps: 20 pay for one of two players, 20,000 for a thousand."""
    monkeypatch.setattr(Study, "policy", lambda *_: None)
    monkeypatch.setattr(Study, "_play", lambda _, __, seeds, ___: played(*[0.0] * len(seeds)))
    for left, count in ((20, 3), (20_000, 100)):
        journal = Journal(task(left + 60), played(1, 2, 3), snapshots=[snapshot("bc", 1, 2, 3, steps=0)])
        still(journal).test(["bc-0", "expert"])
        assert journal.counts == [count]


def test_episodes_are_those_of_the_searchs_seed_and_the_experts_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """9,000 steps, of which the expert has taken 30."""
    given: list[Any] = []
    monkeypatch.setattr(
        study, "play", lambda *words, **limits: given.append((*words[1:], limits)) or played()
    )
    expert: Any = SimpleNamespace(env_kwargs={"g": 9.0})
    first, second = (still(Journal(task(seed=seed), played(1, 2, 3)), expert) for seed in (0, 1))
    assert first.seed(Stream.VERDICT) != second.seed(Stream.VERDICT)
    first._play(expert, [4, 5], 70.0)
    assert given == [("CartPole-v1", {"g": 9.0}, [4, 5], {"room": 70.0, "limit": 8_970})]


def test_a_finalist_may_use_all_that_is_left_and_a_validation_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rooms: list[float] = []
    monkeypatch.setattr(Study, "policy", lambda *_: None)
    monkeypatch.setattr(Study, "hand_over", lambda *_: None)
    monkeypatch.setattr(Study, "_play", lambda _, __, ___, room: rooms.append(room) or played(1, 2, 3))
    journal = Journal(task(), played(1, 2, 3), snapshots=[snapshot("bc", steps=70)])
    plan = Plan(("a",), ("bc",), 0, validation=40, choice=60, test=0)
    still(journal).validate("bc", plan)
    still(journal).validate_finalists(["bc-70"], plan)
    assert rooms == [40, 9_000 - 30 - 70 - 30]


@pytest.mark.parametrize(("steps", "reserved", "budget"), [
    (8_000, 2_500, 3_500), (2_000, 2_500, 2_000), (8_000, 9_999, 1),
])  # fmt: skip
def test_a_learner_gets_what_is_left_beyond_the_reserve(
    steps: int, reserved: int, budget: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """5,000 steps are left, and the learner has spent 1,000 of its own: 6,000 in all. Its expert begins anew."""
    given: list[Any] = []
    monkeypatch.setattr(learning, "experiment", lambda *_: RUN)
    monkeypatch.setattr(
        learning, "execute", lambda run, _, **more: given.append((run.budget, more["until"])) or True
    )
    journal = Journal(task(), played(1, 2, 3, length=1_000), snapshots=[snapshot("a", steps=1_000)])
    expert: Any = SimpleNamespace(env_kwargs={}, seed=lambda seed: given.append(seed))
    assert learning._execute(still(journal, expert, tmp_path), "a", steps, 700.0, reserved, lambda *_: None)
    assert given == [0, (budget, 700.0)]


def test_the_steps_of_a_learner_that_diverged_are_spent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def diverging(*_: Any, **__: Any) -> bool:
        folder = tmp_path / "runs" / "a"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "metrics.jsonl").write_text('{"budget_steps": 700}\n')
        raise InputError("learning diverged") from FloatingPointError()

    monkeypatch.setattr(learning, "experiment", lambda *_: RUN)
    monkeypatch.setattr(learning, "execute", diverging)
    journal = Journal(task(), played(1, 2, 3))
    expert: Any = SimpleNamespace(env_kwargs={}, seed=lambda _: None)
    assert not learning._execute(still(journal, expert, tmp_path), "a", 5_000, math.inf, 0, lambda *_: None)
    assert journal.dropped == [Dropped("a", "learning diverged", 700)]
    assert (journal.left, journal.spent_by("a")) == (9_000 - 30 - 700, 700)


def full(path: Path) -> NoReturn:
    raise Unwritable(errno.ENOSPC, "No space left on device", str(path))


def cut_off(path: Path) -> NoReturn:
    raise InputError(f"{path} can't be written: Input/output error") from OSError(errno.EIO)


@pytest.mark.parametrize("failing", [full, cut_off])
def test_a_learner_that_the_disk_stopped_before_it_began_is_not_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failing: Callable[[Path], NoReturn]
) -> None:
    monkeypatch.setattr(learning, "experiment", lambda *_: RUN)
    monkeypatch.setattr(learning, "execute", lambda _, out, **__: failing(out / "aggregated.h5"))
    journal, expert = Journal(task(), played(1, 2, 3)), SimpleNamespace(env_kwargs={}, seed=lambda _: None)
    found = still(journal, expert, tmp_path)
    with pytest.raises(InputError, match=r"aggregated.h5 can't be written: .*; go on with `imitate improve "):
        learning._execute(found, "a", 5_000, math.inf, 0, lambda *_: None)
    assert not journal.dropped


def test_a_snapshot_is_of_the_last_share_that_was_passed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of 1,000 steps a half and three quarters; each is kept once, with the expert's answers so far."""
    monkeypatch.setattr(learning, "store", lambda *_: None)
    (tmp_path / "runs" / "a").mkdir(parents=True)
    found = still(Journal(task()), None, tmp_path)
    take = learning._passing(found, "a", Plan(("a",), (), 1_000, 0, 0, 0), [0.5, 0.75])
    for steps in (499, 500, 600, 800):
        row = f'{{"budget_steps": {steps}, "expert_queries": {steps // 2}}}\n'
        (tmp_path / "runs" / "a" / "metrics.jsonl").write_text(row)
        take(steps, None)  # type: ignore[arg-type]
    taken = [(each.share, each.steps, each.answers) for each in found.journal.snapshots]
    assert taken == [(0.5, 500, 250), (0.75, 800, 400)]


def test_a_policy_that_took_no_step_since_its_last_snapshot_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "runs" / "a").mkdir(parents=True)
    (tmp_path / "runs" / "a" / "metrics.jsonl").write_text('{"budget_steps": 900}\n')
    found = still(Journal(task(), snapshots=[snapshot("a", 1, 2, 3, steps=900)]), None, tmp_path)
    learning._take(found, "a", 1.0, 5.0, None)  # type: ignore[arg-type]
    assert [(each.share, each.validation.returns) for each in found.journal.snapshots] == [(1.0, [1, 2, 3])]


@pytest.mark.parametrize(("names", "found"), [
    (["guided", "loki", "dagger"], "dagger-9"), (["guided", "loki"], "loki-9"), (["guided"], None),
])  # fmt: skip
def test_an_imitator_stands_in_for_the_student_or_else_the_next_best(
    names: list[str], found: str | None
) -> None:
    journal = Journal(task(), snapshots=[snapshot(name, 30.0 - n) for n, name in enumerate(names)])
    assert search._imitator(still(journal), "guided-9") == found


def test_the_expert_is_measured_on_a_twentieth_of_the_budget_or_as_long_as_a_validation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Episodes have the length of the first three, 10; the plan counts 40 of the 90 steps that it plays."""
    caplog.set_level(logging.INFO)
    given: list[Any] = []

    def affordable(*words: Any) -> Plan:
        given.append(words[2:])
        return Plan((), (), 0, validation=40, choice=0, test=0)

    def measured(room: float = 0.0) -> Played:
        given.append(room)
        return played(1, 2, 3) + played(*[1.0] * 3, length=20)

    shares: list[Any] = []
    monkeypatch.setattr(search, "affordable", affordable)
    monkeypatch.setattr(search, "suited", lambda *words: shares.append(words[-1]) or [])
    monkeypatch.setattr(search, "teacher", lambda *_: SimpleNamespace(share=0.7, describe=lambda: ""))
    for budget, room in ((600, 40), (1_000, 50)):
        given.clear()
        expert, journal = SimpleNamespace(env_kwargs={}), SimpleNamespace(trusted=None)
        search._plan(
            SimpleNamespace(task=task(budget), expert=expert, measure_expert=measured, journal=journal)
        )  # type: ignore[arg-type]
        assert given == [0.0, (budget, 10.0, 0), room, (budget, 10.0, 50)]
    assert shares == [None, 0.7] * 2


def test_the_longest_episodes_are_those_of_one_player() -> None:
    """The student's last longer in the test than in its validation: 10 and 30 steps, 20 on average."""
    journal = Journal(task(), played(1, 2, 3, length=15), snapshots=[snapshot("a", 1, 2, 3)])
    assert (journal.length("expert"), journal.length("a-9"), journal.longest) == (15, 10, 15)
    journal.tests["a-9"] = played(1, 2, 3, length=30)
    assert (journal.length("a-9"), journal.longest) == (20, 20)


def test_an_extended_test_counts_all_its_episodes() -> None:
    tests = {"dagger-9": played(5, 6, 8), "expert": played(1, 2, 3)}

    def more(_players: Any, stage: int = 0, *, keep: float = 0.0) -> None:
        if stage:
            assert keep == 0.15
            tests.update({"dagger-9": played(5, 6, 8, 5, 6, 8), "expert": played(*[1, 2, 3] * 2)})

    journal = SimpleNamespace(tests=tests, counts=[3])
    verdict = search._test(SimpleNamespace(journal=journal, task=task(), test=more), "dagger-9")  # type: ignore[arg-type]
    assert verdict.gain is not None
    assert verdict.gain.pairs == 6


def test_the_report_is_of_all_the_experts_episodes_and_films_two_of_the_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its worst one in the test is the second, that in validation the first."""
    filmed: list[Any] = []
    reported: list[Result] = []
    monkeypatch.setattr(search, "films", lambda *words: filmed.append(words[3]))
    monkeypatch.setattr(search, "write_report", lambda _, result, *__: reported.append(result))
    monkeypatch.setattr(search, "teacher", lambda _, played, *__: played.returns)
    monkeypatch.setattr(search, "_fitted", lambda _: None)
    monkeypatch.setattr(Study, "policy", lambda *_: None)
    journal = Journal(task(seed=5), played(1, 2, 3))
    journal.tests["expert"] = Played([7, 8, 9], [3.0, 1.0, 2.0], [10] * 3, 30)
    found = still(journal, SimpleNamespace(env_kwargs={}), tmp_path)
    search._report(found, verdict_of("dagger-9", None, 9_000))
    assert filmed == [{"The first episode": 7, "The episode in which the expert did worst": 8}]
    assert reported[0].teacher == [1, 2, 3, 3, 1, 2]
    assert reported[0].seeds == {
        "validation": draw_seed(Stream.VALIDATION, 5), "test": draw_seed(Stream.VERDICT, 5)
    }  # fmt: skip


def test_a_critic_of_the_expert_needs_none_that_is_fitted(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "loki" / "metrics.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"gate": 0.25}\n')
    for oracle, fitted in ((None, 0.25), (object(), None)):
        assert search._fitted(still(Journal(task()), SimpleNamespace(oracle=oracle), tmp_path)) == fitted


@pytest.mark.parametrize("learner", ["gone", "new"])
def test_a_learner_that_was_left_out_stays_out(
    learner: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trained: list[str] = []
    monkeypatch.setattr(learning, "_execute", lambda _, name, *__: trained.append(name) or False)
    monkeypatch.setattr(Study, "validate", lambda *_: None)
    journal = Journal(task(), played(1, 2, 3), dropped=[Dropped("gone", "learning diverged", 700)])
    learning.train(still(journal, None, tmp_path), learner, Plan(("new", "gone"), (), 900, 0, 0, 0), [1.0])
    assert trained == (["new"] if learner == "new" else [])


def test_of_equal_snapshots_the_later_one_is_better() -> None:
    journal = Journal(task(), snapshots=[snapshot("a", 1, 2, 3), snapshot("b", 3, 2, 1), snapshot("c", 1)])
    assert journal.by_mean() == ["b-9", "a-9", "c-9"]


def test_steps_of_a_test_that_was_cut_are_spent() -> None:
    journal = Journal(task(), tests={"a-9": Played([1], [1.0], [10], 25)})
    assert (journal.costs["test"], journal.left) == (25, 9_000 - 25)


def test_a_stored_snapshot_says_what_its_expert_answered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(snapshots, "save_policy", lambda *_: None)
    (tmp_path / "config.json").write_text("{}")
    taken = replace(snapshot("a", 1.0), answers=70)
    snapshots.store(tmp_path / "snapshots", taken, tmp_path, None)  # type: ignore[arg-type]
    finished = read_json(tmp_path / "snapshots" / "a-9" / "finished.json", dict[str, int])
    assert (finished["env_steps"], finished["expert_queries"]) == (9, 70)


def test_a_row_of_the_report_has_the_best_validation_and_the_last() -> None:
    of_a = [snapshot("dagger", mean, steps=steps) for mean, steps in ((4.0, 5), (7.0, 6), (5.0, 7))]
    row = report._row(Journal(task(), snapshots=[*of_a, snapshot("loki", 9.0)]), "dagger")
    assert (row["best"], row["last"], row["steps"]) == ("7", "5", "7")
