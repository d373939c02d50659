"""Makes an expert of an SB3 zip and its companions."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gymnasium import spaces
from torch import Tensor

from imitate.datasets.storage.contain import check_env
from imitate.envs.make import make_env, resolve_env_id
from imitate.envs.seeds import TEST_SEED
from imitate.errors import InputError, one_line
from imitate.experts.expert import Expert
from imitate.experts.measure import measure
from imitate.experts.published import published
from imitate.experts.sb3.acting import AgentPolicy
from imitate.experts.sb3.archive import Archive, discount, policy_spec, read_archive, stored_space
from imitate.experts.sb3.goals import seen_of_goals
from imitate.experts.sb3.layers import ONE, ZERO
from imitate.experts.sb3.mujoco import Inputs, on_v5
from imitate.experts.sb3.networks import PolicySpec, build_networks
from imitate.experts.sb3.vecnormalize import Normalisation, read_vecnormalize
from imitate.experts.sb3.zoo_options import is_normalised, time_feature_of, wrappers_of
from imitate.experts.sources import Found
from imitate.experts.values.critics import CriticOracle
from imitate.files import read_bytes

__all__ = ["Asked", "Spaces", "agent_parts", "differences_of", "from_zip", "spaces_here"]

logger = logging.getLogger(__name__)

_LARGEST_STATISTICS = 16 << 20  # bytes of a vecnormalize.pkl


@dataclass(frozen=True)
class Asked:
    """The arguments of `load_expert`."""

    spec: str
    env_id: str | None
    env_kwargs: Mapping[str, Any] | None
    vecnormalize: str | None


def from_zip(found: Found, asked: Asked) -> Expert:
    time_feature = time_feature_of(found.config)
    if time_feature is None or asked.env_kwargs is not None:
        if time_feature is not None and not (asked.env_kwargs or {}).get("time_feature"):
            logger.warning(
                "%s was trained with the time left as an observation, which is held at 1", asked.spec
            )
        return _agent(found, asked, time_feature=time_feature is not None)
    # The file doesn't say which option performs better, so both are measured; ties go to counting down.
    held = _agent(found, asked, time_feature=True)
    counting = {**held.env_kwargs, "time_feature": True}
    if not time_feature or not held.runnable:
        return held
    try:
        counted = _agent(found, replace(asked, env_kwargs=counting), time_feature=True)
    except InputError:  # no flat observations, or no time limit
        return held
    return counted if _is_better(counted, held) else held


def _is_better(counted: Expert, held: Expert) -> bool:
    """True if counting down is at least as good as the constant, up to two standard errors of 20 episodes."""
    weights = f"{counted.sha256} {counted.normalisation_sha256}"
    down, constant = (
        measure(each, weights, each.env_id, each.env_kwargs, episodes=20, seed=TEST_SEED)
        for each in (counted, held)
    )
    spread = math.sqrt((down.std**2 + constant.std**2) / down.episodes)
    better = down.mean >= constant.mean - 2 * spread
    logger.warning(
        "%s was trained with the time left as an observation: it gets %.1f where that counts down and %.1f where it "
        "is held at 1, so it %s",
        counted.source,
        down.mean,
        constant.mean,
        "counts down" if better else "is held at 1",
    )
    return better


def _agent(found: Found, asked: Asked, *, time_feature: bool) -> Expert:
    """The SB3 agent of a zip: read, placed in an environment, built."""
    if asked.env_id is None and found.env_id is None:
        raise InputError(
            f"{asked.spec} doesn't say which environment it is for: name it with --env (in Python: env_id)"
        )
    archive = read_archive(found.path)
    place = _place(archive, found, asked, time_feature=time_feature)
    if place.env is None:
        logger.warning("%s opens, but can't be run here: %s", asked.spec, place.reason)
    return _build(archive, found, asked, place)


@dataclass(frozen=True)
class _Place:
    """An agent's environment today, and how the agent observes it.

    env       the environment's spaces; None if the agent can't be run here, for this `reason`
    adapted   the spaces that the environment must have for this agent
    trained   the spaces that its networks were made for
    keys      the names of its observations in the archive, if these are a Dict
    columns   the sources of its inputs; None: observations as they are
    current   today's id of the environment that it was trained on
    """

    env_id: str
    env_kwargs: dict[str, Any]
    env: Spaces | None
    reason: str
    adapted: Spaces
    trained: Spaces
    keys: list[str]
    columns: tuple[int, ...] | None
    current: str


def _place(archive: Archive, found: Found, asked: Asked, *, time_feature: bool) -> _Place:
    """Find the agent's environment. Raises InputError if the agent is for another one."""
    stored_id = asked.env_id or found.env_id or ""
    trained_id = found.env_id or stored_id
    current, inputs = on_v5(trained_id, _observed(archive, time_feature))
    env_id = asked.env_id or current
    at_home = env_id == current
    env_kwargs = {**(inputs.env_kwargs if inputs and at_home else {}), **found.env_kwargs}
    if asked.env_kwargs is not None:
        env_kwargs = dict(asked.env_kwargs)
    typed = asked.env_kwargs is not None or not found.env_kwargs
    env_id, env, reason = spaces_here(env_id, env_kwargs, typed=typed)
    at_home = env_id == current
    trained = _trained_spaces(archive, env, asked.spec, env_id)
    keys = list(trained[0].spaces) if isinstance(trained[0], spaces.Dict) else []
    time = "" if not time_feature else "counted" if env_kwargs.get("time_feature") else "held"
    columns, adapted = _inputs(inputs if at_home else None, trained, env, time)
    if env is not None and (seen := seen_of_goals(trained[0], env[0])) is not None:
        trained, adapted = (seen, trained[1]), (env[0], trained[1])
    if at_home and current != trained_id:
        logger.warning(
            "%s was trained on %s and runs on %s%s", asked.spec, trained_id, current, _said(columns)
        )
    if env is not None and (differences := differences_of(adapted, env)):
        env, reason = None, _why_unlike(found, asked, stored_id, env_id, differences)
    return _Place(env_id, env_kwargs, env, reason, adapted, trained, keys, columns, current)


