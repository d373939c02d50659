"""Learners check their configs, environments, files and policies before they use them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from tiny import record

from imitate import (
    BC,
    DQN,
    GAIL,
    PPO,
    SQIL,
    ActorPolicy,
    BCConfig,
    DAgger,
    DAggerConfig,
    DemoInfo,
    DemoReader,
    DemoWriter,
    DQNConfig,
    GAILConfig,
    PPOConfig,
    SQILConfig,
    load_expert,
)
from imitate.algorithms import ALGORITHMS
from imitate.envs.make import make_env
from imitate.envs.spaces import beyond
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError


def envs_of(*env_ids: str) -> SyncVecEnv:
    return SyncVecEnv([lambda env_id=env_id: make_env(env_id) for env_id in env_ids])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_another_config_is_refused_by_each_learner(name: str) -> None:
    algorithm = ALGORITHMS[name]
    for given, got in (({}, "dict"), (algorithm.config, "the class "), (None, "NoneType")):
        with pytest.raises(InputError, match=rf"^\w+ takes {algorithm.config.__name__}, got {got}"):
            algorithm.learner(given)


@pytest.mark.parametrize("make", [gym.make, gym.make_vec, str])
def test_environments_that_are_no_vec_env_are_refused(make: Any) -> None:
    with pytest.raises(
        InputError, match=r"^envs must be a vector environment .*SyncVecEnv.* of imitate.datasets"
    ):
        DQN(DQNConfig(), envs=make("CartPole-v1"), seed=0)


def test_what_is_forgotten_is_named_by_python() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'config'"):
        DQN(envs=envs_of("CartPole-v1"), seed=0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'seed'"):
        DQN(DQNConfig(), envs=envs_of("CartPole-v1"))  # type: ignore[call-arg]


class Passing:
    """A wrapper that passes everything on."""

    def __init__(self, envs: SyncVecEnv) -> None:
        self._envs = envs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._envs, name)


def test_a_wrapper_of_a_vec_env_is_one() -> None:
    made: Any = (partial(make_env, "CartPole-v1") for _ in range(2))
    assert DQN(DQNConfig(), envs=Passing(SyncVecEnv(made)), seed=0).sampler.envs.num_envs == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["gpu", None])
def test_a_device_that_is_not_here_is_refused(device: Any) -> None:
    with pytest.raises(InputError, match=rf"^torch can't use device '{device}' here: take 'cpu'"):
        DQN(DQNConfig(), envs=envs_of("CartPole-v1"), seed=0, device=device)


def test_environments_side_by_side_have_the_same_spaces() -> None:
    with pytest.raises(InputError, match=r"must have the same spaces, got .*Box\(3,\).*Box\(4,\)"):
        envs_of("CartPole-v1", "Pendulum-v1")
    with pytest.raises(
        InputError, match=r"takes functions that make an environment, got .'CartPole-v1'.: give"
    ):
        SyncVecEnv(["CartPole-v1"])  # type: ignore[list-item]


def test_files_are_opened_and_of_the_environments_spaces(tmp_path: Path) -> None:
    path, envs = record(tmp_path, "Pendulum-v1"), envs_of("CartPole-v1")
    with pytest.raises(
        InputError, match=r"^demos must be of class DemoReader, got str: open their file with"
    ):
        BC(BCConfig(), demos=str(path), seed=0)  # type: ignore[arg-type]
    demos = DemoReader(path)
    for learner, config in ((SQIL, SQILConfig()), (GAIL, GAILConfig())):
        with pytest.raises(
            InputError, match=r"^demos of other environments: their observation_space is Box\(3,\)"
        ):
            learner(config, envs=envs, demos=demos, seed=0)
    pendulum = make_env("Pendulum-v1")
    info = DemoInfo("Pendulum-v1", pendulum.observation_space, pendulum.action_space)
    expert = load_expert("CartPole-v1")
    with DemoWriter(tmp_path / "labels.h5", info, expert_actions=True) as store:
        for given, match in (
            (store, "^store of other environments"),
            (demos, "^store must be of class DemoWriter"),
        ):
            with pytest.raises(InputError, match=match):
                DAgger(DAggerConfig(), envs=envs, expert=expert, store=given, seed=0)  # type: ignore[arg-type]
    seen = make_env("CartPole-v1").observation_space
    for other, match in (
        (ActorPolicy(pendulum.observation_space, pendulum.action_space), "^policy of other environments: "),
        (
            ActorPolicy(seen, gym.spaces.Discrete(3)),
            r"their action_space is Discrete\(3\), that of envs Disc",
        ),
        ("run", "^policy must be of class Actor"),
    ):
        with pytest.raises(InputError, match=match):
            PPO(PPOConfig(), envs=envs, policy=other, seed=0)  # type: ignore[arg-type]


class Half(gym.ActionWrapper[Any, Any, Any]):
    """Pendulum with half the torque, whose actions are within [-1, 1]."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def action(self, action: Any) -> Any:
        return action


def test_bounds_of_actions_are_those_of_the_environments(tmp_path: Path) -> None:
    """Demonstrations from other bounds would be cloned to another scale. A policy may keep to a part of the actions."""
    demos, pendulum = DemoReader(record(tmp_path, "Pendulum-v1")), make_env("Pendulum-v1")
    half, whole = SyncVecEnv([lambda: Half(make_env("Pendulum-v1"))]), envs_of("Pendulum-v1")
    refused = r"^{} of other environments: their actions are in Box\(-2.0, 2.0, .*\), those of envs in Box\(-1.0, 1.0,"
    with pytest.raises(InputError, match=refused.format("demos")):
        GAIL(GAILConfig(), envs=half, demos=demos, seed=0)
    policies = [ActorPolicy(pendulum.observation_space, each.single_action_space) for each in (half, whole)]
    with pytest.raises(InputError, match=refused.format("policy")):
        PPO(PPOConfig(), envs=half, policy=policies[1], seed=0)
    PPO(PPOConfig(), envs=whole, policy=policies[0], seed=0)


@pytest.mark.parametrize(("one", "other"), [(np.float32, np.float64), (np.float64, np.float32)])
def test_bounds_that_differ_by_rounding_are_alike(one: type[np.floating], other: type[np.floating]) -> None:
    """0.4 in single precision is 0.4000000059604645."""
    boxes = [gym.spaces.Box(-0.4, 0.4, (1,), dtype) for dtype in (one, other)]
    assert not beyond(*boxes)
    assert beyond(gym.spaces.Box(-0.4, 0.5, (1,), one), boxes[1])


FROM_ACTIONS = [
    name for name, each in ALGORITHMS.items() if "demos" in (*each.needs, *each.optional) and name != "gaifo"
]


@pytest.mark.parametrize("name", FROM_ACTIONS)
def test_demonstrations_have_actions_and_at_least_one_is_named(name: str, tmp_path: Path) -> None:
    """Actions that were not recorded are refused; what stands in their place was imitated before."""
    algorithm = ALGORITHMS[name]
    handed: dict[str, Any] = {"seed": 0}
    if "envs" in algorithm.needs:
        handed["envs"] = envs_of("Pendulum-v1")
    with DemoReader(record(tmp_path, "Pendulum-v1")) as demos:
        with pytest.raises(InputError, match=r"^episodes names none"):
            algorithm.learner(algorithm.config(), demos=demos, episodes=np.array([], int), **handed)
        demos.info = replace(demos.info, has_actions=False)
        with pytest.raises(
            InputError, match=r"\.h5 holds observations without the actions that .*: use gaifo$"
        ):
            algorithm.learner(algorithm.config(), demos=demos, **handed)
