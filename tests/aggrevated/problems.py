"""Problems for AggreVaTeD that a reader can solve by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.aggrevated.learner import AggreVaTeD
from imitate.aggrevated.trial import Trial, TrialConfig
from imitate.aggrevated.variants.learner import Variant
from imitate.configs.variants import VariantConfig
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv


class Chain(gym.Env[Any, Any]):
    """Two states, A, A, B, A, A, B, ...; the right action is 0 in A and 1 in B. A mistake costs 1 in A, 10 in B.

    The two differ by too little for a small network to tell, so it must make one of the mistakes.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:  # noqa: ARG002
        self._steps = 0
        return self._obs(), {}

    def _obs(self) -> Array:
        return np.array([1e-6 if self._steps % 3 == 2 else 0.0], np.float32)

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        cost = (0.0 if action == 1 else 10.0) if self._steps % 3 == 2 else float(action)
        self._steps += 1
        return self._obs(), -cost, False, self._steps == 30, {}


class ChainOracle:
    """The values of the chain's actions, less the value of the state. With `sign` -1 the critic has them the wrong way
    round."""

    greedy = False

    def __init__(self, sign: float = 1.0) -> None:
        self.sign = sign

    def q_all(self, obs: Tensor) -> Tensor:
        in_b = obs > 5e-7  # (B, 1)
        return self.sign * torch.where(in_b, torch.tensor([-10.0, 0.0]), torch.tensor([0.0, -1.0]))

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        return self.heads(obs, actions).mean(0)

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        return self.q_all(obs).gather(1, actions.long().reshape(-1, 1)).T


class Bowl:
    """Continuous identity: the value of an action is minus its squared distance from the observation."""

    gamma, reward_scale, greedy = 0.0, 1.0, False

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        return -(actions - obs).square().sum(-1)

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        return self.q(obs, actions).reshape(1, -1)

    def q_all(self, obs: Tensor) -> Tensor:
        raise NotImplementedError


class Same:
    """Discrete identity: the action that names the observation is worth 1 more."""

    gamma, reward_scale, greedy = 0.0, 1.0, False

    def q_all(self, obs: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(obs.long().flatten(), 3).float()

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        return self.heads(obs, actions).mean(0)

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        return (obs.flatten() == actions.flatten()).float()[None]


gym.register("TwoStateChain-v0", entry_point=Chain)


def chain_expert(obs: Array) -> Array:
    return (obs[:, 0] > 5e-7).astype(np.int64)


def names(config: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(config)}


@contextmanager
def learning(
    folder: Path,
    env_id: str,
    expert: Any,
    oracle: Any = None,
    *,
    num_envs: int = 4,
    seed: int = 0,
    kind: Any = None,
    **fields: Any,
) -> Iterator[Any]:
    """A learner of this kind; by default AggreVaTeD, or its variant where the fields are the variants'."""
    envs = SyncVecEnv([partial(make_env, env_id)] * num_envs)
    info = DemoInfo(env_id, envs.single_observation_space, envs.single_action_space)
    if isinstance(oracle, str):
        fields, oracle = fields | {"oracle": oracle}, None
    final = {"final_updates": fields.get("updates_per_iteration", 100)}
    kind = kind or (Trial if fields.keys() <= names(TrialConfig) else Variant)
    config = (TrialConfig if kind is Trial else VariantConfig)(**final | fields)
    path = folder / f"{len(list(folder.iterdir()))}.h5"
    with DemoWriter(path, info, expert_actions=True) as store:
        yield kind(
            config, envs=envs, expert=expert, store=store, seed=seed, **{"oracle": oracle} if oracle else {}
        )


def aggrevated(learner: Any) -> AggreVaTeD:
    """The AggreVaTeD inside of a trial or a variant."""
    inner: AggreVaTeD = learner.learner if isinstance(learner, Trial) else learner.core
    return inner


def trained(*args: Any, **fields: Any) -> Any:
    with learning(*args, **fields) as learner:
        while not learner.done:
            learner.metrics = learner.step()
    return learner
