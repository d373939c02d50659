"""The best trial of a search, from scores that a reader can compare."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from imitate.files import write_json
from imitate.training.experiment import Experiment
from imitate.tune import search

optuna = pytest.importorskip("optuna", reason="the extra tune is not installed")
RUN = Experiment("ppo", "CartPole-v1", {}, budget=2_000, seed=1_003)


def test_the_best_trial_is_the_one_with_the_highest_score_that_came_to_its_end(tmp_path: Path) -> None:
    """Returns may all be negative. The one that was stopped was ahead when it was."""
    study = optuna.create_study(direction="maximize")
    choices = optuna.distributions.FloatDistribution(0.0, 1.0)
    for number, (state, score) in enumerate(
        [("COMPLETE", -3.0), ("COMPLETE", -1.0), ("PRUNED", -0.5), ("COMPLETE", -2.0)]
    ):
        study.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState[state],
                value=score,
                params={"ppo.gamma": number / 8},
                distributions={"ppo.gamma": choices},
            )
        )
        settings = {"hyperparameters": {"ppo": {"gamma": number / 8}}}
        write_json(tmp_path / "trials" / f"{number:04}" / "config.json", settings)
    best = search._best(study, tmp_path)
    assert best == search.Best(1, -1.0, {"ppo.gamma": 1 / 8}, tmp_path / "best.toml")


def scored(*scores: float) -> list[Any]:
    return [SimpleNamespace(score=score) for score in scores]


class Told:
    """A trial that notes what it is told."""

    def __init__(self, *, prunes: bool = False) -> None:
        self.told: list[tuple[float, int]] = []
        self.asked, self.prunes = 0, prunes
        self.attributes: dict[str, str] = {}

    def report(self, score: float, step: int) -> None:
        self.told.append((score, step))

    def should_prune(self) -> bool:
        self.asked += 1
        return self.prunes

    def set_user_attr(self, name: str, value: str) -> None:
        self.attributes[name] = value


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The validations of a run so far: two of them, the same two again, and then a third."""
    found: list[Any] = []

    def execute(_run: Any, _folder: Path, *, progress: Any, **_: Any) -> bool:
        for known in (scored(1.0, 5.0), scored(1.0, 5.0), scored(1.0, 5.0, 3.0)):
            found[:] = known
            progress(0, {})
        return True

    monkeypatch.setattr("imitate.training.execute.execute", execute)
    monkeypatch.setattr(search, "validations", lambda _: list(found))
    return found


@pytest.mark.usefixtures("rows")
def test_a_trial_has_the_score_of_its_best_validation_and_tells_each_once(tmp_path: Path) -> None:
    trial: Any = Told()
    assert search._returned(trial, RUN, tmp_path / "0000", (), "") == 5.0
    assert trial.told == [(1.0, 0), (5.0, 1), (3.0, 2)]
    assert trial.asked == 2


@pytest.mark.usefixtures("rows")
def test_a_trial_among_the_worse_half_is_stopped_after_a_validation(tmp_path: Path) -> None:
    trial: Any = Told(prunes=True)
    with pytest.raises(optuna.TrialPruned):
        search._returned(trial, RUN, tmp_path / "0000", (), "")
    assert trial.told == [(1.0, 0), (5.0, 1)]


def test_experts_begin_as_they_were_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setattr("imitate.training.execute.execute", lambda *_, **__: True)
    monkeypatch.setattr(search, "validations", lambda _: scored(1.0))
    expert: Any = SimpleNamespace(seed=seeds.append)
    for number in (0, 1):
        trial: Any = Told()
        search._returned(trial, RUN, tmp_path / f"{number:04}", (expert,), "")
    assert seeds == [0, 0]
