"""AggreVaTe: the expert plays on from a state to tell what an action is worth."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium import spaces
from problems import trained

from imitate.aggrevated.variants.aggrevate import AggreVaTe
from imitate.datasets.evaluation import evaluate
from imitate.envs.spaces import Array
from imitate.errors import InputError


def test_aggrevate_plays_on_with_the_expert_to_learn_what_actions_are_worth(tmp_path: Path) -> None:
    """The states of Identity follow from the seed alone, so the action's own reward is all that differs."""

    def expert(obs: Array) -> Array:
        return obs.copy()

    learner = trained(
        tmp_path, "Identity-v0", expert, kind=AggreVaTe, estimator="regression", beta=0.0, total_steps=2_000,
        iterations=2, updates_per_iteration=100, fqe_updates=200, fqe={"gamma": 0.5}, hidden=(16,), learning_rate=1e-2,
    )  # fmt: skip
    assert 1_900 < learner.env_steps <= 2_000
    assert evaluate(learner.policy, "Identity-v0", episodes=10).mean >= 9.5


class _Varied(gym.Env[Any, Any]):
    """Episodes of 2 to 31 steps, as the seed says."""

    observation_space = action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        self._left = 2 + int(self.np_random.integers(30))
        return 0, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        self._left -= 1
        return 0, 1.0, self._left == 0, False, {}


gym.register("Varied-v0", entry_point=_Varied)


gym.register("Bounded-v0", entry_point=_Varied, max_episode_steps=12)


def test_aggrevate_ends_well_where_the_last_visits_are_the_dearest(tmp_path: Path) -> None:
    for total_steps in range(100, 200, 5):
        learner = trained(
            tmp_path, "Varied-v0", lambda obs: obs, kind=AggreVaTe, total_steps=total_steps, iterations=5,
            updates_per_iteration=1, final_updates=1, fqe_updates=1, hidden=(4,),
        )  # fmt: skip
        assert learner.env_steps <= total_steps


def test_aggrevate_names_the_least_budget(tmp_path: Path) -> None:
    """A visit is three episodes of at most 12 steps."""
    fields: dict[str, Any] = {
        "iterations": 1,
        "updates_per_iteration": 1,
        "final_updates": 1,
        "fqe_updates": 1,
    }
    make = partial(trained, tmp_path, "Bounded-v0", lambda obs: obs, kind=AggreVaTe, **fields)
    with pytest.raises(InputError, match="give at least --budget 36, which always suffices"):
        make(total_steps=5)
    assert make(total_steps=36).env_steps <= 36
