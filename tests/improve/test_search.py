"""A whole search on Identity: the teacher names one of three observations, and so gets a third of the rewards."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import teachers  # registers Tallied-v0

from imitate.envs.trust import trust
from imitate.errors import InputError
from imitate.improve import improve
from imitate.improve import study as studies
from imitate.improve.task import Task
from imitate.improve.verdict import Verdict
from imitate.nn.stored_policy import load_policy

BUDGET = 3_000


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    trust("teachers:always_first", "teachers:perfect")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("imitate.improve.candidates.CANDIDATES", teachers.QUICK)
        yield


def task(expert: str = "always_first", budget: int = BUDGET) -> Task:
    return Task(f"teachers:{expert}", "Tallied-v0", budget)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Verdict, int]]:
    """A finished search, its verdict and the steps that were taken in all environments."""
    out, before = tmp_path_factory.mktemp("improve") / "out", teachers.Tallied.taken
    verdict = improve(task(), out)
    yield out, verdict, teachers.Tallied.taken - before


def test_a_better_policy_than_a_bad_teacher_is_found(found: tuple[Path, Verdict, int]) -> None:
    out, verdict, _ = found
    assert verdict.kind == "better"
    assert verdict.gain is not None
    assert verdict.gain.student > 9
    assert 2 < verdict.gain.expert < 5
    obs = teachers.np.arange(3)
    assert load_policy(out / "policy").act(obs).tolist() == [0, 1, 2]


def test_the_budget_holds_every_step(found: tuple[Path, Verdict, int]) -> None:
    out, _, taken = found
    costs = json.loads((out / "verdict.json").read_text())["costs"]
    assert taken == sum(costs.values()) <= BUDGET
    assert costs["expert"] >= 30
    assert min(costs.values()) > 0
