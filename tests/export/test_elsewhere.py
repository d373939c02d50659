"""Policies in loops of other libraries, and of one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from test_export import POLICIES, VECTOR, policy_of

from imitate import NumpyPolicy, load_expert
from imitate.datasets.evaluation import evaluate
from imitate.envs.spaces import random_observations
from imitate.errors import InputError
from imitate.export.graphs import to_onnx
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy

OF_IMAGES_OR_PARTS = (
    *("pixels", "squashed pixels", "camera", "parts"),
    *("tuple", "last action", "two depths"),
)
NUMPY = [name for name in POLICIES if name not in OF_IMAGES_OR_PARTS]


@pytest.mark.parametrize("name", NUMPY)
def test_the_numpy_policy_is_the_policy(name: str) -> None:
    policy = policy_of(name)
    numpy_policy = NumpyPolicy(policy)
    obs = random_observations(policy.observation_space, 500, np.random.default_rng(0))
    wanted = policy.act(obs)
    found = numpy_policy.act(obs)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert numpy_policy.act(obs[:0]).shape == (0, *wanted.shape[1:])
    one, state = numpy_policy.predict(obs[3], None)
    assert state is None
    np.testing.assert_allclose(one, wanted[3], rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        policy.output.bias.add_(torch.randn(policy.output.bias.shape))
    np.testing.assert_array_equal(numpy_policy.act(obs), found)  # it is a copy


def test_what_a_numpy_policy_refuses() -> None:
    for name in ("pixels", "parts"):
        with pytest.raises(InputError, match="more than linear layers"):
            NumpyPolicy(policy_of(name))
    with pytest.raises(InputError, match=r"made of an ActorPolicy, such as learner\.policy.*, got Expert$"):
        NumpyPolicy(load_expert("CartPole-v1:ppo"))  # type: ignore[arg-type]
    policy = NumpyPolicy(policy_of("clipped"))
    for obs, said in ((np.full(5, np.nan), "NaN"), (np.zeros(4), r"shape \(4,\)")):
        with pytest.raises(InputError, match=said):
            policy.act(obs)
    with pytest.raises(InputError, match="deterministically only"):
        policy.act(np.zeros(5), deterministic=False)
    places = NumpyPolicy(ActorPolicy(gym.spaces.Discrete(4, start=1), gym.spaces.Discrete(2)))
    assert places.act([1, 4]).shape == (2,)
    for place in (0, 5):
        with pytest.raises(InputError, match="outside Discrete"):
            places.act([place])


class Shown(gym.Env[Any, Any]):
    """Ten random observations; the reward is 1 for an action of the space."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self._left = 10
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self._left -= 1
        inside = self.action_space.contains(np.asarray(action, self.action_space.dtype))
        return self._obs(), float(inside), self._left == 0, False, {}

    def _obs(self) -> Any:
        return self.observation_space.sample()


@pytest.mark.parametrize("name", POLICIES)
def test_stable_baselines3_evaluates_it(name: str) -> None:
    """One environment and two, in whole numbers, pictures and Dicts."""
    observations, actions, _ = POLICIES[name]

    def made() -> gym.Env[Any, Any]:
        return Monitor(Shown(observations, actions))

    for env in (made(), DummyVecEnv([made, made])):
        assert evaluate_policy(policy_of(name), env, n_eval_episodes=3) == (10.0, 0.0)


def test_stable_baselines3_gets_our_figure() -> None:
    """An expert's return, as we measure it ourselves, and without its `Monitor`."""
    expert = load_expert("CartPole-v1:ppo")
    assert evaluate_policy(expert, gym.make("CartPole-v1"), n_eval_episodes=2, warn=False) == (500.0, 0.0)
    assert evaluate(expert, "CartPole-v1", episodes=2).mean == 500.0


def rollout(policy: Callable[..., tuple[Any, Any]], venv: VecEnv) -> float:
    """The calls that `rollout.rollout` of `imitation` makes to a function of (observations, states, episode starts)."""
    total, states, obs = 0.0, None, venv.reset()
    starts = np.ones(venv.num_envs, dtype=bool)
    for _ in range(10):
        actions, states = policy(obs, states, starts)
        obs, rewards, starts, _ = venv.step(actions)
        total += float(rewards.sum())
    return total


@pytest.mark.parametrize("name", ["clipped", "discrete", "several"])
def test_predict_is_a_policy_of_imitation(name: str) -> None:
    observations, actions, _ = POLICIES[name]
    venv = DummyVecEnv([lambda: Shown(observations, actions)] * 2)
    for policy in (policy_of(name), NumpyPolicy(policy_of(name))):
        assert rollout(policy.predict, venv) == 20.0


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_saturated_actions_of_onnx_stay_within_the_bounds(kind: Any, tmp_path: Path) -> None:
    """The tanh of onnxruntime gives 1.0000001, which would leave the first two of these ranges."""
    onnxruntime = pytest.importorskip("onnxruntime")
    actions = spaces.Box(np.array([-2, -0.5, 1], kind), np.array([0.5, 3, 1], kind), dtype=kind)
    with seeded(0):
        policy = ActorPolicy(VECTOR, actions, head="squashed")
    with torch.no_grad():
        policy.output.weight.mul_(40)
    to_onnx(policy, tmp_path / "p.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "p.onnx")
    obs = np.random.default_rng(0).normal(size=(20_000, 5)).astype(np.float32)
    found = session.run(None, {"observation": obs})[0]
    assert found.min(0).tolist() == actions.low.tolist()
    assert found.max(0).tolist() == actions.high.tolist()
