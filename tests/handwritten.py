"""Experts that need no training, and demonstrations of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.make import make_env
from imitate.envs.spaces import Array


class Balancer:
    """Balances CartPole by pushing the way that the pole falls: 500 in every episode."""

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        return (obs @ np.float32([0.05, 0.1, 1.0, 0.5]) > 0).astype(np.int64)


class Namer:
    """Names the observation of ContinuousIdentity: 0 in every episode."""

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        return obs


def named(path: Path, env_id: str, episodes: int = 20, *, terminated: bool = False) -> Path:
    """Write demonstrations of an expert that names the observation it sees; all episodes have 10 steps."""
    env = make_env(env_id)
    rng = np.random.default_rng(0)
    with DemoWriter(path, DemoInfo(env_id, env.observation_space, env.action_space)) as writer:
        for _ in range(episodes):
            obs = rng.integers(3, size=11) if env_id == "Identity-v0" else rng.uniform(-1, 1, (11, 1))
            obs = obs.astype(env.observation_space.dtype)
            actions = obs[:10].astype(env.action_space.dtype)
            ends = {"terminated": terminated, "truncated": not terminated}
            writer.append(Trajectory(obs, actions, np.ones(10, np.float32), **ends))
    return path
