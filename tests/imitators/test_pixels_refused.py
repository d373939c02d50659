"""Imitators on SAC learn from vectors; they say so by their own name, and name an imitator instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from imitate.configs.gaifo import GAIfOConfig
from imitate.configs.iq import IQConfig
from imitate.configs.sqil import SQILConfig
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.imitators.gaifo import GAIfO
from imitate.imitators.iq import IQ
from imitate.imitators.sqil import SQIL


class Pictures(gym.Env[Any, Any]):
    observation_space = gym.spaces.Box(0, 255, (4, 8, 8), np.uint8)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize(
    ("made", "config", "has_actions", "said"),
    [
        (SQIL, SQILConfig(), True, r"sqil learns from vectors, got pixels \(4, 8, 8\); use gail$"),
        (IQ, IQConfig(), True, r"iq learns from vectors, got pixels \(4, 8, 8\); use gail$"),
        (GAIfO, GAIfOConfig(), True, r"gaifo learns from vectors, .*; use gail$"),
        (GAIfO, GAIfOConfig(), False, r"gaifo learns from vectors, .*; use gail, and record the actions too$"),
    ],
)  # fmt: skip
def test_pixels_with_continuous_actions_are_refused(
    tmp_path: Path, made: Any, config: Any, has_actions: bool, said: str
) -> None:
    envs = SyncVecEnv([Pictures])
    spaces = envs.single_observation_space, envs.single_action_space
    with DemoWriter(
        tmp_path / "demos.h5", DemoInfo("Pictures-v0", *spaces, has_actions=has_actions)
    ) as writer:
        obs, actions = np.zeros((3, 4, 8, 8), np.uint8), np.zeros((2, 2), np.float32)
        writer.append(Trajectory(obs, actions, np.zeros(2, np.float32), terminated=True, truncated=False))
    with DemoReader(tmp_path / "demos.h5") as demos, pytest.raises(InputError, match=said):
        made(config, envs=envs, demos=demos, seed=0)
