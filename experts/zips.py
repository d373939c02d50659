"""Makes an expert of an SB3 agent: of a zip and its companions, or of what a zip was converted to."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gymnasium import spaces
from torch import Tensor

from imitate.envs.make import resolve_env_id
from imitate.envs.seeds import TEST_SEED
from imitate.envs.spaces import beyond
from imitate.errors import InputError
from imitate.experts.expert import Expert
from imitate.experts.measure import measure
from imitate.experts.placing import Agent, Asked, Place, place_agent
from imitate.experts.published import published
from imitate.experts.sb3.acting import AgentPolicy
from imitate.experts.sb3.archive import discount, policy_spec, read_archive, stored_space, was_normalised
from imitate.experts.sb3.networks import PolicySpec, build_networks
from imitate.experts.sb3.vecnormalize import Normalisation, read_vecnormalize
from imitate.experts.sb3.zoo_options import is_normalised, time_feature_of
from imitate.experts.sources import Found
from imitate.experts.values.critics import CriticOracle
from imitate.files import read_bytes

__all__ = ["agent_parts", "expert_of", "published_of", "read_zip", "warn_if_normalised"]

logger = logging.getLogger(__name__)

_LARGEST_STATISTICS = 16 << 20  # bytes of a vecnormalize.pkl
_OF_DISCRETE = ("DQN", "QRDQN")
_OF_CONTINUOUS = ("SAC", "TD3", "DDPG", "TQC")


def read_zip(found: Found, vecnormalize: str | None = None) -> Agent:
    """The agent of a zip. `vecnormalize` is that of `load_expert`.

    Raises InputError if the zip is damaged, or is no SB3 archive.
    """
    archive = read_archive(found.path)
    statistics = _statistics(found, vecnormalize)

    def normalisation(keys: Sequence[str]) -> Normalisation | None:
        if statistics is None:
            return None
        return read_vecnormalize(read_bytes(statistics, _LARGEST_STATISTICS), keys)

    return Agent(
        sha256=_sha256(found.path),
        observation_space=stored_space(archive, "observation_space"),
        action_space=stored_space(archive, "action_space"),
        tensors=archive.tensors,
        gamma=discount(archive),
        spec=lambda obs, actions, columns: policy_spec(archive, obs, actions, columns=columns),
        normalisation=normalisation,
        normalised_by=str(statistics or ""),
        was_normalised=was_normalised(archive),
    )


def expert_of(agent: Agent, found: Found, asked: Asked) -> Expert:
    """The agent in its environment of today. Raises InputError if the agent is for another one."""
    if asked.env_id is None and found.env_id is None:
        raise InputError(
            f"{asked.spec} doesn't say which environment it is for: name it with --env (in Python: env_id)"
        )
    time_feature = time_feature_of(found.config)
    if time_feature is None or asked.env_kwargs is not None:
        if time_feature is not None and not (asked.env_kwargs or {}).get("time_feature"):
            logger.warning(
                "%s was trained with the time left as an observation, which is held at 1", asked.spec
            )
        return _placed(agent, found, asked, time_feature=time_feature is not None)
    # The file doesn't say which option performs better, so both are measured; ties go to counting down.
    held = _placed(agent, found, asked, time_feature=True)
    counting = {**held.env_kwargs, "time_feature": True}
    if not time_feature or not held.runnable:
        return held
    try:
        counted = _placed(agent, found, replace(asked, env_kwargs=counting), time_feature=True)
    except InputError:  # no flat observations
        return held
    # An environment without a time limit has no time left to count.
    return counted if counted.runnable and _is_better(counted, held) else held


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


def _placed(agent: Agent, found: Found, asked: Asked, *, time_feature: bool) -> Expert:
    place = place_agent(agent, found, asked, time_feature=time_feature)
    if place.env is None:
        logger.warning("%s opens, but can't be run here: %s", asked.spec, place.reason)
    return _build(agent, found, asked, place)


def _build(agent: Agent, found: Found, asked: Asked, place: Place) -> Expert:
    """The expert of an agent, its statistics and its place."""
    normalisation = agent.normalisation(place.keys)
    if normalisation is None and asked.vecnormalize is None:
        warn_if_normalised(agent, found, asked.spec)
    policy = agent.spec(*place.trained, place.columns)
    published, std = (None, None)
    if asked.env_id in (None, found.env_id, place.current) or place.env_id == _registered(place.current):
        published, std = published_of(policy.algorithm, found.env_id or asked.env_id or "", found, asked.spec)
    observation_space, action_space = place.env or place.adapted
    if beyond(place.trained[1], action_space):
        action_space = place.trained[1]  # to which it scales; `asking` clips to the environment's
    return Expert(
        env_id=place.env_id,
        env_kwargs=place.env_kwargs,
        algorithm=policy.algorithm,
        source=asked.spec,
        sha256=agent.sha256,
        observation_space=observation_space,
        action_space=action_space,
        **agent_parts(policy, agent.tensors, normalisation, agent.gamma),
        normalised_by=agent.normalised_by,
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
    """The parts of an SB3 agent, as fields of an Expert. Raises InputError if they don't fit together."""
    discrete = isinstance(spec.action_space, spaces.Discrete)
    if (spec.algorithm in _OF_DISCRETE and not discrete) or (spec.algorithm in _OF_CONTINUOUS and discrete):
        raise InputError(f"{spec.algorithm} can't have the stored action space {spec.action_space}")
    networks = build_networks(spec, tensors, normalisation)
    oracle, value = None, networks.value
    if networks.critics is not None or spec.algorithm in _OF_DISCRETE:
        scale = 1.0 if normalisation is None else normalisation.reward_scale
        oracle = CriticOracle(spec, networks, gamma=0.99 if gamma is None else gamma, reward_scale=scale)
    return {
        "policy": AgentPolicy(spec, networks),
        "oracle": oracle,
        "state_values": None if value is None else lambda obs: value(obs).squeeze(-1),
        "normalisation": normalisation,
        "gamma": gamma,
    }


def warn_if_normalised(agent: Agent, found: Found, source: str) -> None:
    """Warn that the agent, which has no statistics, was trained with some, if its config or its zip says so."""
    if is_normalised(found.config):
        logger.warning(
            "%s was trained on normalised observations, but has no vecnormalize.pkl: expect little", source
        )
    elif agent.was_normalised and "normalize" not in found.config:  # or it says that only rewards were
        logger.warning(
            "%s was trained under VecNormalize, but no vecnormalize.pkl is beside it: expect little if that normalised "
            "observations",
            source,
        )


def _statistics(found: Found, asked: str | None) -> Path | None:
    if asked is None:
        return found.vecnormalize
    return None if asked.lower() == "none" else Path(asked)


def _registered(env_id: str) -> str:
    """The id under which the environment is registered today; `env_id` itself if there is none."""
    try:
        return resolve_env_id(env_id)
    except InputError:
        return env_id


def published_of(algorithm: str, env_id: str, found: Found, source: str) -> tuple[float | None, float | None]:
    """Mean and standard deviation as published: in the zoo's benchmark, or in results.json on the hub."""
    if source.startswith("zoo:"):
        figures = published().get(algorithm.lower(), {}).get(env_id, [])
        return figures[0] if figures else None, figures[1] if len(figures) > 1 else None
    return found.results.get("mean_reward"), found.results.get("std_reward")
