"""The search of `improve`: who goes on, who is tested, and what the test says."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from imitate.errors import InputError
from imitate.files import write_json
from imitate.improvement import learning, search
from imitate.improvement.episodes import Played
from imitate.improvement.journal import Journal, Snapshot
from imitate.improvement.plan import Plan, affordable
from imitate.improvement.study import Study
from imitate.improvement.task import Task
from imitate.improvement.verdict import gain, verdict_of


def played(*returns: float) -> Played:
    return Played([*range(len(returns))], list(returns), [10] * len(returns), 10 * len(returns))


def snapshot(name: str, *returns: float, share: float = 1.0, steps: int = 9) -> Snapshot:
    return Snapshot(name, share, steps, 0, 1.0, played(*returns))


def test_a_journal_that_names_a_snapshot_it_lacks_is_one_line() -> None:
    journal = Journal(Task("CartPole-v1", "CartPole-v1", 1_000), snapshots=[snapshot("a", 1.0)])
    assert journal.snapshot("a-9").learner == "a"
    with pytest.raises(InputError, match="names the snapshot 'b-9' and has none"):
        journal.snapshot("b-9")


def test_the_command_names_keywords_that_were_given_even_none() -> None:
    """`{}` keeps the environment from being made as the expert knows it, so a search without it is another."""
    command = Task("CartPole-v1", "CartPole-v1", 1_000, env_kwargs={}).command(Path("out"))
    assert command.endswith("--env-kwargs '{}'")
    assert "--env-kwargs" not in Task("CartPole-v1", "CartPole-v1", 1_000).command(Path("out"))


@pytest.mark.parametrize("returns", [(90, 215, 305), (110, 185, 295)])
def test_a_difference_that_chance_explains_is_as_good(returns: tuple[float, ...]) -> None:
    """Differences -10, 15 and 5, or the opposite: 3.3 on average, more than 1 % of 200, with a standard
    error of 7.3."""
    found = gain(played(*returns), played(100, 200, 300))
    assert found is not None
    assert abs(found.mean) == pytest.approx(10 / 3)
    assert (found.better, found.worse) == (False, False)
    assert verdict_of("qdagger-9", found, 100).kind == "as good"


def test_the_seeds_of_the_test_are_others_than_those_of_the_validation() -> None:
    task, asked = Task("CartPole-v1", "CartPole-v1", 1_000), {}
    journal = Journal(task, expert=played(1, 2, 3), snapshots=[snapshot("bc", 1, 2, 3)])
    study = Study(journal, None, Path())  # type: ignore[arg-type]
    study.keep = lambda: None  # type: ignore[method-assign]
    study.policy = lambda name: name  # type: ignore[method-assign]

    def play(policy: Any, seeds: Any, _room: float) -> Played:
        asked[policy] = list(seeds)
        return played()

    study._play = play  # type: ignore[method-assign]
    study.hand_over = lambda _: None  # type: ignore[method-assign]
    study.validate_finalists(["bc-9"], affordable(["a"], ["bc"], 100_000, 10.0))
    validation = asked.pop("bc-9")
    study.test(["bc-9", "expert"])
    assert asked["bc-9"] == asked[None]  # the expert's is None here
    assert validation
    assert not set(asked["bc-9"]) & set(validation)


def test_a_test_keeps_a_share_for_later_players() -> None:
    """940 of 1,000 steps are left; two thirds of them pay for 31 episodes of ten steps of two players, then all that
    is left for as many more."""
    journal = Journal(
        Task("CartPole-v1", "CartPole-v1", 1_000),
        expert=played(1, 2, 3),
        snapshots=[snapshot("bc", 1, 2, 3, steps=0)],
    )
    study = Study(journal, None, Path())  # type: ignore[arg-type]
    study.keep = lambda: None  # type: ignore[method-assign]
    study.policy = lambda name: name  # type: ignore[method-assign]
    study._play = lambda _, seeds, __: played(*[0.0] * len(seeds))  # type: ignore[method-assign]
    study.test(["bc-0", "expert"], keep=1 / 3)
    assert journal.left == 1_000 - 60 - 620
    assert journal.counts == [31]
    study.test(["bc-0", "expert"], 1)
    assert journal.counts == [31, 31 + 16]


def test_finalists_play_up_to_one_number_of_episodes() -> None:
    """Two choices of 60 steps pay for six episodes of both, each of ten steps, beyond the three that the second one has
    played."""
    snapshots = [snapshot("a", *range(6)), snapshot("b", 1, 2, 3)]
    journal, asked = (
        Journal(Task("CartPole-v1", "CartPole-v1", 9_000), played(1, 2, 3), snapshots=snapshots),
        {},
    )
    study = Study(journal, None, Path())  # type: ignore[arg-type]
    study.keep = lambda: None  # type: ignore[method-assign]
    study.policy = lambda name: name  # type: ignore[method-assign]
    study.hand_over = lambda _: None  # type: ignore[method-assign]

    def play(policy: Any, seeds: Any, _room: float) -> Played:
        asked[policy] = list(seeds)
        return played(*[0.0] * len(seeds))

    study._play = play  # type: ignore[method-assign]
    study.validate_finalists(["a-9", "b-9"], Plan(("a",), ("b",), 0, 0, choice=60, test=0))
    assert journal.final == 9
    assert (len(asked["a-9"]), len(asked["b-9"])) == (3, 6)
    assert asked["a-9"] == asked["b-9"][3:]


@pytest.mark.parametrize(("length", "validation", "others"), [(10, 40, 3 * 50 + 3 * 60), (100, 300, 6 * 300)])
def test_checks_that_are_to_come_have_their_reserve(length: int, validation: int, others: int) -> None:
    """Each has at least three episodes, as long as the longest so far. An imitator and a lone racer have four
    validations, of which one is done."""
    journal = Journal(Task("CartPole-v1", "CartPole-v1", 9_000))
    journal.expert = Played([1, 2, 3], [1.0] * 3, [length] * 3, 3 * length)
    study: Any = SimpleNamespace(journal=journal)
    plan = Plan(("a",), ("b",), 800, validation=40, choice=50, test=60)
    assert learning._reserve(study, plan) == 4 * validation + others
    journal.snapshots.append(snapshot("b", 1, 2, 3))
    assert learning._reserve(study, plan) == 3 * validation + others


@pytest.mark.parametrize(("student", "counts", "calls"), [
    ([13.0, 13.1, 12.9], [3], [(("guided-9", "expert"), 0, 1 / 3), (("guided-9", "expert"), 1, 0.15)]),
    ([10.0, 10.1, 9.9], [3], [(("guided-9", "expert"), 0, 1 / 3), (("dagger-9",), 0, 0.0)]),
    ([10.0, 10.1, 9.9], [3, 6], [(("guided-9", "expert"), 0, 1 / 3), (("guided-9", "expert"), 1, 0.15)]),
])  # fmt: skip
def test_a_third_is_kept_and_goes_to_who_needs_it(
    student: list[float], counts: list[int], calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that was interrupted goes on with the extension, even if the student has fallen behind in it."""
    monkeypatch.setattr(search, "_imitator", lambda *_: "dagger-9")
    tests = {
        "guided-9": played(*student),
        "expert": played(12.0, 12.1, 11.9),
        "dagger-9": played(9.0, 9.0, 9.0),
    }
    seen: list[Any] = []
    study: Any = SimpleNamespace(
        journal=SimpleNamespace(tests=tests, counts=counts), task=SimpleNamespace(budget=100),
        test=lambda players, stage=0, *, keep=0.0: seen.append((tuple(players), stage, keep)),
    )  # fmt: skip
    search._test(study, "guided-9")
    assert seen == calls