def _why_unlike(found: Found, asked: Asked, stored_id: str, env_id: str, differences: str) -> str:
    """The cause of the differences between an agent and its environment. Raises InputError if there is none."""
    wrapped = wrappers_of(found.config)
    if not wrapped and stored_id == env_id:
        raise InputError(f"{asked.spec} is not for {env_id}: {differences}")
    cause = f"it was trained with {', '.join(wrapped)}" if wrapped else f"{env_id} is not like {stored_id}"
    return f"{cause}: {differences}"


def _build(archive: Archive, found: Found, asked: Asked, place: _Place) -> Expert:
    """The expert of an archive, its statistics and its place."""
    statistics = _statistics(found, asked.vecnormalize)
    normalisation = (
        read_vecnormalize(read_bytes(statistics, _LARGEST_STATISTICS), place.keys) if statistics else None
    )
    if normalisation is None and asked.vecnormalize is None and is_normalised(found.config):
        logger.warning(
            "%s was trained on normalised observations, but has no vecnormalize.pkl: expect little",
            asked.spec,
        )
    policy = policy_spec(archive, *place.trained, columns=place.columns)
    published, std = (None, None)
    if asked.env_id in (None, found.env_id, place.current) or place.env_id == _registered(place.current):
        published, std = _published(policy.algorithm, found.env_id or asked.env_id or "", found, asked.spec)
    observation_space, action_space = place.env or place.adapted
    return Expert(
        env_id=place.env_id,
        env_kwargs=place.env_kwargs,
        algorithm=policy.algorithm,
        source=asked.spec,
        sha256=_sha256(found.path),
        observation_space=observation_space,
        action_space=action_space,
        **agent_parts(policy, archive.tensors, normalisation, discount(archive)),
        normalised_by=str(statistics or ""),
        published_return=published,
        published_std=std,
        revision=found.revision,
        runnable=place.env is not None,
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def agent_parts(
    spec: PolicySpec, tensors: Mapping[str, Tensor], normalisation: Normalisation | None, gamma: float | None
) -> dict[str, Any]:
    """The parts of an SB3 agent, as fields of an Expert."""
    networks = build_networks(spec, tensors, normalisation)
    oracle, value = None, networks.value
    if networks.critics is not None or spec.algorithm in ("DQN", "QRDQN"):
        scale = 1.0 if normalisation is None else normalisation.reward_scale
        oracle = CriticOracle(spec, networks, gamma=0.99 if gamma is None else gamma, reward_scale=scale)
    return {
        "policy": AgentPolicy(spec, networks),
        "oracle": oracle,
        "state_values": None if value is None else lambda obs: value(obs).squeeze(-1),
        "normalisation": normalisation,
        "gamma": gamma,
    }


def _statistics(found: Found, asked: str | None) -> Path | None:
    if asked is None:
        return found.vecnormalize
    return None if asked.lower() == "none" else Path(asked)


Spaces = tuple[spaces.Space[Any], spaces.Space[Any]]


def spaces_here(
    env_id: str, env_kwargs: Mapping[str, Any], *, typed: bool = False
) -> tuple[str, Spaces | None, str]:
    """The registered id and the environment's spaces; if it can't be made here, None for the spaces and the reason.

    typed   whether the user chose the keywords; those from a file are tried in a child process first
    """
    try:
        env_id = resolve_env_id(env_id)
        if not typed:
            check_env(env_id, env_kwargs)
        env = make_env(env_id, env_kwargs)
    except Exception as error:  # a foreign environment, with keywords from a file
        return env_id, None, one_line(error)[:300]
    made = env.observation_space, env.action_space
    env.close()
    return env_id, made, ""


def _registered(env_id: str) -> str:
    """The id under which the environment is registered today; `env_id` itself if there is none."""
    try:
        return resolve_env_id(env_id)
    except InputError:
        return env_id


def _trained_spaces(archive: Archive, env: Spaces | None, source: str, env_id: str) -> Spaces:
    """The spaces in the archive, or the environment's if the archive's pickles hold something else."""
    stored = [stored_space(archive, name) for name in ("observation_space", "action_space")]
    observations, actions = stored if env is None else (stored[0] or env[0], stored[1] or env[1])
    if observations is None or actions is None:
        raise InputError(
            f"the spaces in {source} are unreadable as data, and {env_id} is not here to tell them"
        )
    return observations, actions


def _observed(archive: Archive, time_feature: bool) -> int | None:
    """The number of values that the policy observes besides the remaining time; None if it is unknown or not a flat
    Box."""
    space = stored_space(archive, "observation_space")
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        return None
    return int(space.shape[0]) - time_feature


def _inputs(
    inputs: Inputs | None, trained: Spaces, env: Spaces | None, time: str
) -> tuple[tuple[int, ...] | None, Spaces]:
    """The sources of the policy's inputs (None: observations as they are), and the spaces the environment must have.

    `time` is "counted", "held" (at 1), or "" if the policy does not observe it.
    """
    if inputs is not None and env is not None and isinstance(env[0], spaces.Box) and len(env[0].shape) == 1:
        columns = inputs.among(env[0].shape[0], time=time)
        if columns is not None:
            return columns, (env[0], trained[1])
    if time == "held":
        return (*range(spaces.flatdim(trained[0]) - 1), ONE), _without_time_feature(trained)
    return None, trained


def _said(columns: tuple[int, ...] | None) -> str:
    zeros = 0 if columns is None else columns.count(ZERO)
    return f", where {zeros} of its {len(columns or ())} inputs are 0" if zeros else ""


def _without_time_feature(trained: Spaces) -> Spaces:
    space, actions = trained
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return spaces.Box(space.low[:-1], space.high[:-1], dtype=space.low.dtype.type), actions
    return trained


def _alike(trained: spaces.Space[Any], env: spaces.Space[Any]) -> bool:
    """True if kind and size are the same. Bounds may differ, since they changed between versions that are otherwise the
    same."""
    if isinstance(trained, spaces.Dict) and isinstance(env, spaces.Dict):
        return set(trained) == set(env) and all(_alike(part, env[name]) for name, part in trained.items())
    if isinstance(trained, spaces.Discrete) and isinstance(env, spaces.Discrete):
        return int(trained.n) == int(env.n)
    if isinstance(trained, spaces.Box) and isinstance(env, spaces.Box):
        channels_first = (*env.shape[2:], *env.shape[:2]) if len(env.shape) == 3 else env.shape
        return trained.shape in (env.shape, channels_first)
    return type(trained) is type(env) and trained.shape == env.shape


def differences_of(trained: Spaces, env: Spaces) -> str:
    """The differences of the spaces in words; empty if they are alike."""
    pairs = zip(("observes", "acts in"), trained, env, strict=True)
    return ", ".join(f"it {verb} {a}, not {b}" for verb, a, b in pairs if not _alike(a, b))


def _published(algorithm: str, env_id: str, found: Found, source: str) -> tuple[float | None, float | None]:
    """Mean and standard deviation as published: in the zoo's benchmark, or in results.json on the hub."""
    if source.startswith("zoo:"):
        reported: list[Any] = list(published().get(algorithm.lower(), {}).get(env_id, []))
    else:
        reported = [found.results.get("mean_reward"), found.results.get("std_reward")]
    mean, std, *_ = [float(figure) if isinstance(figure, int | float) else None for figure in reported] + [
        None,
        None,
    ]
    return mean, std
