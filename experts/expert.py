"""An expert: a policy that knows its environment, its normalisation, its origin, and what it is worth."""

from __future__ import annotations

import hashlib
import logging
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from torch import Tensor

from imitate.datasets.environments import make_env, resolve_env_id
from imitate.datasets.errors import InputError, did_you_mean
from imitate.datasets.trajectory import Array
from imitate.experts.acting import Actor
from imitate.experts.folder import read_folder, save_expert
from imitate.experts.hub import Found, as_dict, companions, from_hub, from_zoo, zoo_entries
from imitate.experts.measure import Measured, measure, verdict
from imitate.experts.networks import Networks, PolicySpec, build_networks
from imitate.experts.q_star import CriticOracle, QOracle
from imitate.experts.sb3 import Archive, discount, policy_spec, read_archive, stored_space
from imitate.experts.vecnormalize import Normalisation, read_vecnormalize

__all__ = ["Expert", "known_experts", "load_expert", "save_expert"]

logger = logging.getLogger(__name__)

_BUNDLED = Path(__file__).parent / "bundled"


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

    def measure(self, episodes: int = 20, seed: int = 20_000) -> Measured:
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


def known_experts() -> list[str]:
    """The specs that are at hand without the network: bundled experts, then the zoo's."""
    # A folder CartPole-v1-ppo is the spec CartPole-v1:ppo.
    folders = sorted(path.parent.name for path in _BUNDLED.glob("*/expert.json"))
    bundled = [re.sub(r"(-v\d+)-", r"\1:", name) for name in folders]
    return bundled + [f"zoo:{entry}" for entry in zoo_entries()]


def load_expert(
    spec: str | Path, *, env_id: str | None = None, env_kwargs: Mapping[str, Any] | None = None
) -> Expert:
    """The expert that `spec` names; no pickle is executed on the way.

    spec    a bundled expert, `CartPole-v1` or `CartPole-v1:ppo`; `zoo:ALGO/ENV` in the rl-trained-agents
            folder IMITATE_ZOO_DIR; `hub:ORG/REPO[@revision]`; an SB3 `.zip`; or a folder that `imitate expert
            train` wrote
    env_id, env_kwargs   of a zip that doesn't say, or to replace what it says

    Raises InputError where there is no such expert, its file is damaged, it can't be rebuilt without running
    its code, or its spaces don't match the environment's.
    """
    spec = str(spec)
    if spec.startswith("zoo:"):
        return _from_found(from_zoo(spec.removeprefix("zoo:")), spec, env_id, env_kwargs)
    if spec.startswith("hub:"):
        return _from_found(from_hub(spec.removeprefix("hub:")), spec, env_id, env_kwargs)
    bundled = _BUNDLED / spec.replace(":", "-").replace("/", "-")
    if (bundled / "expert.json").is_file():
        return _from_folder(bundled, spec)
    if Path(spec).is_dir():
        return _from_folder(Path(spec), spec)
    if spec.endswith(".zip"):
        return _from_found(companions(Path(spec)), spec, env_id, env_kwargs)
    raise InputError(
        f"no expert {spec!r}{did_you_mean(spec, known_experts())}: "
        "wanted a bundled name, zoo:ALGO/ENV, hub:ORG/REPO, an SB3 .zip or an expert's folder"
    )


def _from_found(
    found: Found, source: str, env_id: str | None, env_kwargs: Mapping[str, Any] | None
) -> Expert:
    # `module:Env-v0` makes gymnasium import the module: a downloaded file must not choose what is imported.
    imports = env_id is None and ":" in (found.env_id or "")
    env_id = env_id or found.env_id
    if env_id is None:
        raise InputError(
            f"{source} doesn't say which environment it is for: name the file ENV-v0.zip or give the env id"
        )
    stored_id, env_kwargs = env_id, dict(env_kwargs if env_kwargs is not None else found.env_kwargs)
    archive = read_archive(found.path)
    if imports:
        env, reason = (
            None,
            f"its file names a module to import; if you trust {env_id!r}, give it as the env id",
        )
    else:
        env_id, env, reason = _environment(env_id, env_kwargs)
    trained = _trained_spaces(archive, env, source, env_id)
    wrapped = _wrappers(found.config)
    time_feature = any(name.endswith("TimeFeatureWrapper") for name in wrapped)
    raw = _without_time_feature(trained) if time_feature else trained
    if env is not None and (differences := _differences(raw, env)):
        if not wrapped and stored_id == env_id:
            raise InputError(f"{source} is not for {env_id}: {differences}")
        cause = (
            f"it was trained with {', '.join(wrapped)}" if wrapped else f"{env_id} is not like {stored_id}"
        )
        env, reason = None, f"{cause}: {differences}"
    if env is None:
        logger.warning("%s opens, but can't be run here: %s", source, reason)
    elif time_feature:
        logger.warning("%s was trained with the time left as an extra observation: it is held at 0", source)

    keys = list(trained[0].spaces) if isinstance(trained[0], spaces.Dict) else []
    normalisation = read_vecnormalize(found.vecnormalize.read_bytes(), keys) if found.vecnormalize else None
    if normalisation is None and _normalised(found.config):
        logger.warning(
            "%s was trained on normalised observations, but has no vecnormalize.pkl: expect little", source
        )
    policy = policy_spec(archive, *trained, time_feature=time_feature)
    published, std = _published(policy.algorithm, stored_id, found, source)
    return Expert(
        env_id=env_id,
        env_kwargs=env_kwargs,
        algorithm=policy.algorithm,
        source=source,
        sha256=hashlib.sha256(found.path.read_bytes()).hexdigest(),
        observation_space=(env or raw)[0],
        action_space=(env or raw)[1],
        spec=policy,
        networks=build_networks(policy, archive.tensors, normalisation),
        normalisation=normalisation,
        gamma=discount(archive),
        published_return=published,
        published_std=std,
        revision=found.revision,
        runnable=env is not None,
    )


