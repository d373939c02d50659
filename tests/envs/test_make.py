"""Environments of a user's own, made with and without keywords."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from imitate.envs.make import make_env
from imitate.errors import InputError


class _Still(gym.Env[Any, Any]):
    """Nothing ever happens."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed, options=options)
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:  # noqa: ARG002
        return np.zeros(1, np.float32), 0.0, False, False, {}


class _Emptying(_Still):
    """Uses up its settings."""

    def __init__(self, settings: dict[str, Any], client: object = None) -> None:
        self.size = settings.pop("size")
        self.first = settings["layers"][0].pop("first")
        self.client = client


class _Hilly(_Still):
    """Makes its terrain in a method that has the name of BipedalWalker's."""

    def _generate_terrain(self) -> None:
        pass


gym.register("Still-v0", entry_point=_Still)
gym.register("Emptying-v0", entry_point=_Emptying, max_episode_steps=5)
gym.register("Hilly-v0", entry_point=_Hilly, max_episode_steps=5)


def test_an_environment_that_uses_up_its_keywords_leaves_them_to_the_next() -> None:
    """So does config.json, which records them. A client of a simulator is shared."""
    client = object()
    kwargs = {"settings": {"size": 3, "layers": [{"first": 4}]}, "client": client}
    for _ in range(2):
        env: Any = make_env("Emptying-v0", kwargs).unwrapped
        assert (env.size, env.first, env.client) == (3, 4, client)
    assert kwargs == {"settings": {"size": 3, "layers": [{"first": 4}]}, "client": client}


def test_only_a_bipedal_walker_gets_a_fresh_world() -> None:
    make_env("Hilly-v0").reset(seed=0)
    for env_id in ("BipedalWalker-v3", "BipedalWalkerHardcore-v3"):
        env: Any = make_env(env_id)
        before = env.unwrapped.world
        env.reset(seed=0)
        assert env.unwrapped.world is not before


def test_the_time_left_needs_a_limit_of_the_task() -> None:
    """The cut after 100,000 steps is none: the column hardly fell."""
    with pytest.raises(InputError, match=r"Still-v0.* has none: give max_episode_steps in --env-kwargs"):
        make_env("Still-v0", {"time_feature": True})
    env = make_env("Still-v0", {"time_feature": True, "max_episode_steps": 4})
    env.reset(seed=0)
    assert env.step(0)[0].tolist() == [0, 0.75]
