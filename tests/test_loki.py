"""LOKI: imitation up to the expert, reinforcement beyond."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from imitate.datasets.evaluation import evaluate
from imitate.datasets.schema import DemoInfo
from imitate.datasets.writer import DemoWriter
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.loki import LOKI, LOKIConfig
from imitate.nn.state import load_state, save_state

IMITATION: dict[str, Any] = {
    **{"iterations": 4, "updates_per_iteration": 60, "final_updates": 300, "learning_rate": 5e-3},
    **{"delta": 0.0, "fqe_updates": 1, "hidden": (16,)},
}


def off_by_a_half(obs: Array) -> Array:
    """An expert that loses 0.5^2 in each of ten steps: 2.5 an episode."""
    return obs + np.float32(0.5)


@contextmanager
def learning(path: Path, **fields: Any) -> Iterator[LOKI]:
    envs = SyncVecEnv([lambda: make_env("ContinuousIdentity-v0")] * 8)
    info = DemoInfo("ContinuousIdentity-v0", envs.single_observation_space, envs.single_action_space)
    ppo = {"num_steps": 64, "learning_rate": 3e-3, "gamma": 0.5, "value_warmup": 2}
    given: dict[str, Any] = {
        "total_steps": 16_800,
        "imitation_steps": 800,
        "aggrevated": IMITATION,
        "ppo": ppo,
    }
    with DemoWriter(path, info, expert_actions=True) as store:
        yield LOKI(LOKIConfig(**given | fields), envs=envs, expert=off_by_a_half, store=store, seed=0)


def test_reinforcement_goes_on_where_imitation_ends_and_passes_the_expert(tmp_path: Path) -> None:
    with learning(tmp_path / "store.h5") as learner:
        while not learner.imitation.done:
            learner.step()
        imitated = evaluate(learner.policy, "ContinuousIdentity-v0", episodes=20).mean
        before = {name: tensor.clone() for name, tensor in learner.policy.state_dict().items()}
        for _ in range(2):  # the value function alone
            learner.step()
        after = learner.policy.state_dict()
        assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
        while not learner.done:
            learner.step()
        assert learner.env_steps <= 16_800
        assert learner.expert_queries == learner.imitation.expert_queries >= 800
    assert imitated == pytest.approx(-2.5, abs=0.4)
    assert evaluate(learner.policy, "ContinuousIdentity-v0", episodes=20).mean > -0.7


@pytest.mark.parametrize("steps", [2, 4, 5])
def test_a_checkpoint_of_either_phase_goes_on(tmp_path: Path, steps: int) -> None:
    with learning(tmp_path / "store.h5", total_steps=2_000) as learner:
        for _ in range(steps):
            learner.step()
        save_state(tmp_path / "state", learner.state_dict())
        policy = {name: tensor.clone() for name, tensor in learner.policy.state_dict().items()}
        learner.step()
        learner.load_state_dict(load_state(tmp_path / "state"))
        assert (learner.ppo is None) == (steps <= 4)
        assert all(torch.equal(tensor, policy[name]) for name, tensor in learner.policy.state_dict().items())


def test_a_quarter_of_the_steps_is_imitation_unless_said_otherwise(tmp_path: Path) -> None:
    for given, expected in ((None, 200), (600, 600), (9_000, 800)):
        with learning(tmp_path / f"{given}.h5", total_steps=800, imitation_steps=given) as learner:
            assert learner.imitation.config.total_steps == expected
