"""An expert: a policy that knows its environment, its normalisation, its origin, and what it is worth."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces
from torch import Tensor

from imitate.envs.seeds import TEST_SEED
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.experts.acting import Actor
from imitate.experts.critics import CriticOracle, QOracle
from imitate.experts.measure import Measured, measure, verdict
from imitate.experts.networks import Networks, PolicySpec
from imitate.experts.vecnormalize import Normalisation

__all__ = ["Expert"]

logger = logging.getLogger(__name__)


@dataclass
class Expert:
    """A trained agent on raw observations. `load_expert` makes one.

    env_id            registered id where the environment is installed, else the stored id (not `runnable`)
    algorithm         PPO, A2C, TRPO, DQN, QRDQN, SAC, TD3, DDPG, TQC or ARS
    source, sha256    the spec that found it, and the hash of its weights file; `revision` of the hub's commit
    oracle            its own critic as Q*, or None (PPO, A2C, TRPO, ARS)
    gamma             the discount that it was trained with, where its file says
    published_return  the mean return that its makers report, or None
    measured          what `measure` found here
    """

    env_id: str
    env_kwargs: dict[str, Any]
    algorithm: str
    source: str
    sha256: str
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    spec: PolicySpec = field(repr=False)
    networks: Networks = field(repr=False)
    normalisation: Normalisation | None = field(default=None, repr=False)
    gamma: float | None = None
    published_return: float | None = None
    published_std: float | None = None
    revision: str | None = None
    runnable: bool = True
    measured: Measured | None = None
    training: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._actor = Actor(self.spec, self.networks)
        self._rng = np.random.default_rng(0)
        has_q = self.networks.critics is not None or self.algorithm in ("DQN", "QRDQN")
        self.oracle: QOracle | None = None
        if has_q:
            scale = 1.0 if self.normalisation is None else self.normalisation.reward_scale
            gamma = 0.99 if self.gamma is None else self.gamma  # SB3's default
            self.oracle = CriticOracle(self.spec, self.networks, gamma=gamma, reward_scale=scale)

    def act(self, obs: Array, deterministic: bool = True) -> Array:
        """Raw observations (N, *obs_shape) to actions (N, *action_shape) in the environment's units.

        What `deterministic` means for each algorithm is said in `imitate.experts.acting.Actor`. Samples come
        from the expert's own generator; `seed` restarts it.
        """
        return self._actor.act(obs) if deterministic else self._actor.sample(obs, self._rng)

    def seed(self, seed: int) -> None:
        """Restart the generator that stochastic actions are drawn from."""
        self._rng = np.random.default_rng(seed)

    def value(self, obs: Tensor) -> Tensor:
        """V of raw observations (B, *obs_shape) -> (B,); PPO, A2C and TRPO. In the critic's rewards: where
        trained under VecNormalize, multiply by `normalisation.reward_scale` for the environment's.

        Raises InputError for an algorithm without V.
        """
        if self.networks.value is None:
            raise InputError(f"{self.algorithm} brings no state values; PPO, A2C and TRPO do")
        values: Tensor = self.networks.value(obs)
        return values.squeeze(-1)

    def measure(self, episodes: int = 20, seed: int = TEST_SEED) -> Measured:
        """Play whole deterministic episodes (or recall having done so), note the result in `measured`, log it
        beside the published return, and warn where it is far below that or no better than random.

        Raises InputError where the environment isn't installed.
        """
        if not self.runnable:
            raise InputError(f"{self.env_id} can't be run here, so {self.source} can't be measured")
        self.measured = measure(self, self.sha256, self.env_id, self.env_kwargs, episodes=episodes, seed=seed)
        logger.info("%s", self.describe())
        if warning := verdict(self.measured, self.published_return):
            logger.warning("%s is %s", self.source, warning)
        return self.measured

    def describe(self) -> str:
        """One line: who, where, measured and published return."""
        parts = [f"{self.source}: {self.algorithm} on {self.env_id}"]
        if self.measured:
            m = self.measured
            parts.append(
                f"measured {m.mean:.1f} +- {m.std:.1f} in {m.episodes} episodes, random {m.random_mean:.1f}"
            )
        if self.published_return is not None:
            spread = "" if self.published_std is None else f" +- {self.published_std:.1f}"
            parts.append(f"published {self.published_return:.1f}{spread}")
        return ", ".join(parts)
