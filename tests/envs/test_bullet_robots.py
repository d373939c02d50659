"""The robots of pybullet_envs_gymnasium: seeds and actions determine them, and agents of SB3's zoo play them."""

from __future__ import annotations

from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3

from imitate.envs import bullet_robots
from imitate.envs.make import make_env, resolve_env_id
from imitate.errors import InputError
from imitate.experts import load_expert

needs_package = pytest.mark.skipif(
    find_spec("pybullet_envs_gymnasium") is None, reason="the extra bullet is not installed"
)


def episode(env: gym.Env, seed: int, steps: int = 30) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    seen = [env.reset(seed=seed)[0]]
    for _ in range(steps):
        obs, reward, terminated, truncated, _ = env.step(rng.uniform(-1, 1, env.action_space.shape))
        seen.append(np.append(obs, reward))
        if terminated or truncated:
            break
    return seen


@needs_package
@pytest.mark.parametrize("env_id", ["HopperBulletEnv-v0", "AntBulletEnv-v0", "ReacherBulletEnv-v0"])
def test_seed_and_actions_determine_an_episode(env_id: str, capfd: pytest.CaptureFixture[str]) -> None:
    """In the package itself an episode depends on those before it."""
    with closing(make_env(env_id)) as env, closing(make_env(env_id)) as other:
        first = episode(env, 1)
        episode(env, 2)
        for again in (episode(env, 1), episode(other, 1)):
            assert len(again) == len(first)
            assert all(map(np.array_equal, again, first))
        env.action_space.seed(3)
        env.reset(seed=1)
        other.action_space.seed(3)
        assert np.array_equal(
            env.action_space.sample(), other.action_space.sample()
        )  # a reset keeps the space
        drawn = env.unwrapped.np_random.bit_generator.state
        env.reset()
        assert env.unwrapped.np_random.bit_generator.state != drawn  # the generator goes on
    assert "argv" not in capfd.readouterr().out  # where commands print JSON


@needs_package
def test_a_world_is_given_back_at_each_reset() -> None:
    """A process can have 1,024."""
    with closing(make_env("InvertedPendulumBulletEnv-v0")) as env:
        clients = []
        for seed in range(5):
            env.reset(seed=seed)
            clients.append(env.unwrapped.physicsClientId)
        assert len(set(clients)) == 1


@needs_package
def test_an_agent_of_the_zoo_plays_its_robot(tmp_path: Path) -> None:
    with closing(make_env("HopperBulletEnv-v0")) as env:
        sb3.PPO("MlpPolicy", env, n_steps=8, batch_size=8, seed=0, device="cpu").save(
            tmp_path / "HopperBulletEnv-v0.zip"
        )
    expert = load_expert(tmp_path / "HopperBulletEnv-v0.zip")
    assert (expert.env_id, expert.runnable) == ("HopperBulletEnv-v0", True)
    assert expert.measure(3).mean == expert.measure(3).mean > 0


def test_without_the_package_the_error_says_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bullet_robots, "find_spec", lambda _: None)
    monkeypatch.delitem(gym.registry, "AntBulletEnv-v0", raising=False)
    with pytest.raises(
        InputError, match=r"""unknown environment 'AntBulletEnv-v0': `pip install .*\[bullet\]"`"""
    ):
        resolve_env_id("AntBulletEnv-v0")
