"""Agents that were trained with the time left as an observation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from sb3_contrib.common.wrappers import TimeFeatureWrapper
from zoo_entries import zoo_entry

from imitate.datasets.play import episodes
from imitate.envs.make import make_env
from imitate.envs.time_feature import TimeFeature
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.experts import load_expert

WRAPPER = "  - - env_wrapper\n    - sb3_contrib.common.wrappers.TimeFeatureWrapper\n"
IN_TEST_MODE = (
    "  - - env_wrapper\n    - sb3_contrib.common.wrappers.TimeFeatureWrapper:\n        test_mode: true\n"
)


class _Hurried(gym.Env[Any, Any]):
    """Four steps; the reward is the action times `sign`."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, sign: float = 1.0) -> None:
        self.sign = sign

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), self.sign * float(action[0]), False, False, {}


gym.register("Hurried-v0", entry_point=_Hurried, max_episode_steps=4)


def _clock_watcher(folder: Path, config: str, run: str = "Hurried-v0_1") -> Path:
    """An agent whose action is the time left: 1, 3/4, 1/2, 1/4 where it counts down, 1 where it is held."""
    model = sb3.TD3("MlpPolicy", TimeFeatureWrapper(gym.make("Hurried-v0")), buffer_size=10, device="cpu",
                    policy_kwargs={"net_arch": []})  # fmt: skip
    with torch.no_grad():
        model.actor.mu[0].weight[:] = torch.tensor([[0.0, 1.0]])
        model.actor.mu[0].bias[:] = 0.0
    return zoo_entry(folder, model, run, "Hurried-v0", config)


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize(
    ("config", "sign", "seen", "counts"),
    [
        (WRAPPER, -1.0, [1.0, 0.75, 0.5, 0.25], True),  # losing less where it counts down
        (WRAPPER, 1.0, [1.0, 1.0, 1.0, 1.0], False),  # winning more where it is held
        (IN_TEST_MODE, -1.0, [1.0, 1.0, 1.0, 1.0], False),  # as it was trained
    ],
)
def test_time_counts_down_if_the_policy_returns_more_that_way(
    config: str, sign: float, seen: list[float], counts: bool, tmp_path: Path
) -> None:
    path = _clock_watcher(tmp_path, config + f"  - - x\n    - {sign}\n")
    (path.parent / "Hurried-v0" / "env_kwargs.yml").write_text(f"sign: {sign}\n")
    expert = load_expert(path)
    assert expert.env_kwargs == {"sign": sign} | ({"time_feature": True} if counts else {})
    env = make_env(expert.env_id, expert.env_kwargs)
    assert expert.observation_space == env.observation_space
    (episode,) = episodes(expert, SyncVecEnv([lambda: env]), [0])
    np.testing.assert_allclose(episode.actions[:, 0], np.tanh(seen), atol=1e-6)
    # Labels of states are those of the states' own times, in any order.
    np.testing.assert_allclose(expert.act(episode.obs[:-1][::-1])[:, 0], np.tanh(seen)[::-1], atol=1e-6)


@pytest.mark.usefixtures("own_cache")
def test_without_the_time_in_the_environment_it_is_held_at_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expert = load_expert(_clock_watcher(tmp_path, WRAPPER), env_kwargs={})
    assert "held at 1" in caplog.text
    assert expert.observation_space.shape == (1,)
    np.testing.assert_allclose(expert.act(np.zeros((2, 1), np.float32))[:, 0], np.tanh(1.0), atol=1e-6)


@pytest.mark.usefixtures("own_cache")
def test_where_there_is_no_time_limit_it_is_held_at_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _clock_watcher(tmp_path, WRAPPER)
    monkeypatch.setattr(gym.spec("Hurried-v0"), "max_episode_steps", None)
    expert = load_expert(path)
    assert (expert.env_kwargs, expert.runnable) == ({}, True)


class _Counter(_Hurried):
    """Observes whole numbers, which NumPy makes ints."""

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return np.zeros(1, int), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        _, *rest = super().step(action)
        return np.ones(1, int), *rest  # type: ignore[return-value]


gym.register("Counter-v0", entry_point=_Counter, max_episode_steps=4)


def test_the_time_left_is_a_share_beside_whole_numbers_too() -> None:
    """It was cut to 0 where the environment returned ints."""
    env = make_env("Counter-v0", {"time_feature": True})
    assert env.reset(seed=0)[0].tolist() == [0.0, 1.0]
    assert env.step(np.zeros(1, np.float32))[0].tolist() == [1.0, 0.75]


def test_a_new_episode_has_all_its_time_again() -> None:
    env = make_env("Counter-v0", {"time_feature": True})
    for _ in range(2):
        assert env.reset()[0][1] == 1.0
        assert [env.step(np.zeros(1, np.float32))[0][1] for _ in range(4)] == [0.75, 0.5, 0.25, 0.0]


def test_a_space_of_whole_numbers_has_no_room_for_the_time_left() -> None:
    env = gym.make("Hurried-v0")
    env.observation_space = gym.spaces.Box(-1, 1, (1,), np.int64)
    with pytest.raises(InputError, match="needs flat observations of floats"):
        TimeFeature(env)
