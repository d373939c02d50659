"""Measures an expert's mean return over fixed episodes, with that of random play; results are cached on disk."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from imitate.datasets.evaluation import evaluate
from imitate.datasets.play import RandomPolicy
from imitate.datasets.trajectory import Policy
from imitate.envs.answers import Answering, spaces_of
from imitate.envs.make import make_env
from imitate.errors import InputError
from imitate.files import cache_folder, read_json, versions, write_json
from imitate.own_code import code_of_env

__all__ = ["Measured", "fingerprint", "measure", "verdict"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Measured:
    """Returns of the deterministic expert and of random actions, over the same episode seeds."""

    mean: float
    std: float
    episodes: int
    random_mean: float


_SIMULATORS = ("gymnasium", "numpy", "ale-py", "mujoco", "pybullet", "box2d")


@dataclass(frozen=True)
class _Result:
    """The content of a cache file."""

    mean: float
    std: float


def measure(
    policy: Policy,
    weights: str,
    env_id: str,
    env_kwargs: Mapping[str, Any],
    *,
    episodes: int,
    seed: int,
    num_envs: int = 8,
    remeasure: bool = False,
) -> Measured:
    """Play `episodes` whole episodes, or take an earlier result from the cache in $XDG_CACHE_HOME/imitate.

    A cached result is valid for the same `weights` (hashes of everything the policy was made from; empty: never
    cached), the same source code of the environment and the same keyword arguments. `remeasure` plays anyway and
    replaces it. `num_envs` environments are open at a time.
    """
    source = fingerprint(env_id, env_kwargs)
    task = f"{env_id} {json.dumps(dict(env_kwargs), sort_keys=True, default=str)} {source} {episodes} {seed}"

    def result(name: str, player: Callable[[], Policy]) -> _Result:
        path = _place(f"{name} {task}") if source and name else None
        if path is not None and not remeasure and (known := _recalled(path)) is not None:
            return known
        found = evaluate(
            player(), env_id, episodes=episodes, seed=seed, env_kwargs=env_kwargs, num_envs=num_envs
        )
        measured = _Result(found.mean, found.std)
        if path is not None:
            _remember(path, measured)
        return measured

    expert = result(weights, lambda: policy)
    random = result("random", lambda: RandomPolicy(spaces_of(env_id, env_kwargs)[1], seed))
    return Measured(expert.mean, expert.std, episodes, random.mean)


def fingerprint(env_id: str, env_kwargs: Mapping[str, Any]) -> str:
    """A hash of the environment's behaviour: source files of its classes and wrappers, all of the user's own code, its
    registration, and versions of the simulating packages. Empty if a source can't be found, for example for a class
    defined in a notebook.
    """
    env = make_env(env_id, env_kwargs)
    try:
        registered = [
            repr(value) for value in (env.spec and env.spec.kwargs, env.spec and env.spec.max_episode_steps)
        ]
        layers: list[Any] = [env]
        while isinstance(layers[-1], gym.Wrapper):
            layers.append(layers[-1].env)
        classes = {each for layer in layers for each in type(layer).__mro__}
        files = {
            inspect.getfile(each) for each in classes if each.__module__ not in ("builtins", "typing", "abc")
        }
        # In the order of their hashes, as paths differ between machines.
        sources = sorted(hashlib.sha256(Path(file).read_bytes()).digest() for file in files)
        own = code_of_env(env)
    except (TypeError, OSError):
        return ""
    finally:
        Answering(env).close()
    simulators = {name: version for name, version in versions().items() if name in _SIMULATORS}
    digest = hashlib.sha256(repr((registered, own, sorted(simulators.items()))).encode())
    digest.update(b"".join(sources))
    return digest.hexdigest()


def verdict(measured: Measured, published: float | None) -> str | None:
    """A warning if the expert is no better than random, or far below its published return; else None.

    Far means by more than a tenth of the way from random to published, and by more than one standard error. (With two
    standard errors, the zoo's PPO walker would pass: 245 +- 119 over 20 episodes, published 288.)
    """
    standard_error = measured.std / np.sqrt(measured.episodes)
    if measured.mean - 2 * standard_error <= measured.random_mean:
        return (
            f"no better than random actions, which get {measured.random_mean:.1f}: imitating it is pointless"
        )
    if published is None:
        return None
    gap = published - measured.mean
    if gap > 0.1 * abs(published - measured.random_mean) and gap > standard_error:
        return f"far below its published return of {published:.1f}: imitators can only get what it has"
    return None


def _place(key: str) -> Path | None:
    try:
        return cache_folder("measured") / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    except InputError as error:
        logger.info("the measured return is not kept: %s", error)
        return None


def _recalled(path: Path) -> _Result | None:
    """The result in a cache file; None if there is none, or it can't be read."""
    try:
        return read_json(path, _Result, limit=4096) if path.is_file() else None
    except (OSError, InputError) as error:
        logger.info("%s: measuring again", error)
        return None


def _remember(path: Path, result: _Result) -> None:
    try:
        write_json(path, vars(result))
    except OSError as error:
        logger.info("the measured return is not kept: %s", error)
