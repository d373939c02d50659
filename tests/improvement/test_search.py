"""A whole search on Identity: the teacher names one of three observations, and so gets a third of the rewards."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import teachers  # registers Uneven-v0

import imitate
from imitate.cli import main
from imitate.envs.trust import trust
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.files import read_json
from imitate.improvement import search
from imitate.improvement.episodes import Played
from imitate.improvement.journal import Journal, Snapshot
from imitate.improvement.plan import affordable
from imitate.improvement.report import write_report
from imitate.improvement.study import Study
from imitate.improvement.task import Task
from imitate.improvement.verdict import Result, Verdict
from imitate.nn.stored_policy import load_policy
from imitate.own_code import own_code
from imitate.training.execute import execute
from imitate.training.experiment import Experiment

BUDGET = 3_000


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    trust("teachers:always_first", "teachers:perfect")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("imitate.improvement.candidates.CANDIDATES", teachers.QUICK)
        yield


def task(expert: str = "always_first", budget: int = BUDGET) -> Task:
    return Task(f"teachers:{expert}", "Uneven-v0", budget)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Verdict, int]:
    """A finished search, its verdict and the steps that were taken in all environments."""
    out, before = tmp_path_factory.mktemp("improve") / "out", teachers.Tallied.taken
    verdict = search.search(task(), out)
    return out, verdict, teachers.Tallied.taken - before


def test_a_better_policy_than_a_bad_teacher_is_found(found: tuple[Path, Verdict, int]) -> None:
    out, verdict, _ = found
    assert verdict.kind == "better"
    assert verdict.gain is not None
    assert 5 <= verdict.gain.student <= 10
    assert verdict.gain.expert < 0.5 * verdict.gain.student
    obs = teachers.np.arange(3)
    assert load_policy(out / "policy").act(obs).tolist() == [0, 1, 2]


def test_the_budget_holds_every_step(found: tuple[Path, Verdict, int]) -> None:
    out, _, taken = found
    costs = json.loads((out / "verdict.json").read_text("utf-8"))["costs"]
    assert taken == sum(costs.values()) <= BUDGET
    assert costs["expert"] >= 30
    assert min(costs.values()) > 0


def test_a_finished_search_says_its_verdict_again(found: tuple[Path, Verdict, int]) -> None:
    out, verdict, _ = found
    before = teachers.Tallied.taken
    assert imitate.improve("teachers:always_first", "Uneven-v0", BUDGET, out) == verdict
    assert teachers.Tallied.taken == before


def test_a_verdict_on_another_agent_in_the_same_file_is_not_said_again(
    found: tuple[Path, Verdict, int], tmp_path: Path
) -> None:
    """As by somebody who trains the agent anew and repeats the command."""
    shutil.copytree(found[0] / "policy", tmp_path / "agent")
    shutil.copytree(found[0], out := tmp_path / "out")
    repeated = replace(task(), expert=str(tmp_path / "agent"))
    journal = read_json(out / "journal.json", Journal)
    sha256 = load_expert(repeated.expert, env_id="Uneven-v0").sha256
    for weights in (f"{sha256} {journal.weights.split()[1]}", ""):  # older journals have none
        replace(journal, task=repeated, weights=weights).write(out)
        assert search.search(repeated, out) == found[1]
    replace(journal, task=repeated, weights="another").write(out)
    with pytest.raises(InputError, match=r"has changed since the search in .* began: choose another --out"):
        search.search(repeated, out)
    shutil.rmtree(tmp_path / "agent")
    assert search.search(repeated, out) == found[1]


def test_an_own_expert_or_environment_that_was_edited_is_another(
    found: tuple[Path, Verdict, int], tmp_path: Path
) -> None:
    shutil.copytree(found[0], out := tmp_path / "out")
    journal = read_json(out / "journal.json", Journal)
    expert, env = journal.weights.split()
    assert expert == own_code(teachers)
    for weights in (f"before {env}", f"{expert} before"):
        replace(journal, weights=weights).write(out)
        with pytest.raises(InputError, match="teachers:always_first or code of your own has changed since"):
            imitate.improve("teachers:always_first", "Uneven-v0", BUDGET, out)


def test_the_folder_is_complete(found: tuple[Path, Verdict, int]) -> None:
    out, verdict, _ = found
    assert main(["evaluate", str(out / "policy"), "--env", "Uneven-v0"]) == 0
    page = (out / "index.html").read_text("utf-8")
    assert verdict.sentence.replace("'", "&#39;") in page
    assert "https://" not in page
    said = json.loads((out / "verdict.json").read_text("utf-8"))
    assert said["task"] == {
        "expert": "teachers:always_first", "env_id": "Uneven-v0", "budget": BUDGET, "seed": 0, "env_kwargs": None,
        "vecnormalize": None,
    }  # fmt: skip
    assert said["versions"]["torch"]
    assert said["teacher"]["has_critic"] is False
    assert 0.0 <= said["teacher"]["fitted"] <= 1.0


@pytest.mark.usefixtures("undrawn")
def test_a_learner_whose_validations_were_all_cut_has_no_row(
    found: tuple[Path, Verdict, int], tmp_path: Path
) -> None:
    journal = read_json(found[0] / "journal.json", Journal)
    journal.snapshots.append(Snapshot("a2c", 1.0, 1_000, 0, 1.0, Played([], [], [], 300)))
    write_report(journal, read_json(found[0] / "verdict.json", Result), {}, tmp_path)
    page = (tmp_path / "index.html").read_text("utf-8")
    assert "A2C" not in re.sub("base64,[^\"']*", "", page)  # a film may hold these letters by chance


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("env_id", "named"), [("Uneven-v0", ""), ("teachers:Uneven-v0", " --env teachers:Uneven-v0")]
)
def test_the_page_says_how_to_measure_the_policy(
    found: tuple[Path, Verdict, int], tmp_path: Path, env_id: str, named: str
) -> None:
    result = read_json(found[0] / "verdict.json", Result)
    result = replace(result, task=replace(result.task, env_id=env_id))
    write_report(read_json(found[0] / "journal.json", Journal), result, {}, tmp_path)
    page = (tmp_path / "index.html").read_text("utf-8")
    assert f"\nimitate evaluate {tmp_path / 'policy'}{named}</pre>" in page


@pytest.mark.usefixtures("undrawn")
def test_the_page_counts_the_episodes_of_learners_and_expert(
    found: tuple[Path, Verdict, int], tmp_path: Path
) -> None:
    """Two learners played five and seven of them, the expert three; a third one's validation was cut."""
    journal = read_json(found[0] / "journal.json", Journal)
    counts = {"dagger": 5, "qdagger": 7, "loki": 0}
    few = {n: Played([*range(n)], [1.0] * n, [10] * n, 10 * n) for n in (3, *counts.values())}
    journal.expert = few[3]
    journal.snapshots = [Snapshot(name, 1.0, 9, 0, 1.0, few[n]) for name, n in counts.items()]
    write_report(journal, read_json(found[0] / "verdict.json", Result), {}, tmp_path)
    page = (tmp_path / "index.html").read_text("utf-8")
    assert "the learners 5 to 7 of them, the expert 3, whose mean is the dashed line" in page


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("write", [7, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3, 5, 9))])
def test_a_search_that_was_killed_ends_as_an_uninterrupted_one(
    found: tuple[Path, Verdict, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: int
) -> None:
    """It dies as it is about to write its journal for the n-th time, and once more."""

    class Killed(BaseException): ...

    writes, kept = 0, Journal.write

    def dying(journal: Journal, out: Path) -> None:
        nonlocal writes
        writes += 1
        if writes == write:
            raise Killed
        kept(journal, out)

    monkeypatch.setattr(Journal, "write", dying)
    with pytest.raises(Killed):
        search.search(task(), tmp_path / "out")
    writes = -100
    assert search.search(task(), tmp_path / "out") == found[1]


def test_a_resumed_race_drops_whom_the_uninterrupted_one_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guided wins the first rung, is weak at 0.75 and best at the end. The search may be killed after any snapshot."""
    scores = {"guided": {0.25: 100.0, 0.5: 90.0, 0.75: 20.0, 1.0: 110.0}, "loki": {0.25: 50.0}}
    plan = affordable(["guided", "loki"], [], 200_000, 500.0)

    def race(snapshots: list[Snapshot]) -> list[Snapshot]:
        journal = Journal(task(), snapshots=list(snapshots))

        def train(study: Any, name: str, plan: Any, shares: Any, others: int = 0) -> None:  # noqa: ARG001
            for share in shares:
                if not any(each.learner == name and each.share >= share for each in journal.snapshots):
                    score = scores[name][share]
                    played = Played([1, 2, 3], [score, score + 1, score + 2], [500] * 3, 1_500)
                    journal.snapshots.append(Snapshot(name, share, int(share * 1e5), 0, 1.0, played))

        monkeypatch.setattr(search, "train", train)
        search.race(SimpleNamespace(journal=journal, out=Path()), plan)  # type: ignore[arg-type]
        return journal.snapshots

    whole = race([])
    assert [(each.learner, each.share) for each in whole][-4:] == [
        ("loki", 0.25), ("guided", 0.5), ("guided", 0.75), ("guided", 1.0)
    ]  # fmt: skip
    for count in range(len(whole)):
        assert race(whole[:count]) == whole


@pytest.mark.usefixtures("undrawn")
def test_ctrl_c_leaves_the_best_policy_so_far_and_the_search_goes_on(
    found: tuple[Path, Verdict, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def interrupted(experiment: Experiment, folder: Path, **given: Any) -> bool:
        def progress(spent: int, _metrics: dict[str, float]) -> None:
            if experiment.algorithm == "qdagger" and spent > 900:
                os.kill(os.getpid(), signal.SIGINT)

        return execute(experiment, folder, progress=progress, **given)

    monkeypatch.setattr("imitate.improvement.learning.execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search.search(task(), out)
    assert load_policy(out / "policy") is not None
    assert not (out / "verdict.json").exists()
    monkeypatch.setattr("imitate.improvement.learning.execute", execute)
    before = teachers.Tallied.taken
    verdict = search.search(task(), out)
    assert verdict.kind == found[1].kind
    spent = json.loads((out / "verdict.json").read_text("utf-8"))["costs"]
    assert teachers.Tallied.taken - before < sum(spent.values()) <= BUDGET


def test_steps_of_a_validation_that_was_cut_still_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    journal = Journal(task(), snapshots=[Snapshot("bc", 1.0, 1_000, 0, 1.0, Played([], [], [], 300))])
    study = Study(journal, None, tmp_path)  # type: ignore[arg-type]
    monkeypatch.setattr(Study, "policy", lambda *_: None)
    monkeypatch.setattr(Study, "_play", lambda *_: Played([1], [2.0], [10], 10))
    monkeypatch.setattr(Study, "hand_over", lambda *_: None)
    study.validate("bc", affordable(["guided"], ["bc"], 200_000, 500.0))
    assert journal.costs["validation"] == 310
    assert journal.snapshots[0].validation.by_seed == {1: 2.0}


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Verdict]:
    """A finished search with a perfect teacher, in which QDagger does not learn."""
    out = tmp_path_factory.mktemp("idle") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("imitate.improvement.candidates.CANDIDATES", teachers.IDLE)
        patch.setattr("imitate.compare.report.page_data.save_figure", lambda *_, **__: b"")
        return out, search.search(task("perfect"), out)


def test_nothing_beats_a_perfect_teacher_and_its_imitation_is_kept(idle: tuple[Path, Verdict]) -> None:
    """DAgger is clearly ahead in validation already."""
    _, verdict = idle
    assert (verdict.kind, verdict.learner) == ("kept", "dagger")
    assert verdict.gain is not None
    assert verdict.gain.student == verdict.gain.expert


@pytest.mark.usefixtures("undrawn")
def test_nothing_worse_than_the_expert_is_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here nobody learns, and nobody imitates."""
    monkeypatch.setattr("imitate.improvement.candidates.CANDIDATES", teachers.IDLE[:1])
    out = tmp_path / "out"
    assert (
        main(
            ["improve", "teachers:perfect", "--env", "Uneven-v0", "--budget", str(BUDGET), "--out", str(out)]
        )
        == 0
    )
    said = capsys.readouterr()
    assert "Keep your expert: nothing as good was found in 3,000 steps. The best is worse by" in said.out
    assert "ready" not in said.err
    assert not (out / "policy").exists()
    assert "imitate evaluate policy" not in (out / "index.html").read_text("utf-8")
    assert search.search(task("perfect"), out).kind == "worse"


@pytest.mark.usefixtures("undrawn")
def test_a_student_that_loses_the_test_is_replaced_by_an_imitator(
    idle: tuple[Path, Verdict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal says that QDagger had done well in validation, which is not so."""
    monkeypatch.setattr("imitate.improvement.candidates.CANDIDATES", teachers.IDLE)
    out = tmp_path / "out"
    shutil.copytree(idle[0], out)
    (out / "verdict.json").unlink()  # as if it was killed before the finalists played
    journal = Journal.open(out, task("perfect"))
    journal.tests.clear()
    journal.snapshots[:] = [
        replace(each, validation=replace(each.validation, returns=[10.0] * len(each.validation.seeds)))
        for each in journal.snapshots
    ]
    journal.write(out)
    verdict = search.search(task("perfect"), out)
    assert (verdict.kind, verdict.learner) == ("kept", "dagger")
    tests = Journal.open(out, task("perfect")).tests
    assert [name.partition("-")[0] for name in tests] == ["qdagger", "expert", "dagger"]
    assert load_policy(out / "policy").act(teachers.np.arange(3)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("imitators", "wins"), [([9.0] * 3, False), ([11.0] * 3, True)])
def test_the_better_of_student_and_imitator_is_so_in_the_episodes_of_both(
    imitators: list[float], wins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the student played the episode of seed 3, which went badly."""
    monkeypatch.setattr(search, "_imitator", lambda *_: "dagger-9")
    tests = {
        "guided-9": Played([0, 1, 2, 3], [10.0] * 3 + [-90.0], [1] * 4, 4),
        "expert": Played([0, 1, 2, 3], [12.0, 12.1, 11.9, 12.0], [1] * 4, 4),
        "dagger-9": Played([0, 1, 2], imitators, [1] * 3, 3),
    }
    study: Any = SimpleNamespace(
        journal=SimpleNamespace(tests=tests, counts=[4]),
        test=lambda *_, **__: None,
        task=SimpleNamespace(budget=100),
    )
    assert search._test(study, "guided-9").learner == ("dagger" if wins else "guided")


def test_a_folder_of_something_else_is_refused(found: tuple[Path, Verdict, int], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds a search with budget 3000, not 4000: choose another --out"):
        search.search(task(budget=4_000), found[0])
    (tmp_path / "mine.txt").touch()
    with pytest.raises(InputError, match="exists and holds no search: choose another --out"):
        search.search(task(), tmp_path)
    (tmp_path / "mine.txt").unlink()
    (tmp_path / ".lock").touch()  # left by a search that was killed before it had measured anything
    assert Journal.open(tmp_path, task()).left == BUDGET


@pytest.mark.parametrize(
    ("budget", "reason"), [(14, "3 episodes of the expert take more"), (200, "give at least --budget 261")]
)
def test_a_budget_that_is_too_small_leaves_nothing_behind(tmp_path: Path, budget: int, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        search.search(task(budget=budget), tmp_path / "out")
    assert not (tmp_path / "out").exists()