@pytest.mark.parametrize(("returns", "kind"), [((50, 151, 252), "worse"), ((150, 251, 352), "untested")])
def test_without_a_test_the_students_validation_decides(returns: tuple[float, ...], kind: str) -> None:
    expert = played(100, 200, 300)
    journal = SimpleNamespace(
        tests={"bc-9": Played(), "expert": Played()},
        counts=[3],
        expert=expert,
        snapshot=lambda _: snapshot("bc", *returns),
    )
    study: Any = SimpleNamespace(
        journal=journal, task=SimpleNamespace(budget=100), test=lambda *_, **__: None
    )
    assert search._test(study, "bc-9").kind == kind


def test_only_a_finalist_is_chosen() -> None:
    """d's few episodes were luckier than the finalists' many, of which b's went best."""
    journal = Journal(
        Task("CartPole-v1", "CartPole-v1", 1_000),
        snapshots=[snapshot("a", 100.0), snapshot("b", 99.0), snapshot("c", 98.0), snapshot("d", 97.0)],
    )

    def more(names: list[str], _plan: Any) -> list[str]:
        assert names == ["a-9", "b-9", "c-9"]
        for place, mean in enumerate((50.0, 60.0, 40.0)):
            journal.snapshots[place] = replace(journal.snapshots[place], validation=played(mean))
        return names

    study: Any = SimpleNamespace(journal=journal, validate_finalists=more)
    assert search._choose(study, None) == "b-9"  # type: ignore[arg-type]


def test_an_interrupted_choice_leaves_the_best_policy_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """a was ahead in three episodes and is behind in six, when the second one is interrupted."""
    for name in ("a-9", "b-9"):
        (tmp_path / "snapshots" / name).mkdir(parents=True)
        (tmp_path / "snapshots" / name / "name").write_text(name)
    first, second = snapshot("a", 90.0, 90.0, 90.0), snapshot("b", 80.0, 80.0, 80.0)
    journal = Journal(Task("CartPole-v1", "CartPole-v1", 1_000), played(1, 2, 3), snapshots=[first, second])
    study, answers = Study(journal, None, tmp_path), [Played([3], [10.0], [10], 10)]  # type: ignore[arg-type]
    monkeypatch.setattr(Study, "policy", lambda *_: None)

    def play(*_: Any) -> Played:
        if not answers:
            raise KeyboardInterrupt
        return answers.pop()

    monkeypatch.setattr(Study, "_play", play)
    with pytest.raises(KeyboardInterrupt):
        study.validate_finalists(["a-9", "b-9"], affordable(["a"], ["b"], 100_000, 10.0))
    assert journal.by_mean() == ["b-9", "a-9"]
    assert (tmp_path / "policy" / "name").read_text() == "b-9"


