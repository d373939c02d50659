"""The race of `improve`: how far each learner is trained, and in which order."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from imitate.improvement import learning, search
from imitate.improvement.journal import Journal
from imitate.improvement.plan import affordable
from imitate.improvement.task import Task


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


def test_the_race_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The imitator's quarter of the winner's steps first; a lone racer goes to its end at once."""
    plan, trained = affordable(["a"], ["clone"], 100_000, 200.0), []
    monkeypatch.setattr(
        search, "train", lambda _, name, __, shares, others: trained.append((name, *shares, others))
    )
    journal = Journal(Task("CartPole-v1", "CartPole-v1", 100_000))
    search.race(SimpleNamespace(journal=journal, out=Path()), plan)  # type: ignore[arg-type]
    assert trained == [("clone", pytest.approx(0.25, abs=1e-3), 0), ("a", 0.5, 0.75, 1.0, 0)]
