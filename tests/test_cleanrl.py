"""benchmarks/cleanrl_pong.py: the names of Gymnasium 0.29, and the agent as a policy. CleanRL itself is not run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn


@pytest.fixture(scope="module")
def module() -> ModuleType:
    path = Path(__file__).parent.parent / "benchmarks" / "cleanrl_pong.py"
    spec = importlib.util.spec_from_file_location("cleanrl_pong", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_last_infos_are_a_list_with_the_episode_that_ended(module: ModuleType) -> None:
    """The same action until a pole falls: its episode's return is the number of steps, the other's is not there."""
    envs = module.OldSyncVectorEnv(
        [lambda: gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))] * 2
    )
    envs.reset(seed=3)
    for steps in range(1, 20):
        *_, terminated, truncated, infos = envs.step(np.array([0, steps % 2]))
        if terminated.any():
            break
        assert "final_info" not in infos
    ended, running = infos["final_info"]
    assert (ended["episode"]["r"], ended["episode"]["l"]) == (steps, steps)
    assert running is None
    assert not truncated.any()
    assert abs(envs.step(np.array([0, 0]))[0][0]).max() < 1  # it was reset at once


def test_the_policy_has_the_agents_logits(module: ModuleType, tmp_path: Path) -> None:
    network = nn.Sequential(
        nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(),
    )  # fmt: skip
    agent = nn.ModuleDict({"network": network, "actor": nn.Linear(512, 6)})
    np.savez(tmp_path / "weights.npz", **{name: x.numpy() for name, x in agent.state_dict().items()})
    policy = module.as_policy(tmp_path / "weights.npz")
    frames = torch.randint(0, 256, (3, 4, 84, 84), dtype=torch.uint8)
    with torch.no_grad():
        wanted = agent["actor"](agent["network"](frames / 255.0))
        torch.testing.assert_close(
            policy(policy.encoder.prepare(frames)).logits, wanted, rtol=1e-4, atol=1e-5
        )
