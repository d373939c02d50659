"""Measurements that are kept apart, and verdicts at their borders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imitate.datasets.evaluation import Evaluation
from imitate.datasets.play import RandomPolicy
from imitate.envs.answers import spaces_of
from imitate.experts.measure import Measured, measure, verdict


def test_far_below_is_more_than_one_standard_error() -> None:
    """30 below the published 200, of which a tenth of the way from random is 20."""
    assert "far below" in str(verdict(Measured(170, 40, 4, 0), 200))  # a standard error of 20
    assert "far below" in str(verdict(Measured(170, 58, 4, 0), 200))
    assert verdict(Measured(170, 62, 4, 0), 200) is None


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, dict[str, Any]]]:
    """The policies that were evaluated, and with which settings; the fingerprint of all environments is one."""
    found: list[tuple[Any, dict[str, Any]]] = []

    def evaluated(policy: Any, _env_id: str, **settings: Any) -> Evaluation:
        found.append((policy, settings))
        return Evaluation(np.array([float(len(found))]), np.array([1]))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("imitate.experts.measure.evaluate", evaluated)
    monkeypatch.setattr("imitate.experts.measure.fingerprint", lambda *_: "same")
    return found


@pytest.mark.parametrize(
    "other", [{"episodes": 3}, {"seed": 1}, {"env_kwargs": {"continuous": False}}, {"weights": "others"}]
)
def test_each_setting_is_measured_apart(other: dict[str, Any], played: list[Any]) -> None:
    given: dict[str, Any] = {"weights": "some", "env_kwargs": {}, "episodes": 2, "seed": 0}
    policy = RandomPolicy(spaces_of("Identity-v0")[1])
    for settings in (given, given, given | other):
        measure(policy, env_id="Identity-v0", **settings)
    assert len(played) == (3 if "weights" in other else 4)  # random play has no weights


def test_random_play_is_in_the_environment_of_these_keywords(played: list[Any]) -> None:
    kwargs = {"continuous": True}
    policy = RandomPolicy(spaces_of("Identity-v0", kwargs)[1])
    measure(policy, "some", "Identity-v0", kwargs, episodes=2, seed=5)
    (_, random) = played
    assert random[0].act(np.zeros((3, 1))).shape == (3, 1)
    assert [settings["env_kwargs"] for _, settings in played] == [kwargs, kwargs]
    assert [settings["seed"] for _, settings in played] == [5, 5]
