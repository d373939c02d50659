"""Agents of MuJoCo's older versions on v5: the notice, and where the numbers go that v5 doesn't give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from gymnasium import spaces

from imitate.envs.make import make_env
from imitate.experts import load_expert
from imitate.experts.convert import convert

pytest.importorskip("mujoco")


class _Shown(gym.Env[Any, Any]):
    """An environment of any size, for an agent to be made on."""

    def __init__(self, size: int, actions: int) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = spaces.Box(-1, 1, (actions,), np.float32)


def _reads(path: Path, size: int, actions: int, wired: list[int], at_rest: float = 0.0) -> Path:
    """An agent whose i-th action is tanh of input `wired[i]` plus `at_rest`."""
    options = {"net_arch": []}
    model = sb3.TD3("MlpPolicy", _Shown(size, actions), buffer_size=1, policy_kwargs=options, device="cpu")
    with torch.no_grad():
        model.actor.mu[0].weight.zero_()
        model.actor.mu[0].bias.fill_(at_rest)
        for action, column in enumerate(wired):
            model.actor.mu[0].weight[action, column] = 1.0
    model.save(path)
    return path


@pytest.mark.parametrize("version", [2, 3, 4])
def test_hopper_of_any_version_runs_as_v5(
    version: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expert = load_expert(_reads(tmp_path / f"Hopper-v{version}.zip", 11, 3, [0, 1, 10]))
    assert (expert.env_id, expert.env_kwargs, expert.runnable) == ("Hopper-v5", {}, True)
    assert f"was trained on Hopper-v{version} and runs on Hopper-v5" in caplog.text
    obs = np.arange(11.0)[None] / 10
    np.testing.assert_allclose(expert.act(obs)[0], np.tanh([0.0, 0.1, 1.0]), atol=1e-6)


def test_ant_v3_sees_zeros_for_contact_forces(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = _reads(tmp_path / "Ant-v3.zip", 111, 8, [0, 26, 27, 60, 110])
    expert = load_expert(path)
    assert (expert.env_id, expert.env_kwargs) == ("Ant-v5", {"include_cfrc_ext_in_observation": False})
    assert "where 84 of its 111 inputs are 0" in caplog.text
    assert expert.observation_space == make_env("Ant-v5", expert.env_kwargs).observation_space
    obs = np.ones((100, 27))  # NumPy takes few rows, torch many
    for rows in (1, 100):
        actions = expert.act(obs[:rows])
        np.testing.assert_allclose(actions[-1], np.tanh([1, 1, 0, 0, 0, 0, 0, 0]), atol=1e-6)
    # In an Ant that shows contact forces, the policy still doesn't see them.
    shown = load_expert(path, env_id="Ant-v5", env_kwargs={})
    assert shown.observation_space.shape == (105,)
    assert (shown.act(np.hstack([obs, np.full((100, 78), 7.0)])) == actions).all()


def test_ant_v3_with_the_time_left_behind_the_contact_forces(tmp_path: Path) -> None:
    """Its inputs: 27 that v5 gives, 84 zeros, and the time, here the constant 1 or the environment's last column."""
    path = _reads(tmp_path / "Ant-v3.zip", 112, 8, [26, 27, 111])
    (tmp_path / "config.yml").write_text(
        "!!python/object/apply:collections.OrderedDict\n"
        "- - - n_envs\n    - 8\n"
        "  - - env_wrapper\n    - sb3_contrib.common.wrappers.TimeFeatureWrapper:\n        test_mode: true\n"
    )
    held = load_expert(path)
    np.testing.assert_allclose(held.act(np.full((1, 27), 0.5))[0, :3], np.tanh([0.5, 0, 1]), atol=1e-6)
    counting = load_expert(path, env_kwargs={**held.env_kwargs, "time_feature": True})
    obs = np.append(np.full(27, 0.5), 0.25)[None]
    np.testing.assert_allclose(counting.act(obs)[0, :3], np.tanh([0.5, 0, 0.25]), atol=1e-6)


def test_humanoid_v3_gets_what_v5_left_out(tmp_path: Path) -> None:
    """v3: 45 positions and velocities, 14 x 10 inertias and 14 x 6 velocities of bodies, of which the first is the
    world, 23 forces of actuators, of which 6 are the root's, and 84 contact forces. v5 has no world and no root."""
    body = [45, 55, 45 + 140, 45 + 140 + 6, 45 + 140 + 84, 45 + 140 + 84 + 6, 292]
    expert = load_expert(_reads(tmp_path / "Humanoid-v3.zip", 376, 17, body))
    assert expert.runnable
    assert expert.observation_space.shape == (270,)
    obs = (1 + np.arange(270.0))[None] / 100
    wanted = [0, obs[0, 45], 0, obs[0, 175], 0, obs[0, 253], 0]
    np.testing.assert_allclose(expert.act(obs)[0, :7], np.tanh(wanted), atol=1e-6)
    assert expert.oracle is not None  # its critic takes the same observations
    assert expert.oracle.q(torch.tensor(obs), torch.zeros(1, 17)).shape == (1,)


def test_v4_of_ant_and_humanoid(tmp_path: Path) -> None:
    """v4 shows what MuJoCo computes: the contact forces of Ant (if asked for) and Humanoid are real there."""
    plain = load_expert(_reads(tmp_path / "Ant-v4.zip", 27, 8, [26]))
    assert (plain.env_id, plain.observation_space.shape) == ("Ant-v5", (27,))
    touching = load_expert(_reads(tmp_path / "sac-Ant-v4.zip", 111, 8, [26, 27, 33, 110]))
    obs = np.arange(105.0)[None] / 100
    np.testing.assert_allclose(touching.act(obs)[0, :4], np.tanh([0.26, 0, 0.27, 1.04]), atol=1e-6)
    humanoid = load_expert(_reads(tmp_path / "Humanoid-v4.zip", 376, 17, [291, 292, 298, 375]))
    obs = np.arange(348.0)[None] / 1000
    wanted = np.tanh([0.269, 0, 0.27, 0.347])
    np.testing.assert_allclose(humanoid.act(obs)[0, :4], wanted, atol=1e-6)


def test_a_converted_agent_runs_as_v5_too(tmp_path: Path) -> None:
    """It is placed in today's environment when it is loaded, as a zip is."""
    path = _reads(tmp_path / "Ant-v3.zip", 111, 8, [0, 26, 27, 60, 110])
    convert(str(path), tmp_path / "ant")
    expert, zipped = load_expert(tmp_path / "ant"), load_expert(path)
    assert (expert.env_id, expert.env_kwargs, expert.runnable) == ("Ant-v5", zipped.env_kwargs, True)
    obs = np.random.default_rng(0).normal(size=(1_000, 27))
    np.testing.assert_array_equal(expert.act(obs), zipped.act(obs))
