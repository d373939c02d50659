"""Our environments are registered by a function that the package's metadata name."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import gymnasium as gym
import pytest

import imitate.envs  # noqa: F401


def test_gymnasium_0_29_can_load_the_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses a module, which has no `attr`, and then can't be imported at all; a function it loads and calls."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    ((name, value),) = project["entry-points"]["gymnasium.envs"].items()
    plugin = EntryPoint(name, value, "gymnasium.envs")
    assert plugin.attr
    before = gym.spec("imitate/BulletCartPole-v0")
    monkeypatch.delitem(gym.registry, "imitate/BulletCartPole-v0")
    plugin.load()()
    assert gym.spec("imitate/BulletCartPole-v0") == before
    plugin.load()()  # without a warning that something is overridden
