"""An expert: a policy that knows its environment, its normalisation, its origin and its measured return."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gymnasium import spaces
from torch import Tensor

from imitate.datasets.trajectory import Policy
from imitate.envs.fields import as_fields, batch_of
from imitate.envs.seeds import TEST_SEED
from imitate.envs.spaces import Array
from imitate.envs.trust import import_typed
from imitate.errors import InputError
from imitate.experts.measure import Measured, measure, verdict
from imitate.experts.sb3.vecnormalize import Normalisation
from imitate.experts.values.critics import QOracle
from imitate.own_code import own_code

__all__ = ["Demonstrator", "Expert"]

logger = logging.getLogger(__name__)


class Demonstrator(Policy, Protocol):
    """A policy with seedable random actions."""

    def seed(self, seed: int) -> None: ...


@dataclass
class Expert:
    """A demonstrator on raw observations; `load_expert` makes one.

    env_id            registered id if the environment is installed, else the stored id (then not `runnable`)
    algorithm         PPO, A2C, TRPO, DQN, QRDQN, SAC, TD3, DDPG, TQC or ARS; the algorithm's name for one of our runs,
                      such as "dagger"; "controller" for bundled code; "custom" for a callable; "random"
    source, sha256    the spec it was loaded by, and the hash of its weights file (empty if it has none)
    revision          commit on the hub
    oracle            its own critic as Q*, or None (PPO, A2C, TRPO, ARS, imitators)
    state_values      V: raw observations (B, *obs_shape) -> (B,), or None; see `value`
    normalised_by     origin of the normalisation statistics, such as a vecnormalize.pkl; empty if there are none
    gamma             discount of its training, if its file says
    published_return  mean return reported by its authors, or None
    measured          result of `measure`
    reproducible      True if it always answers the same in the same states; False (unknown) for a user's own
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
    reproducible: bool = True
    measured: Measured | None = None
    training: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def normalisation_sha256(self) -> str:
        """Hash of its normalisation statistics; empty if there are none."""
        return "" if self.normalisation is None else self.normalisation.sha256

    @property
    def made_from(self) -> str:
        """Hashes of its weights and statistics, or of the code of an expert of your own, all of which may change under
        one name. Empty if there are none."""
        if self.algorithm != "custom":
            return f"{self.sha256} {self.normalisation_sha256}".strip()
        return own_code(import_typed(self.source))

    @property
    def has_value(self) -> bool:
        """True if it has state values; PPO, A2C and TRPO do."""
        return self.state_values is not None

    def act(self, obs: Any, deterministic: bool = True) -> Array:
        """Raw observations (N, *obs_shape) to actions (N, *action_shape) in the environment's units.

        A single observation (*obs_shape) gives a single action. Dict observations are dicts of arrays, or rows of a
        structured array, which is what the policy itself is given. `imitate.experts.sb3.acting.AgentPolicy` says what
        `deterministic` means for each algorithm. Samples come from the expert's own generator, which `seed` restarts.

        Raises InputError for observations of another shape, without a key, or with NaN.
        """
        batch, single = batch_of(as_fields(self.observation_space), obs)
        actions = self.policy.act(batch, deterministic=deterministic)
        return actions[0] if single else actions

    def predict(
        self,
        obs: Any,
        state: Any = None,
        episode_start: Any = None,  # noqa: ARG002
        deterministic: bool = True,
    ) -> tuple[Array, Any]:
        """`act` with Stable-Baselines3's arguments, deterministic by default; `state` is returned as it is, since no
        expert is recurrent."""
        return self.act(obs, deterministic=deterministic), state

    def seed(self, seed: int) -> None:
        """Seed the generator of stochastic actions."""
        self.policy.seed(seed)

    def value(self, obs: Tensor) -> Tensor:
        """V: raw observations (B, *obs_shape) -> (B,), for PPO, A2C and TRPO.

        Values are in units of the critic's rewards. If it was trained under VecNormalize, multiply by
        `normalisation.reward_scale` to get the environment's.

        Raises InputError for an algorithm without V.
        """
        if self.state_values is None:
            raise InputError(f"{self.algorithm} brings no state values; PPO, A2C and TRPO do")
        return self.state_values(obs)

    def measure(
        self, episodes: int = 20, seed: int = TEST_SEED, *, num_envs: int = 8, remeasure: bool = False
    ) -> Measured:
        """Measure the return over whole deterministic episodes, or take it from the cache unless `remeasure` is set.

        The result is kept in `measured` and logged with the published return, with a warning if it is far below that
        or no better than random.

        Raises InputError if the environment isn't installed.
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
            num_envs=num_envs,
            remeasure=remeasure,
        )
        logger.info("%s", self.describe())
        if self.algorithm != "random" and (warning := verdict(self.measured, self.published_return)):
            logger.warning("%s is %s", self.source, warning)
        return self.measured

    def describe(self) -> str:
        """One line: source, algorithm, environment, normalisation, measured and published return.

        Reports carry it to other machines, so it names files without their folders.
        """
        parts = [f"{self.source}: {self.algorithm} on {self.env_id}"]
        if self.normalised_by:
            parts.append(f"normalised by {Path(self.normalised_by).name}")
        if self.measured:
            m = self.measured
            parts.append(
                f"measured {m.mean:.1f} +- {m.std:.1f} in {m.episodes} episodes, random {m.random_mean:.1f}"
            )
        if self.published_return is not None:
            spread = "" if self.published_std is None else f" +- {self.published_std:.1f}"
            parts.append(f"published {self.published_return:.1f}{spread}")
        return ", ".join(parts)
