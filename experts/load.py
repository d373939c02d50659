"""The expert that a spec names: bundled, from the zoo, the hub, a zip, a folder, a run, a callable, or random."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from imitate.envs.make import check_id
from imitate.errors import InputError, did_you_mean
from imitate.experts.callables import controller, from_callable, random_expert
from imitate.experts.expert import Expert
from imitate.experts.find import find_agent
from imitate.experts.folder import StoredExpert, read_folder
from imitate.experts.placing import Asked, Spaces, differences_of, spaces_here
from imitate.experts.sb3.tensors import LARGEST_WEIGHTS
from imitate.experts.sources import (
    BUNDLED,
    CONTROLLERS,
    Found,
    companions,
    files_beside,
    is_callable,
    known_experts,
)
from imitate.experts.values.critics import LogitsOracle, PolicyOracle, QOracle
from imitate.experts.zips import agent_parts, expert_of, read_zip
from imitate.files import read_bytes, read_json
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import load_policy

__all__ = ["carry", "expert_files", "load_expert"]

logger = logging.getLogger(__name__)

_IN_FOLDERS = (
    "expert.json",
    "policy.safetensors",
    "config.json",
    "policy/policy.json",
    "policy/policy.safetensors",
)
"""Files of an expert's folder or a run from which an expert is loaded."""

carried: dict[str, Path] = {}
"""Places to read instead of names: see `carry`."""


def load_expert(
    spec: str | Path,
    *,
    env_id: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    vecnormalize: str | Path | None = None,
) -> Expert:
    """The expert that `spec` names; no pickle is executed on the way.

    spec    a bundled expert, `CartPole-v1` or `CartPole-v1:ppo`; `zoo:ALGO/ENV` in the rl-trained-agents
            folders IMITATE_ZOO_DIR; `hub:ORG/REPO[@revision]`; an SB3 `.zip`; a folder that `imitate expert
            train` or `imitate expert convert` wrote; a run of `imitate train`; `module:make_expert`, a callable
            without arguments that returns an object with `act(obs, deterministic=True)` or a function of
            observations (N, ...); or `random`
    env_id, env_kwargs   the environment, if the expert names none or you want another
    vecnormalize   for a zip: file of normalisation statistics, or `none`; by default the one in the same folder

    Raises InputError if there is no such expert, if its file is damaged, if it can't be rebuilt without running its
    code, or if its spaces differ from the environment's.
    """
    if env_id is not None:
        check_id(env_id)
    statistics = None if vecnormalize is None else str(carried.get(str(vecnormalize), vecnormalize))
    asked = Asked(str(spec), env_id, env_kwargs, statistics)
    found = _found(asked.spec)
    if found is not None and found.path.is_file():
        return expert_of(read_zip(found, asked.vecnormalize), found, asked)
    if asked.vecnormalize is not None:
        raise InputError(f"--vecnormalize is for SB3's zips: {asked.spec} has its statistics in itself")
    if found is not None:
        return _from_found_folder(found, asked)
    if asked.spec in CONTROLLERS:
        return controller(asked)
    folder = _bundled(asked.spec) or carried.get(asked.spec, Path(asked.spec))
    if folder.is_dir():
        return _from_folder(folder, asked)
    if asked.spec == "random":
        return random_expert(asked)
    if asked.spec == "human":
        raise InputError(
            "a person is the expert of `imitate train dagger --expert human`, and records with `imitate collect human` "
            "(--intervene RUN corrects a run); nothing else can ask one"
        )
    if is_callable(asked.spec):
        return from_callable(asked)
    raise InputError(
        f"no expert {asked.spec!r}{did_you_mean(asked.spec, known_experts())}: wanted a bundled name, zoo:ALGO/ENV, "
        "hub:ORG/REPO, an SB3 .zip, an expert's folder, a run, module:make_expert or random"
    )


def expert_files(spec: str) -> dict[str, Path]:
    """The files that `load_expert(spec)` reads, by names relative to one folder. Bundled experts, callables and
    `random` need none. Raises InputError, as `load_expert` does, if a zip can't be found.
    """
    found = _found(spec)
    if found is not None and found.path.is_file():
        return files_beside(found.path)
    if _bundled(spec) is not None:
        return {}
    folder = Path(spec) if found is None else found.path
    return {name: folder / name for name in _IN_FOLDERS if (folder / name).is_file()}


def carry(name: str, place: Path) -> None:
    """Make `load_expert` read `place` instead of `name`, a zip, folder or statistics on another machine."""
    carried[name] = place


def _bundled(spec: str) -> Path | None:
    folder = BUNDLED / spec.replace(":", "-").replace("/", "-")
    # `Path.is_file` raises if the name is too long.
    return folder if os.path.isfile(folder / "expert.json") else None  # noqa: PTH113


