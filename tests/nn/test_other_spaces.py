"""A policy in an environment whose spaces differ from its own in bounds and in the width of floats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from imitate.cli import main
from imitate.datasets.asking import asking
from imitate.envs.fields import Fields
from imitate.envs.spaces import beyond, kind
from imitate.errors import InputError
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import load_policy, save_policy
from imitate.training.execute import execute
from imitate.training.experiment import Experiment

BARE = spaces.Box(-np.inf, np.inf, (4,), np.float64)  # as a table or robomimic's file gives CartPole's


def policy_of(folder: Path, observations: Any = BARE, actions: Any = None, **architecture: Any) -> Path:
    """A policy's folder."""
    save_policy(folder, ActorPolicy(observations, actions or spaces.Discrete(2), **architecture))
    return folder


def of_floats(dtype: Any, goals: int = 2) -> Fields:
    return Fields(
        {"goal": spaces.Box(-1, 1, (goals,), dtype), "hand": spaces.Dict(arm=spaces.Box(-9, 9, (3,), dtype))}
    )


def test_kinds_leave_out_bounds_and_the_width_of_floats() -> None:
    cartpole = gym.make("CartPole-v1").observation_space
    assert kind(BARE) == kind(cartpole) == "Box(4,) of floats"
    assert kind(of_floats(np.float64)) == kind(of_floats(np.float32))
    assert kind(spaces.Discrete(2)) == kind(spaces.Discrete(2, dtype=np.int32)) == "Discrete(2)"
    assert kind(spaces.MultiBinary(4)) == kind(spaces.MultiBinary([4])) == "MultiBinary([4])"
    parts = [spaces.MultiDiscrete([2, 3], dtype=dtype) for dtype in (np.int64, np.int32)]
    assert kind(parts[0]) == kind(parts[1]) == "MultiDiscrete([2, 3])"
    unlike = [
        spaces.Box(0, 255, (4,), np.uint8),
        spaces.Box(-1, 1, (3,)),
        spaces.Discrete(4),
        spaces.Discrete(4, start=1),
        of_floats(np.float32),
        of_floats(np.float32, goals=3),
    ]
    assert len({kind(space) for space in [BARE, *unlike]}) == 7


def test_rounding_a_bound_is_not_beyond_it() -> None:
    def unit(high: float, dtype: Any = np.float32) -> spaces.Box:
        return spaces.Box(-high, high, (1,), dtype)

    assert beyond(unit(2.0), unit(1.0))
    assert not beyond(unit(1.0), unit(2.0))
    assert not beyond(spaces.Box(-2, 2, (3,)), spaces.Box(-1, 1, (2,)))  # its answers will be refused
    assert not beyond(unit(float(np.float32(0.1)), np.float64), unit(0.1))
    assert not beyond(unit(0.1, np.float64), unit(0.1))


def test_rows_of_other_floats_give_the_same_actions() -> None:
    policy = ActorPolicy(of_floats(np.float64), spaces.Discrete(3))
    rows = np.zeros(5, of_floats(np.float32).dtype)
    rows["goal"], rows["hand"]["arm"] = np.arange(10).reshape(5, 2), 4
    wide = rows.astype(of_floats(np.float64).dtype)
    np.testing.assert_array_equal(policy.act(rows), policy.act(wide))
    with pytest.raises(InputError, match="wanted numbers of shape"):
        policy.act(np.zeros(5, of_floats(np.float32, goals=3).dtype))


def test_actions_are_clipped_to_the_environments_bounds() -> None:
    class Pushes:
        action_space = spaces.Box(-3, 3, (1,), np.float64)

        def act(self, obs: Any, deterministic: bool = True) -> Any:  # noqa: ARG002
            return obs.astype(np.float64)

    obs = np.float32([[-3], [0.5], [2]])
    ask = asking(Pushes(), spaces.Box(-1, 1, (1,), np.float32))
    assert ask(obs).tolist() == [[-1], [0.5], [1]]
    assert ask(obs).dtype == np.float32
    assert asking(Pushes(), spaces.Box(-4, 4, (1,), np.float32))(obs).tolist() == [[-3], [0.5], [2]]


def test_a_clone_of_float64_is_measured_and_is_an_expert(tmp_path: Path) -> None:
    policy = policy_of(tmp_path / "policy")
    assert main(["evaluate", str(policy), "--env", "CartPole-v1", "--episodes", "2"]) == 0
    (tmp_path / "config.json").write_text('{"algorithm": "bc", "env_id": "MyRobot-v0"}')
    few = {"iterations": 2, "updates_per_iteration": 5, "final_updates": 5}
    dagger = Experiment.create("dagger", "CartPole-v1", expert=str(tmp_path), budget=200, hyperparameters=few)
    execute(dagger, tmp_path / "dagger")
    assert load_policy(tmp_path / "dagger").observation_space.dtype == np.float32


def tuned(env_id: str, init: Path, out: Path) -> ActorPolicy:
    """PPO from another policy, with a rate at which it learns nothing."""
    settings = {"learning_rate": 1e-30}
    execute(
        Experiment.create("ppo", env_id, budget=64, eval_every=0, init=str(init), hyperparameters=settings),
        out,
    )
    return load_policy(out)


def test_a_clone_of_float64_is_fine_tuned(tmp_path: Path) -> None:
    init = policy_of(tmp_path / "policy", normalize_obs=True)
    after = tuned("CartPole-v1", init, tmp_path / "ppo")
    obs = np.random.default_rng(0).normal(size=(100, 4))
    np.testing.assert_array_equal(after.act(obs), load_policy(init).act(obs))
    assert after.observation_space == gym.make("CartPole-v1").observation_space


def test_fine_tuning_keeps_the_scale_of_actions_within_the_environments_bounds(tmp_path: Path) -> None:
    def init(name: str, high: float) -> Path:
        actions = spaces.Box(-high, high, (1,), np.float64)
        return policy_of(tmp_path / name, spaces.Box(-9, 9, (3,), np.float64), actions)

    narrow = init("narrow", 1.5)  # Pendulum's torque is at most 2
    after = tuned("Pendulum-v1", narrow, tmp_path / "ppo")
    assert after.action_space == spaces.Box(-1.5, 1.5, (1,), np.float32)
    obs = np.random.default_rng(0).normal(size=(100, 3))
    np.testing.assert_allclose(after.act(obs), load_policy(narrow).act(obs), rtol=1e-6)
    with pytest.raises(InputError, match=r"acts in Box\(-3.0, 3.0, .* beyond Box\(-2.0, 2.0, .*start from"):
        tuned("Pendulum-v1", init("wide", 3.0), tmp_path / "beyond")
    with pytest.raises(
        InputError, match=r"the policy of .* has observation_space Box\(3,\) of floats, that of"
    ):
        tuned("CartPole-v1", narrow, tmp_path / "other")