Spaces = tuple[spaces.Space[Any], spaces.Space[Any]]


def _environment(env_id: str, env_kwargs: Mapping[str, Any]) -> tuple[str, Spaces | None, str]:
    """The registered id and the environment's spaces; or no spaces, and why it can't be made here."""
    try:
        env_id = resolve_env_id(env_id)
        env = make_env(env_id, env_kwargs)
    except (InputError, gym.error.Error) as error:
        return env_id, None, " ".join(str(error).split())
    made = env.observation_space, env.action_space
    env.close()
    return env_id, made, ""


def _trained_spaces(archive: Archive, env: Spaces | None, source: str, env_id: str) -> Spaces:
    """As the archive stores them; the environment's where its pickles hold something else."""
    stored = [stored_space(archive, name) for name in ("observation_space", "action_space")]
    observations, actions = stored if env is None else (stored[0] or env[0], stored[1] or env[1])
    if observations is None or actions is None:
        raise InputError(
            f"the spaces in {source} are unreadable as data, and {env_id} is not here to tell them"
        )
    return observations, actions


def _without_time_feature(trained: Spaces) -> Spaces:
    space, actions = trained
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return spaces.Box(space.low[:-1], space.high[:-1], dtype=space.low.dtype.type), actions
    return trained


def _alike(trained: spaces.Space[Any], env: spaces.Space[Any]) -> bool:
    """Same kind and size. Bounds may differ: they changed between versions that are otherwise the same."""
    if isinstance(trained, spaces.Discrete) and isinstance(env, spaces.Discrete):
        return int(trained.n) == int(env.n)
    if isinstance(trained, spaces.Box) and isinstance(env, spaces.Box):
        channels_first = (*env.shape[2:], *env.shape[:2]) if len(env.shape) == 3 else env.shape
        return trained.shape in (env.shape, channels_first)
    return type(trained) is type(env) and trained.shape == env.shape


def _differences(trained: Spaces, env: Spaces) -> str:
    """Empty where both are alike."""
    pairs = zip(("observes", "acts in"), trained, env, strict=True)
    return ", ".join(f"it {verb} {a}, not {b}" for verb, a, b in pairs if not _alike(a, b))


def _wrappers(config: Mapping[str, Any]) -> list[str]:
    """Wrappers of the zoo's `env_wrapper` and frame stacks, which change observations."""
    named = config.get("env_wrapper")
    each = named if isinstance(named, list) else [named] if named else []
    names = [str(next(iter(entry), "")) if isinstance(entry, dict) else str(entry) for entry in each]
    return names + (["frame_stack"] if config.get("frame_stack") else [])


def _normalised(config: Mapping[str, Any]) -> bool:
    normalize = config.get("normalize")
    return normalize is True or bool(normalize and as_dict(normalize).get("norm_obs", True))


def _published(algorithm: str, env_id: str, found: Found, source: str) -> tuple[float | None, float | None]:
    """Mean and standard deviation that the makers report: the zoo's benchmark, or results.json on the hub."""
    if source.startswith("zoo:"):
        table = tomllib.loads((resources.files("imitate.experts") / "published.toml").read_text("utf-8"))
        reported = list(table.get(algorithm.lower(), {}).get(env_id, []))
    else:
        reported = [found.results.get("mean_reward"), found.results.get("std_reward")]
    mean, std, *_ = [float(figure) if isinstance(figure, int | float) else None for figure in reported] + [
        None,
        None,
    ]
    return mean, std


def _from_folder(folder: Path, source: str) -> Expert:
    stored = read_folder(folder)
    env_id, env, reason = _environment(stored.env_id, stored.env_kwargs)
    if env is None:
        logger.warning("%s opens, but can't be run here: %s", source, reason)
    elif differences := _differences((stored.spec.observation_space, stored.spec.action_space), env):
        raise InputError(f"{source} is not for {env_id}: {differences}")
    return Expert(
        env_id=env_id,
        env_kwargs=stored.env_kwargs,
        algorithm=stored.spec.algorithm,
        source=source,
        sha256=stored.sha256,
        observation_space=stored.spec.observation_space,
        action_space=stored.spec.action_space,
        spec=stored.spec,
        networks=build_networks(stored.spec, stored.tensors, stored.normalisation),
        normalisation=stored.normalisation,
        gamma=stored.gamma,
        published_return=stored.measured.get("mean"),
        published_std=stored.measured.get("std"),
        runnable=env is not None,
        training=stored.training,
    )
