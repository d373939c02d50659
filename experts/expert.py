"""An expert: a policy that knows its environment, its normalisation, its origin, and what it is worth."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from gymnasium import spaces
from torch import Tensor

from imitate.datasets.trajectory import Policy
from imitate.envs.seeds import TEST_SEED
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.experts.critics import QOracle
from imitate.experts.measure import Measured, measure, verdict
from imitate.experts.vecnormalize import Normalisation

__all__ = ["Demonstrator", "Expert"]

logger = logging.getLogger(__name__)


class Demonstrator(Policy, Protocol):
    """A policy whose samples can be repeated."""

    def seed(self, seed: int) -> None: ...


@dataclass
class Expert:
    """Whoever demonstrates, on raw observations. `load_expert` makes one.

    env_id            registered id where the environment is installed, else the stored id (not `runnable`)
    algorithm         PPO, A2C, TRPO, DQN, QRDQN, SAC, TD3, DDPG, TQC or ARS; of a run of ours its name, such as
                      "dagger"; "custom" of a callable; "random"
    source, sha256    the spec that found it, and the hash of its weights file, empty where it has none; `revision`
                      of the hub's commit
    oracle            its own critic as Q*, or None (PPO, A2C, TRPO, ARS, and all that are not SB3's)
    state_values      V of raw observations (B, *obs_shape) -> (B,), or None: see `value`
    normalised_by     where the statistics are from, such as a vecnormalize.pkl; empty where there are none
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
    policy: Demonstrator = field(repr=False)
    oracle: QOracle | None = field(default=None, repr=False)
    state_values: Callable[[Tensor], Tensor] | None = field(default=None, repr=False)
    normalisation: Normalisation | None = field(default=None, repr=False)
    normalised_by: str = ""
    gamma: float | None = None
    published_return: float | None = None
    published_std: float | None = None
    revision: str | None = None
    runnable: bool = True
    measured: Measured | None = None
    training: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def normalisation_sha256(self) -> str:
        """Of the statistics that its observations are normalised with; empty where there are none."""
        return "" if self.normalisation is None else self.normalisation.sha256

    @property
    def has_value(self) -> bool:
        """Whether it brings state values: PPO, A2C and TRPO do."""
        return self.state_values is not None

    def act(self, obs: Array, deterministic: bool = True) -> Array:
        """Raw observations (N, *obs_shape) to actions (N, *action_shape) in the environment's units.

        What `deterministic` means for each algorithm is said in `imitate.experts.acting.Actor`. Samples come
        from the expert's own generator; `seed` restarts it.
        """
        return self.policy.act(obs, deterministic=deterministic)

    def seed(self, seed: int) -> None:
        """Restart the generator that stochastic actions are drawn from."""
        self.policy.seed(seed)

    def value(self, obs: Tensor) -> Tensor:
        """V of raw observations (B, *obs_shape) -> (B,); PPO, A2C and TRPO. In the critic's rewards: where
        trained under VecNormalize, multiply by `normalisation.reward_scale` for the environment's.

        Raises InputError for an algorithm without V.
        """
        if self.state_values is None:
            raise InputError(f"{self.algorithm} brings no state values; PPO, A2C and TRPO do")
        return self.state_values(obs)

    def measure(self, episodes: int = 20, seed: int = TEST_SEED, *, remeasure: bool = False) -> Measured:
        """Play whole deterministic episodes (or recall having done so, unless `remeasure`), note the result in
        `measured`, log it beside the published return, and warn where it is far below that or no better than random.

        Raises InputError where the environment isn't installed.
        """
        if not self.runnable:
            raise InputError(f"{self.env_id} can't be run here, so {self.source} can't be measured")
        self.measured = measure(
            self,
            self.sha256 and f"{self.sha256} {self.normalisation_sha256}",
            self.env_id,
            self.env_kwargs,
            episodes=episodes,
            seed=seed,
            remeasure=remeasure,
        )
        logger.info("%s", self.describe())
        if warning := verdict(self.measured, self.published_return):
            logger.warning("%s is %s", self.source, warning)
        return self.measured

    def describe(self) -> str:
        """One line: who, where, normalised by what, measured and published return."""
        parts = [f"{self.source}: {self.algorithm} on {self.env_id}"]
        if self.normalised_by:
            parts.append(f"normalised by {self.normalised_by}")
        if self.measured:
            m = self.measured
            parts.append(
                f"measured {m.mean:.1f} +- {m.std:.1f} in {m.episodes} episodes, random {m.random_mean:.1f}"
            )
        if self.published_return is not None:
            spread = "" if self.published_std is None else f" +- {self.published_std:.1f}"
            parts.append(f"published {self.published_return:.1f}{spread}")
        return ", ".join(parts)
