"""What an expert is worth here: its mean return over fixed episodes, kept on disk, beside random play's."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from imitate.datasets.play import RandomPolicy
from imitate.datasets.play import episodes as play
from imitate.datasets.trajectory import Policy
from imitate.envs.make import make_env
from imitate.envs.seeds import episode_seeds
from imitate.envs.vec import SyncVecEnv
from imitate.files import write_json

__all__ = ["Measured", "measure", "verdict"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Measured:
    """Returns over the same episode seeds, of the expert acting deterministically and of random actions."""

    mean: float
    std: float
    episodes: int
    random_mean: float


def measure(
    policy: Policy,
    weights_sha256: str,
    env_id: str,
    env_kwargs: Mapping[str, Any],
    *,
    episodes: int,
    seed: int,
) -> Measured:
    """Play `episodes` whole episodes, or take the result of doing so before from the cache
    ($XDG_CACHE_HOME/imitate, by weights, environment and gymnasium's version)."""
    kwargs = json.dumps(dict(env_kwargs), sort_keys=True, default=str)
    task = f"{env_id} {kwargs} {episodes} {seed} {gym.__version__}"
    mean, std = _cached(f"{weights_sha256} {task}", lambda: _play(policy, env_id, env_kwargs, episodes, seed))
    random_mean, _ = _cached(f"random {task}", lambda: _play(None, env_id, env_kwargs, episodes, seed))
    return Measured(mean, std, episodes, random_mean)


def verdict(measured: Measured, published: float | None) -> str | None:
    """A warning where the expert is no better than random, or far below its published return; else None.

    Far: by more than a tenth of the way from random to published, and by more than the standard error. (Two
    of them would pass the zoo's PPO walker, which gets 245 +- 119 in some 20 episodes where 288 is published.)
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


def _play(
    policy: Policy | None, env_id: str, env_kwargs: Mapping[str, Any], episodes: int, seed: int
) -> tuple[float, float]:
    envs = SyncVecEnv([lambda: make_env(env_id, env_kwargs)] * min(episodes, 8))
    try:
        player = RandomPolicy(envs.single_action_space, seed) if policy is None else policy
        seeds = islice(episode_seeds(seed), episodes)
        returns = [episode.episode_return for episode in play(player, envs, seeds, deterministic=True)]
    finally:
        envs.close()
    return float(np.mean(returns)), float(np.std(returns))


def _cached(key: str, compute: Callable[[], tuple[float, float]]) -> tuple[float, float]:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "imitate" / "measured"
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    try:
        entry = json.loads(path.read_text("utf-8"))
        return float(entry["mean"]), float(entry["std"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not measured yet, or half-written by something else: measure
    mean, std = compute()
    try:
        write_json(path, {"key": key, "mean": mean, "std": std})
    except OSError as error:
        logger.info("the measured return is not kept: %s", error)
    return mean, std
