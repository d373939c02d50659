"""Agents of goal environments, with Hindsight Experience Replay of today's SB3 and of that before 1.1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import sb3_contrib
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from numpy.testing import assert_allclose
from reaching import Joined, Reaching
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from imitate.cli import main
from imitate.datasets import DemoReader, InputError
from imitate.envs.make import make_env
from imitate.experts import load_expert

torch.set_num_threads(1)


def observations(count: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    sizes = {"observation": 4, "achieved_goal": 2, "desired_goal": 2}
    return {name: rng.uniform(-1, 1, (count, size)) for name, size in sizes.items()}


def rows(obs: dict[str, Any]) -> Any:
    """As our environments give them."""
    made = np.empty(len(obs["observation"]), make_env("Reaching-v0").observation_space.dtype)
    for name, values in obs.items():
        made[name] = values
    return made


@pytest.mark.parametrize("algorithm", [sb3.SAC, sb3_contrib.TQC, sb3.DDPG])
def test_an_agent_of_hindsight_replay_acts_as_in_sb3(algorithm: Any, tmp_path: Path) -> None:
    model = algorithm(
        "MultiInputPolicy", gym.make("Reaching-v0"), replay_buffer_class=sb3.HerReplayBuffer, learning_starts=30,
        buffer_size=100, policy_kwargs={"net_arch": [32, 32]}, seed=0, device="cpu",
    )  # fmt: skip
    model.learn(60)
    model.save(tmp_path / "Reaching-v0.zip")
    expert = load_expert(tmp_path / "Reaching-v0.zip")
    assert (expert.algorithm, expert.runnable) == (algorithm.__name__, True)
    obs = observations(500)
    theirs, _ = model.predict(obs, deterministic=True)
    assert_allclose(expert.act(obs), theirs, atol=1e-5, rtol=0)
    assert_allclose(expert.act(rows(obs)), theirs, atol=1e-5, rtol=0)


def joined_agent(folder: Path, normalised: bool) -> tuple[Any, VecNormalize]:
    venv = VecNormalize(DummyVecEnv([lambda: Joined(Reaching())]))
    venv.reset()
    for _ in range(50):
        venv.step(np.stack([venv.action_space.sample()]))
    model = sb3.SAC("MlpPolicy", venv, buffer_size=10, policy_kwargs={"net_arch": [32]}, seed=0, device="cpu")
    model.save(folder / "Reaching-v0.zip")
    if normalised:
        (folder / "Reaching-v0").mkdir()
        venv.save(str(folder / "Reaching-v0" / "vecnormalize.pkl"))
    return model, venv


@pytest.mark.parametrize("normalised", [False, True])
def test_an_agent_of_one_array_sees_observation_and_desired_goal(normalised: bool, tmp_path: Path) -> None:
    model, venv = joined_agent(tmp_path, normalised)
    expert = load_expert(tmp_path / "Reaching-v0.zip")
    assert expert.runnable
    assert expert.observation_space == make_env("Reaching-v0").observation_space
    obs = observations(500)
    joined = np.concatenate([obs["observation"], obs["desired_goal"]], 1)
    seen = venv.normalize_obs(joined) if normalised else joined.astype(np.float32)
    theirs, _ = model.predict(seen, deterministic=True)
    assert_allclose(expert.act(rows(obs)), theirs, atol=1e-5, rtol=0)
    assert expert.oracle is not None
    out = tmp_path / "a.h5"
    command = ["collect", str(tmp_path / "Reaching-v0.zip"), "--episodes", "2", "--out", str(out)]
    assert main(command) == 0
    with DemoReader(out) as reader:
        assert_allclose(expert.act(reader[0].obs[:-1]), reader[0].actions, atol=1e-6)


def test_an_array_of_another_size_is_refused(tmp_path: Path) -> None:
    model = sb3.SAC("MlpPolicy", gym.wrappers.FlattenObservation(Reaching()), buffer_size=10, device="cpu")
    model.save(tmp_path / "Reaching-v0.zip")
    with pytest.raises(InputError, match=r"it observes Box.*\(8,\).* not "):
        load_expert(tmp_path / "Reaching-v0.zip")
    assert isinstance(model.observation_space, spaces.Box)