def _found(spec: str) -> Found | None:
    """The zip, or the folder of the zoo or the hub, that a spec names; None if it names neither."""
    if spec in carried:
        return companions(carried[spec]) if carried[spec].suffix == ".zip" else None
    return find_agent(spec)


def _from_found_folder(found: Found, asked: Asked) -> Expert:
    """A run of ours from the hub, or an expert's folder in the zoo."""
    expert = _from_folder(found.path, asked)
    if found.revision is not None:
        expert.revision = found.revision
        if found.results:
            expert.published_return = found.results.get("mean_reward")
            expert.published_std = found.results.get("std_reward")
    return expert


def _from_folder(folder: Path, asked: Asked) -> Expert:
    if (folder / "config.json").is_file():
        return _from_run(folder, asked)
    stored = read_folder(folder)
    origin = stored.origin
    if origin is None:
        return _trained_here(stored, asked)
    found = Found(
        folder,
        stored.env_id,
        env_kwargs=stored.env_kwargs,
        config=origin.config,
        results=origin.results,
        revision=origin.revision,
    )
    return expert_of(stored.agent(), found, asked)


def _trained_here(stored: StoredExpert, asked: Asked) -> Expert:
    spaces = (stored.spec.observation_space, stored.spec.action_space)
    env_id, env_kwargs, runnable = _environment(asked, stored.env_id, stored.env_kwargs, spaces)
    at_home = (asked.env_id or stored.env_id, env_kwargs) == (stored.env_id, stored.env_kwargs)
    measured = stored.measured if at_home else {}  # other settings give other returns
    return Expert(
        env_id=env_id,
        env_kwargs=env_kwargs,
        algorithm=stored.spec.algorithm,
        source=asked.spec,
        sha256=stored.sha256,
        observation_space=stored.spec.observation_space,
        action_space=stored.spec.action_space,
        **agent_parts(stored.spec, stored.tensors, stored.normalisation, stored.gamma),
        normalised_by="expert.json" if stored.normalisation else "",
        published_return=measured.get("mean"),
        published_std=measured.get("std"),
        runnable=runnable,
        training=stored.training,
    )


def _environment(
    asked: Asked, env_id: str, env_kwargs: Mapping[str, Any], spaces: Spaces
) -> tuple[str, dict[str, Any], bool]:
    """The environment of an expert of ours, and whether it can be run here: the one asked for, or else its own.

    Raises InputError if it has other spaces.
    """
    kwargs = dict(env_kwargs if asked.env_kwargs is None else asked.env_kwargs)
    found_id, env, reason = spaces_here(asked.env_id or env_id, kwargs, typed=asked.env_kwargs is not None)
    if env is None:
        logger.warning("%s opens, but can't be run here: %s", asked.spec, reason)
    elif differences := differences_of(spaces, env):
        raise InputError(f"{asked.spec} is not for {found_id}: {differences}")
    return found_id, kwargs, env is not None


_VALUING = ("sac", "tqc", "td3", "td3bc", "guided", "dqn", "qdagger")
"""Learners whose action values are of the environment's rewards; others make theirs from demonstrations."""


@dataclass(frozen=True)
class _Run:
    """The fields of a run's config.json that an expert needs."""

    algorithm: str
    env_id: str
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    reward: str | None = None
    clip_rewards: bool = False

    def oracle(self, policy: ActorPolicy) -> QOracle | None:
        """Its values of the environment's own rewards, or None if it has none."""
        base = self.algorithm.partition(":")[0]
        clipped = self.clip_rewards or self.hyperparameters.get("least_reward") is not None
        if base not in _VALUING or clipped or self.reward is not None:
            return None
        if policy.critic is not None:
            return PolicyOracle(policy)
        if base not in ("dqn", "qdagger"):
            return None
        gamma = self.hyperparameters.get("gamma")
        if not isinstance(gamma, int | float) or isinstance(gamma, bool) or not 0 <= gamma <= 1:
            return None
        return LogitsOracle(policy, float(gamma))


def _from_run(folder: Path, asked: Asked) -> Expert:
    run = read_json(folder / "config.json", _Run)
    policy = load_policy(folder)
    spaces = (policy.observation_space, policy.action_space)
    env_id, env_kwargs, runnable = _environment(asked, run.env_id, run.env_kwargs, spaces)
    weights = read_bytes(folder / "policy" / "policy.safetensors", LARGEST_WEIGHTS)
    oracle = run.oracle(policy)
    return Expert(
        env_id=env_id,
        env_kwargs=env_kwargs,
        algorithm=run.algorithm,
        source=asked.spec,
        sha256=hashlib.sha256(weights).hexdigest(),
        observation_space=policy.observation_space,
        action_space=policy.action_space,
        policy=policy,
        oracle=oracle,
        gamma=None if oracle is None else oracle.gamma,
        runnable=runnable,
    )
