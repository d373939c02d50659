"""Converts SB3 zips to folders of safetensors and JSON, which hold nothing that could be executed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from imitate.datasets.trajectory import tensors_of
from imitate.envs.make import is_installed
from imitate.envs.spaces import random_observations, uniform_actions
from imitate.errors import InputError
from imitate.experts.find import find_agent
from imitate.experts.folder import Origin, read_folder, write_folder
from imitate.experts.placing import Asked, place_agent, spaces_here, trained_spaces
from imitate.experts.sb3.zoo_options import time_feature_of
from imitate.experts.sources import Found, companions, zoo_runs
from imitate.experts.zips import agent_parts, published_of, read_zip, warn_if_normalised
from imitate.files import atomic_folder

__all__ = ["convert", "convert_all"]

SAMPLES = 1_000
"""Random observations for which the converted agent must do exactly what the zip's does."""


def convert(spec: str, folder: Path, *, env_id: str | None = None, vecnormalize: str | None = None) -> None:
    """Write the SB3 agent that `zoo:`, `hub:` or the path of a zip names as an expert's folder, whole or not at all.

    env_id        its environment, if no file names it
    vecnormalize  as in `load_expert`

    Raises InputError if there is no such zip, if it can't be rebuilt without running its code, if it is not for
    `env_id`, or if `folder` exists.
    """
    found = find_agent(spec)
    if found is None:
        raise InputError(f"{spec} is no SB3 zip: wanted a .zip, zoo:ALGO/ENV or hub:ORG/REPO")
    if found.path.is_dir():
        raise InputError(f"{spec} is safetensors and JSON already")
    if folder.exists():
        raise InputError(f"{folder} exists already: choose another folder")
    _convert(found, spec, folder, env_id, vecnormalize)


def convert_all(zoo: Path, out: Path) -> Iterator[tuple[str, str]]:
    """Convert every agent of a copy of rl-trained-agents, each to `out`/ALGO/ENV_N; `out` may then stand in
    IMITATE_ZOO_DIR. Yields the name of each run, and the reason if it can't be converted (else "").

    What an earlier call has converted is kept. Raises InputError if `zoo` holds no agents.
    """
    runs = [run for run in zoo_runs(zoo) if run.agent.is_file()]
    if not runs:
        raise InputError(f"{zoo} is no copy of rl-trained-agents: it has no ALGO/ENV_1/ENV.zip")
    out.mkdir(parents=True, exist_ok=True)
    if (zoo / "LICENSE").is_file() and not (out / "LICENSE").exists():
        shutil.copyfile(zoo / "LICENSE", out / "LICENSE")
    for run in runs:
        name = f"{run.entry}_{run.number}"
        try:
            _convert(companions(run.agent), f"zoo:{run.entry}", out / name)
        except InputError as error:
            yield name, str(error)
        else:
            yield name, ""


def _convert(
    found: Found, source: str, folder: Path, env_id: str | None = None, vecnormalize: str | None = None
) -> None:
    if env_id and found.env_id and env_id != found.env_id:
        if not found.guessed:
            raise InputError(f"{source} is for {found.env_id}, not for {env_id}: leave --env out")
        found = replace(found, env_id=None)
    if found.guessed and found.env_id and not env_id and not is_installed(found.env_id):
        raise InputError(
            f"{source} is named after {found.env_id}, which is not installed here: name its environment with --env"
        )
    agent, env_id = read_zip(found, vecnormalize), env_id or found.env_id
    if env_id is None:
        raise InputError(f"{source} doesn't say which environment it is for: name it with --env")
    if folder.exists():
        stored = read_folder(folder)
        if stored.origin is not None and stored.origin.sha256 == agent.sha256:
            return
        raise InputError(f"{folder} holds another agent: choose another folder")
    unreadable = agent.observation_space is None or agent.action_space is None
    env = spaces_here(env_id, found.env_kwargs)[1] if unreadable else None
    observations, actions = trained_spaces(agent, env, source, env_id)
    if found.env_id is None:  # a name that was typed may be wrong
        time_feature = time_feature_of(found.config) is not None
        place_agent(agent, found, Asked(source, env_id, None, None), time_feature=time_feature)
    keys = list(observations.spaces) if isinstance(observations, spaces.Dict) else []
    spec, normalisation = agent.spec(observations, actions, None), agent.normalisation(keys)
    if normalisation is None and vecnormalize is None:
        warn_if_normalised(agent, found, source)
    mean, std = published_of(spec.algorithm, env_id, found, source)
    results = {"mean_reward": mean, "std_reward": std}
    origin = Origin(
        source,
        agent.sha256,
        dict(found.config),
        {name: value for name, value in results.items() if value is not None},
        found.revision,
    )
    description = {
        "env_id": env_id,
        "env_kwargs": dict(found.env_kwargs),
        "gamma": agent.gamma,
        "origin": vars(origin),
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(folder) as temporary:
        write_folder(temporary, spec, agent.tensors, normalisation, description)
        stored = read_folder(temporary)
        converted = agent_parts(stored.spec, stored.tensors, stored.normalisation, stored.gamma)
        _check_same(
            agent_parts(spec, agent.tensors, normalisation, agent.gamma), converted, observations, actions
        )


def _check_same(
    zipped: dict[str, Any],
    converted: dict[str, Any],
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
) -> None:
    """Raise InputError unless both give the same actions and values for random observations."""
    rng = np.random.default_rng(0)
    obs = random_observations(observation_space, SAMPLES, rng)
    acts = uniform_actions(action_space, SAMPLES, rng)
    answers = []
    for parts in (zipped, converted):
        found = [parts["policy"].act(obs)]
        with torch.inference_mode():
            if parts["oracle"] is not None:
                found.append(parts["oracle"].heads(tensors_of(obs), torch.from_numpy(acts)).numpy())
            if parts["state_values"] is not None:
                found.append(parts["state_values"](tensors_of(obs)).numpy())
        answers.append(found)
    if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*answers, strict=True)):
        raise InputError("the converted agent does not act as the zip's; please report this")
