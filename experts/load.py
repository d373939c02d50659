"""The expert that a spec names: bundled, from the zoo, the hub, a zip or a folder."""

from __future__ import annotations

import hashlib
import logging
import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from imitate.envs.make import make_env, resolve_env_id
from imitate.errors import InputError, did_you_mean
from imitate.experts.expert import Expert
from imitate.experts.folder import read_folder
from imitate.experts.networks import build_networks
from imitate.experts.sb3 import Archive, discount, policy_spec, read_archive, stored_space
from imitate.experts.sources import Found, as_dict, companions, from_hub, from_zoo, zoo_entries
from imitate.experts.vecnormalize import read_vecnormalize

__all__ = ["known_experts", "load_expert"]

logger = logging.getLogger(__name__)

_BUNDLED = Path(__file__).parent / "bundled"


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
        return _from_folder(bundled, spec, env_id, env_kwargs)
    if Path(spec).is_dir():
        return _from_folder(Path(spec), spec, env_id, env_kwargs)
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


def _from_folder(
    folder: Path, source: str, env_id: str | None, env_kwargs: Mapping[str, Any] | None
) -> Expert:
    stored = read_folder(folder)
    env_kwargs = dict(stored.env_kwargs if env_kwargs is None else env_kwargs)
    env_id, env, reason = _environment(env_id or stored.env_id, env_kwargs)
    if env is None:
        logger.warning("%s opens, but can't be run here: %s", source, reason)
    elif differences := _differences((stored.spec.observation_space, stored.spec.action_space), env):
        raise InputError(f"{source} is not for {env_id}: {differences}")
    return Expert(
        env_id=env_id,
        env_kwargs=env_kwargs,
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
