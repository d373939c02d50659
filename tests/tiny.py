"""One of every learner on small environments, for tests that hold for all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from imitate.algorithms import ALGORITHMS
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.experts import load_expert

# A gradient step for each step of the environment: here few of both.
OFF_POLICY: dict[str, Any] = {
    "num_steps": 2, "hidden": (16,), "learning_starts": 16, "rounds_per_iteration": 2, "batch_size": 16,
    "replay_size": 500,
}  # fmt: skip

TINY: dict[str, dict[str, Any]] = {
    "bc": {"max_epochs": 5},
    "dagger": {"iterations": 4, "updates_per_iteration": 3, "final_updates": 3},
    "aggrevated": {"iterations": 4, "updates_per_iteration": 3, "final_updates": 3, "fqe_updates": 3},
    "aggrevate": {"iterations": 4, "updates_per_iteration": 3, "final_updates": 3, "fqe_updates": 3},
    "loki": {
        **{"total_steps": 96, "imitation_steps": 48, "ppo": {"num_steps": 4, "num_epochs": 1}},
        "aggrevated": {"iterations": 2, "updates_per_iteration": 3, "final_updates": 3, "fqe_updates": 3},
    },
    "gail": {"ppo": {"num_steps": 16, "num_epochs": 1}, "updates_per_round": 2, "bc_updates": 20},
    "qdagger": {
        **{"learning_starts": 16, "rounds_per_iteration": 2},
        **{"teacher_steps": 64, "offline_updates": 4},
    },
    "sqil": {"dqn": {"learning_starts": 16, "rounds_per_iteration": 2}},
    "iq": {"dqn": {"learning_starts": 16, "rounds_per_iteration": 2}},
    "sqil-continuous": {"sac": OFF_POLICY},
    "iq-continuous": {"sac": OFF_POLICY},
    "gaifo": OFF_POLICY,
    "td3bc": {"max_updates": 20, "updates_per_iteration": 10, "batch_size": 8},
    "ppo": {"num_steps": 16, "num_epochs": 2, "normalize_obs": True, "normalize_rewards": True},
    "rpo": {"num_steps": 16, "num_epochs": 2, "rpo_alpha": 0.1},
    "dac": OFF_POLICY,
    "guided": OFF_POLICY
    | {"replay_size": 10_000, "total_steps": 10_000, "offline_updates": 4, "clone_updates": 4},
    "sac": OFF_POLICY,
    "tqc": OFF_POLICY,
    "td3": OFF_POLICY,
    "dqn": {"learning_starts": 16, "rounds_per_iteration": 2, "prioritized": True, "dueling": True},
    "reinforce": {"num_episodes": 4, "normalize_obs": True},
    "a2c": {"rounds_per_iteration": 2, "normalize_obs": True, "normalize_rewards": True},
}
"""Settings of every algorithm with which an iteration takes a moment."""

CONTINUOUS = (
    "sqil-continuous",
    "iq-continuous",
    "rpo",
    "gaifo",
    "td3bc",
    "sac",
    "tqc",
    "td3",
    "dac",
    "guided",
)


def record(folder: Path, env_id: str) -> Path:
    """Two episodes of somebody on CartPole-v1 or Pendulum-v1."""
    env = make_env(env_id)
    env.action_space.seed(0)
    path = folder / f"{env_id}.h5"
    with DemoWriter(path, DemoInfo(env_id, env.observation_space, env.action_space)) as writer:
        for seed in range(2):
            rows, actions = [env.reset(seed=seed)[0]], []
            for _ in range(8):
                actions.append(env.action_space.sample())
                rows.append(env.step(actions[-1])[0])
            rewards = np.ones(8, np.float32)
            writer.append(
                Trajectory(np.stack(rows), np.stack(actions), rewards, terminated=False, truncated=True)
            )
    return path


def maker(name: str, folder: Path, device: str) -> Callable[..., Any]:
    """Makes the learner `name` on a device, always the same one for a seed."""
    algorithm = ALGORITHMS[name.removesuffix("-continuous")]
    env_id = "Pendulum-v1" if name in CONTINUOUS else "CartPole-v1"
    handed: dict[str, Any] = {}
    if "demos" in algorithm.needs:
        handed["demos"] = DemoReader(record(folder, env_id))
    if "expert" in algorithm.needs:
        handed["expert"] = load_expert(env_id)
    made: list[None] = []

    def make(seed: int = 0) -> Any:
        own = dict(handed)
        if "envs" in algorithm.needs:
            own["envs"] = SyncVecEnv([lambda: make_env(env_id)] * 4)
        if "store" in algorithm.needs:
            made.append(None)
            env = make_env(env_id)
            info = DemoInfo(env_id, env.observation_space, env.action_space)
            own["store"] = DemoWriter(folder / f"store-{len(made)}.h5", info, expert_actions=True)
        config = algorithm.config(**TINY[name])
        return algorithm.learner(config, seed=seed, device=device, **own)

    return make
