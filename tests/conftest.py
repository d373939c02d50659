"""Environments that a reader can solve in the head, and where the zoo is."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

# Read when a test module imports torch, and inherited by processes. Importing torch here would take a second of
# xdist's controller, which runs no test.
os.environ["OMP_NUM_THREADS"] = "1"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as under nohup, or behind the & of a script
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Neighbours run in one process, which makes the fixtures of their module once."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


def pytest_collection_finish() -> None:
    """Imported modules outlive every test, so the garbage collector need not walk through them again."""
    gc.freeze()


class Identity(gym.Env[Any, Any]):
    """Ten steps; the reward is 1 for naming the observation (Discrete), or minus the squared distance (Box)."""

    def __init__(self, continuous: bool = False) -> None:
        self.continuous = continuous
        if continuous:
            self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
            self.action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)
        else:
            self.observation_space = spaces.Discrete(3)
            self.action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self._steps = 0
        self._obs = self.observation_space.sample()
        return self._obs, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = -float((action[0] - self._obs[0]) ** 2) if self.continuous else float(action == self._obs)
        self._steps += 1
        self._obs = self.observation_space.sample()
        return self._obs, reward, False, self._steps == 10, {}


gym.register("Identity-v0", entry_point=Identity)
gym.register("ContinuousIdentity-v0", entry_point=Identity, kwargs={"continuous": True})


@pytest.fixture(scope="session")
def zoo() -> Path:
    """The rl-trained-agents folder; tests that need it skip where it is absent."""
    named = os.environ.get("IMITATE_ZOO_DIR", "../shared/zoo")
    folder = Path(named.split(os.pathsep)[0]).resolve()
    if not folder.is_dir():
        pytest.skip(f"no zoo at {folder}: set IMITATE_ZOO_DIR to an rl-trained-agents folder")
    return folder


@pytest.fixture(scope="module")
def model() -> Any:
    """An agent of SB3 that was never trained."""
    import stable_baselines3 as sb3

    return sb3.A2C("MlpPolicy", "CartPole-v1", seed=0, device="cpu")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements are remembered for this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def in_this_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are checked in the test's own process, which is so large that a fork takes longer than many tests."""
    if request.node.get_closest_marker("forks") is None:
        monkeypatch.setattr("imitate.datasets.storage.contain.FORKS", False)


@pytest.fixture(autouse=True)
def same_weights() -> None:
    """Networks that a test makes without a seed are the same whatever ran before it."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(0)


@pytest.fixture
def at_a_terminal() -> Iterator[None]:
    """SIGHUP does what it does in a terminal, where nohup would ignore it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports have no PDF and PNG of their figures, which take nearly all of a report's time."""
    monkeypatch.setattr("imitate.compare.report.page_data.save_figure", lambda *_, **__: b"")


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons carry out their tasks in this process."""
    from inline import Inline

    for module in "imitate.compare.backends.processes", "imitate.compare.execute.carry_out":
        monkeypatch.setattr(importlib.import_module(module), "Processes", Inline)


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's own folder is the current one."""
    monkeypatch.chdir(tmp_path)
