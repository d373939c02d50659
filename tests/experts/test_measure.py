"""Measuring experts: what is remembered, what is another measurement, and verdicts."""

from __future__ import annotations

import importlib
import logging
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from zoo_entries import CARTPOLE, zoo_entry

from imitate.datasets.evaluation import Evaluation
from imitate.datasets.play import RandomPolicy
from imitate.experts import load_expert
from imitate.experts.measure import Measured, fingerprint, measure, verdict


def test_measuring_is_remembered_and_judged(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = zoo_entry(tmp_path, model, "CartPole-v1_1", CARTPOLE)
    caplog.set_level(logging.INFO)
    measured = load_expert(path).measure(episodes=4, seed=1)
    assert "no better than random" in caplog.text  # never trained
    assert measured.episodes == 4
    assert 8 <= measured.random_mean <= 60

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("played again")

    monkeypatch.setattr("imitate.experts.measure.evaluate", refuse)
    assert load_expert(path).measure(episodes=4, seed=1) == measured
    with pytest.raises(AssertionError, match="played again"):
        load_expert(path).measure(episodes=4, seed=2)


def test_without_a_home_measuring_works_and_nothing_is_remembered(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a container whose user has no name, and so no home."""

    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    caplog.set_level(logging.INFO)
    path = zoo_entry(tmp_path, model, "CartPole-v1_1", CARTPOLE)
    assert load_expert(path).measure(episodes=2).episodes == 2
    assert "is not kept: your home folder is not known: set HOME" in caplog.text


@pytest.mark.usefixtures("own_cache")
def test_other_statistics_are_other_measurements(model: Any, tmp_path: Path) -> None:
    """The same weights, normalised otherwise, are another expert: once 500 was stated of one that made 84."""
    path = zoo_entry(tmp_path, model, "CartPole-v1_1", CARTPOLE)
    statistics = _statistics(tmp_path / "far.pkl", mean=1_000.0)
    plain, far = load_expert(path), load_expert(path, vecnormalize=statistics)
    assert plain.normalisation_sha256 == ""
    assert len(far.normalisation_sha256) == 64
    assert "normalised by far.pkl" in far.describe()
    assert str(statistics) not in far.describe()  # reports carry this line to other machines
    assert load_expert(path, vecnormalize="none").normalisation is None
    returns = {expert.measure(episodes=4).mean for expert in (plain, far)}
    assert (
        len(returns) == 2
    )  # at -1,000 / std each state looks alike: one action for ever, which falls at once


def _statistics(path: Path, mean: float) -> Path:
    venv = VecNormalize(DummyVecEnv([lambda: gym.make(CARTPOLE)]))
    venv.reset()
    venv.obs_rms.mean[:] = mean
    venv.save(str(path))
    return path


OWN_ENV = """
import gymnasium as gym, numpy as np

class Paying(gym.Env):
    observation_space = action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {{}}
    def step(self, action):
        return np.zeros(1, np.float32), {pay}, False, False, {{}}
"""


@pytest.mark.usefixtures("own_cache")
def test_another_reward_is_another_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    # Both modules have one size, and perhaps one second: bytecode of the first would be taken for the second's.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for pay in (1.0, 2.0):
        (tmp_path / "own_rewards.py").write_text(OWN_ENV.format(pay=pay))
        sys.modules.pop("own_rewards", None)
        importlib.invalidate_caches()
        gym.registry.pop("Paying-v0", None)
        entry_point = importlib.import_module("own_rewards").Paying
        gym.register("Paying-v0", entry_point=entry_point, max_episode_steps=3)
        measured = measure(
            RandomPolicy(entry_point.action_space), "weights", "Paying-v0", {}, episodes=2, seed=0
        )
        assert measured.mean == 3 * pay
    played = measure(RandomPolicy(entry_point.action_space), "weights", "Paying-v0", {}, episodes=2, seed=0)
    seven = Evaluation(np.array([7.0]), np.array([3]))
    monkeypatch.setattr("imitate.experts.measure.evaluate", lambda *_, **__: seven)
    again = {"episodes": 2, "seed": 0}
    assert measure(RandomPolicy(entry_point.action_space), "weights", "Paying-v0", {}, **again) == played
    assert (
        measure(
            RandomPolicy(entry_point.action_space), "weights", "Paying-v0", {}, remeasure=True, **again
        ).mean
        == 7
    )
    assert (
        measure(RandomPolicy(entry_point.action_space), "weights", "Paying-v0", {}, **again).mean == 7
    )  # replaced


def test_the_same_code_has_one_fingerprint_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparisons of two machines are reported together if their code is the same, whatever their folders' names."""
    base = "from gymnasium.envs.classic_control import CartPoleEnv\nclass Base(CartPoleEnv): pass\n"
    pole = "from far_base import Base\nclass FarPole(Base): pass\n"
    found = []
    for machine, (first, last) in {"one": ("a", "z"), "other": ("z", "a")}.items():
        for name, text in ((f"{first}/far_base.py", base), (f"{last}/far_pole.py", pole)):
            (tmp_path / machine / name).parent.mkdir(parents=True)
            (tmp_path / machine / name).write_text(text)
            monkeypatch.syspath_prepend(tmp_path / machine / name[0])
        for name in ("far_base", "far_pole"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        with monkeypatch.context() as patch:
            patch.setitem(gym.registry, "FarPole-v0", EnvSpec("FarPole-v0", "far_pole:FarPole"))
            found.append(fingerprint("FarPole-v0", {}))
    assert found[0] == found[1] != ""


def test_verdicts() -> None:
    # The standard error is 122 / sqrt(20) = 27.3, a tenth of the way 39.3; 287.9 - 230 = 57.9 is more.
    assert "far below" in str(verdict(Measured(230, 122, 20, -105), 287.9))
    assert verdict(Measured(230, 400, 20, -1000), 287.9) is None
    assert verdict(Measured(250, 122, 20, -105), 287.9) is None
    assert verdict(Measured(475, 1, 20, 20), 500) is None  # within a tenth of the way from random
    assert verdict(Measured(400, 100, 20, 20), None) is None
    assert "no better than random" in str(verdict(Measured(25, 20, 20, 20), None))
