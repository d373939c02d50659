"""Actions of a Discrete space that is not int64: its `contains` refuses int64, and environments may ask it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from imitate.datasets import DemoInfo, DemoReader, DemoWriter, Trajectory
from imitate.datasets.evaluation import evaluate
from imitate.envs.spaces import Array
from imitate.envs.trust import trust
from imitate.nn.stored_policy import load_policy
from imitate.training.execute import execute
from imitate.training.experiment import Experiment

SHORT: dict[str, Any] = {"iterations": 2, "updates_per_iteration": 2, "final_updates": 2}
SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": {"num_steps": 16},
    "dqn": {"learning_starts": 20},
    "qdagger": {"learning_starts": 10, "offline_updates": 2, "num_updates": 1},
    "dagger": SHORT,
    "aggrevate": SHORT | {"fqe_updates": 2},
}


class Narrow(gym.Env[Array, np.int32]):
    """Pays for the action 1 of 1, 2 and 3."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(3, start=1, dtype=np.int32)  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return np.zeros(2, np.float32), {}

    def step(self, action: np.int32) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        return np.zeros(2, np.float32), float(action == 1), False, False, {}


def make_expert() -> Any:
    return lambda obs: np.ones(len(obs), np.int64)


gym.register("Narrow-v0", entry_point=Narrow, max_episode_steps=10)


@pytest.mark.parametrize("algorithm", SETTINGS)
def test_learners_and_their_policies_act_in_the_type_of_the_space(tmp_path: Path, algorithm: str) -> None:
    name = f"{__name__}:make_expert"
    trust(name)
    taught = {} if algorithm in ("ppo", "dqn") else {"expert": name}
    run = Experiment.create(
        algorithm, "Narrow-v0", budget=100, num_envs=2, eval_every=0, backend="gymnasium",
        hyperparameters=SETTINGS[algorithm], **taught,
    )  # fmt: skip
    assert execute(run, tmp_path / "run")
    policy = load_policy(tmp_path / "run")
    assert policy.act(np.zeros((4, 2), np.float32)).dtype == np.int32
    assert evaluate(policy, "Narrow-v0", episodes=2, seed=0).complete


def test_they_are_read_as_they_were_recorded(tmp_path: Path) -> None:
    space: Any = spaces.Discrete(4, dtype=np.int32)
    obs = np.array([0, 3, 1], np.int32)
    with DemoWriter(tmp_path / "demos.h5", DemoInfo("Made-v0", space, space)) as writer:
        writer.append(Trajectory(obs, obs[1:], np.ones(2, np.float32), terminated=True, truncated=False))
    with DemoReader(tmp_path / "demos.h5") as reader:
        assert reader.info.action_space == space
        assert (reader[0].actions.dtype, reader[0].actions.tolist()) == (np.int32, [3, 1])
