"""gymnasium-robotics, where it is installed: its ids are known, and one line says which MuJoCo it needs."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import pytest
import stable_baselines3 as sb3
from reaching import Joined

from imitate.envs.make import make_env, resolve_env_id
from imitate.errors import InputError
from imitate.experts import load_expert


def from_new(**_: object) -> gym.Env:
    raise AssertionError


def test_an_assertion_of_the_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = gym.envs.registration.EnvSpec("Robot-v4", entry_point="gymnasium_robotics.envs.robot:Robot")
    monkeypatch.setitem(gym.registry, "Robot-v4", spec)
    monkeypatch.setattr(gym.envs.registration, "load_env_creator", lambda _: from_new)
    with pytest.raises(InputError, match=r"Robot-v4 can't be made: .* since MuJoCo 3.12"):
        make_env("Robot-v4")


def test_ids_of_mujoco_py_run_as_the_newest(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for version, name in ((1, "MujocoPyRobot"), (4, "MujocoRobot")):
        spec = gym.envs.registration.EnvSpec(
            f"Robot-v{version}", entry_point=f"gymnasium_robotics.envs.robot:{name}"
        )
        monkeypatch.setitem(gym.registry, f"Robot-v{version}", spec)
    with caplog.at_level(logging.WARNING):
        assert resolve_env_id("Robot-v1") == "Robot-v4"
    assert "using Robot-v4" in caplog.text


@pytest.mark.skipif(find_spec("gymnasium_robotics") is None, reason="the extra robotics is not installed")
def test_an_agent_of_fetch_reach_v1_runs_on_todays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    env = gym.wrappers.TimeLimit(Joined(make_env("FetchReach-v4").unwrapped), 50)
    model = sb3.SAC("MlpPolicy", env, buffer_size=10, policy_kwargs={"net_arch": [32]}, seed=0, device="cpu")
    model.save(tmp_path / "FetchReach-v1.zip")
    expert = load_expert(tmp_path / "FetchReach-v1.zip")
    assert "any more: using FetchReach-v4" in caplog.text
    assert (expert.env_id, expert.runnable) == ("FetchReach-v4", True)
    assert expert.measure(2).mean <= 0