def test_the_better_half_of_three_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {"a": 10.0, "b": 50.0, "c": 90.0}
    plan, journal = (
        affordable(["a", "b", "c"], [], 1_000_000, 100.0),
        Journal(Task("CartPole-v1", "CartPole-v1", 1_000_000)),
    )
    assert [rung.racers for rung in plan.race] == [3, 2]
    trained: list[tuple[str, float]] = []

    def train(_study: Any, name: str, _plan: Any, shares: Any, _others: int = 0) -> None:
        trained.append((name, shares[-1]))
        score = scores[name]
        journal.snapshots.append(
            snapshot(name, score, score + 1, score + 2, share=shares[-1], steps=int(1_000 * shares[-1]))
        )

    monkeypatch.setattr(search, "train", train)
    search.race(SimpleNamespace(journal=journal, out=Path()), plan)  # type: ignore[arg-type]
    assert trained == [("a", 0.125), ("b", 0.125), ("c", 0.125), ("c", 0.25), ("b", 0.25), ("c", 1.0)]


@pytest.mark.parametrize("name", ["a", "clone"])
def test_a_racer_is_trained_as_the_winner_up_to_its_rung_and_an_imitator_to_its_end(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5 steps are kept for others, and 7 for what is still to be checked."""
    plan, given = affordable(["a", "b"], ["clone"], 100_000, 200.0), []
    monkeypatch.setattr(learning, "_reserve", lambda *_: 7)
    monkeypatch.setattr(learning, "_execute", lambda _, *given_: given.append(given_[:-1]) or False)
    journal = Journal(Task("CartPole-v1", "CartPole-v1", 100_000))
    study: Any = SimpleNamespace(journal=journal, out=tmp_path, validate=lambda *_: None)
    learning.train(study, name, plan, [0.25], others=5)
    wanted = {
        "a": ("a", plan.winner, 0.25 * plan.winner, 12),
        "clone": ("clone", plan.imitation, math.inf, 12),
    }
    assert given == [wanted[name]]


def test_seconds_before_an_interruption_are_paid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three seconds up to the snapshot, six more until Ctrl-C, and one after it."""
    write_json(tmp_path / "runs/a/timing.json", {"wall_seconds": 9.0, "cpu_seconds": 9.0})
    (tmp_path / "runs/a/metrics.jsonl").write_text('{"budget_steps": 60000}\n')
    monkeypatch.setattr(learning, "cpu_seconds", iter([50.0, 51.0]).__next__)
    monkeypatch.setattr(learning, "store", lambda *_: None)
    journal = Journal(Task("CartPole-v1", "CartPole-v1", 100_000))
    journal.snapshots.append(replace(snapshot("a", 1.0, share=0.25), cpu_seconds=3.0))
    study: Any = SimpleNamespace(journal=journal, out=tmp_path, keep=lambda: None)
    take = learning._passing(study, "a", affordable(["a"], ["clone"], 100_000, 200.0), [0.5])
    take(60_000, None)  # type: ignore[arg-type]
    assert [each.cpu_seconds for each in journal.snapshots] == [3.0, 10.0]


def test_the_race_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The imitator's quarter of the winner's steps first; a lone racer goes to its end at once."""
    plan, trained = affordable(["a"], ["clone"], 100_000, 200.0), []
    monkeypatch.setattr(
        search, "train", lambda _, name, __, shares, others=0: trained.append((name, *shares, others))
    )
    journal = Journal(Task("CartPole-v1", "CartPole-v1", 100_000))
    search.race(SimpleNamespace(journal=journal, out=Path()), plan)  # type: ignore[arg-type]
    assert trained == [("clone", pytest.approx(0.25, abs=1e-3), 0), ("a", 0.5, 0.75, 1.0, 0)]


@pytest.mark.parametrize(
    ("last", "found"), [('{"gate": 0.5}', 0.5), ('{"gate": ', None), ('{"gate": []}', None)]
)
def test_damaged_metrics_of_loki_say_nothing_of_its_critic(
    last: str, found: float | None, tmp_path: Path
) -> None:
    path = tmp_path / "runs" / "loki" / "metrics.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"gate": 0.25}\n' + last + "\n")
    study: Any = SimpleNamespace(out=tmp_path, expert=SimpleNamespace(oracle=None))
    assert search._fitted(study) == found
