"""Stacks of frames are recorded as single frames, and whole if a wrapper above the stack may change them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from counting import CountingPixels
from gymnasium import wrappers
from gymnasium.envs.registration import EnvSpec, registry

from imitate.cli import main
from imitate.datasets import DemoReader, make_env
from imitate.envs.tasks.pixel_cartpole import PixelCartPole
from imitate.media.window import Window

Env = gym.Env[Any, Any]


class Brighter(gym.Wrapper[Any, Any, Any, Any]):
    """Changes observations without another space, from the first step on."""

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        return obs + np.uint8(1), *rest


class Newest(wrappers.FrameStackObservation):
    """The newest frame comes first."""

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        return obs[::-1], *rest


class Named(gym.ObservationWrapper[Any, Any, Any]):
    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Dict(seen=env.observation_space)

    def observation(self, observation: Any) -> Any:
        return {"seen": observation}


def stack(env: Env) -> Env:
    return wrappers.FrameStackObservation(env, 4)


def numbers(env: Env) -> Env:
    return wrappers.TransformObservation(env, lambda obs: obs[0, 0], gym.spaces.Box(0, 255, (), np.uint8))


ABOVE: dict[str, Callable[[Env], Env]] = {
    "nothing": lambda env: env,
    "limits": lambda env: wrappers.OrderEnforcing(wrappers.TimeLimit(env, 5)),
    "records": lambda env: wrappers.RecordEpisodeStatistics(wrappers.PassiveEnvChecker(env)),
    "rewards": lambda env: wrappers.NormalizeReward(wrappers.TransformReward(env, lambda reward: 2 * reward)),
    "actions": lambda env: wrappers.StickyAction(wrappers.TransformAction(env, lambda a: a, None), 0.5),
    "below": stack,
}
WHOLE: dict[str, Callable[[Env], Env]] = {
    "flattened": lambda env: wrappers.FlattenObservation(stack(env)),
    "in a Dict": lambda env: Named(stack(env)),
    "of Dicts": lambda env: stack(Named(env)),
    "of numbers": lambda env: stack(numbers(env)),
    "rescaled": lambda env: wrappers.RescaleObservation(stack(env), np.uint8(0), np.uint8(200)),
    "delayed": lambda env: wrappers.DelayObservation(stack(env), 2),
    "brighter": lambda env: Brighter(stack(env)),
    "by a kind of its own": lambda env: Newest(env, 4),
    "two steps at once": lambda env: wrappers.MaxAndSkipObservation(stack(env), 2),
}
MADE = {name: lambda env, above=above: above(stack(env)) for name, above in ABOVE.items()} | WHOLE


@pytest.mark.parametrize("name", MADE)
def test_only_plain_stacks_are_taken_apart(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = EnvSpec("Stacked-v0", entry_point=lambda: MADE[name](CountingPixels(9)))
    monkeypatch.setitem(registry, "Stacked-v0", spec)
    out = tmp_path / "a.h5"
    command = ["collect", "random", "--env", "Stacked-v0", "--episodes", "4", "--no-measure"]
    assert main([*command, "--out", str(out)]) == 0
    with DemoReader(out) as reader:
        assert reader.info.frame_stack == (1 if name in WHOLE else 4)
        assert reader.info.observation_space == make_env("Stacked-v0").observation_space
    if name in WHOLE:
        assert main(["data", "replay", str(out)]) == 0


@pytest.mark.parametrize(("above", "wanted"), [(ABOVE["limits"], 4), (wrappers.FlattenObservation, 1)])
def test_a_persons_too(
    above: Callable[[Env], Env], wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(**options: Any) -> Env:
        return above(stack(PixelCartPole(**options)))

    monkeypatch.setitem(registry, "Stacked-v0", EnvSpec("Stacked-v0", entry_point=make))
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    presses = chain([{"right"}] * 14, cycle([{"escape"}]))
    monkeypatch.setattr(Window, "down", lambda _: next(presses))
    out, keys = tmp_path / "a.h5", tmp_path / "keys.toml"
    keys.write_text("idle = 0\n[keys]\nright = 1\n")
    command = ["collect", "human", "--env", "Stacked-v0", "--keys", str(keys), "--fps", "100000"]
    assert main([*command, "--out", str(out)]) == 0
    with DemoReader(out) as reader:
        assert reader.info.frame_stack == wanted
