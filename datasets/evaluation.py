"""Evaluation on individually seeded episodes: the same seeds give every policy the same starts, so results pair."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import stats

from imitate.datasets.play import RandomPolicy
from imitate.datasets.trajectory import Policy
from imitate.envs.make import make_env
from imitate.envs.seeds import TEST_SEED, episode_seeds
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv, VecEnv
from imitate.errors import InputError

__all__ = ["Evaluation", "RandomPolicy", "evaluate", "play"]


@dataclass(frozen=True)
class Evaluation:
    """Undiscounted returns (E,) float and lengths (E,) int of E episodes, in the order of their seeds."""

    returns: Array
    lengths: Array

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        """Population standard deviation over the episodes."""
        return float(self.returns.std())

    @property
    def iqm(self) -> float:
        """Interquartile mean: of the middle half of the episodes (arXiv:2108.13264)."""
        return float(stats.trim_mean(self.returns, 0.25))

    @cached_property
    def ci95(self) -> tuple[float, float]:
        """95 % percentile-bootstrap interval of the mean, over the episodes of this one policy."""
        rng = np.random.default_rng(0)
        means = rng.choice(self.returns, (2_000, len(self.returns))).mean(1)
        low, high = np.percentile(means, (2.5, 97.5))
        return float(low), float(high)

    def to_json(self) -> dict[str, Any]:
        return {
            "mean": self.mean,
            "std": self.std,
            "iqm": self.iqm,
            "ci95": list(self.ci95),
            "returns": self.returns.tolist(),
            "lengths": self.lengths.tolist(),
        }


def evaluate(
    policy: Policy,
    env_id: str,
    *,
    episodes: int = 20,
    seed: int = TEST_SEED,
    env_kwargs: Mapping[str, Any] | None = None,
    num_envs: int = 8,
    deterministic: bool = True,
) -> Evaluation:
    """Play `episodes` episodes, the n-th with the n-th seed of `episode_seeds(seed)`, whatever num_envs is."""
    if episodes < 1:
        raise InputError(f"episodes must be at least 1, got {episodes}")
    envs = SyncVecEnv([partial(make_env, env_id, env_kwargs)] * min(num_envs, episodes))
    try:
        return play(policy, envs, episodes=episodes, seed=seed, deterministic=deterministic)
    finally:
        envs.close()


def play(policy: Policy, envs: VecEnv, *, episodes: int, seed: int, deterministic: bool = True) -> Evaluation:
    """`evaluate` on environments that stand already."""
    seeds = list(itertools.islice(episode_seeds(seed), episodes))
    number = {episode_seed: n for n, episode_seed in enumerate(seeds)}
    returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
    obs = envs.reset(seeds)
    while envs.running.any():
        current = [number[int(s)] for s in envs.seeds[envs.running]]
        running = envs.running.copy()
        step = envs.step(policy.act(obs, deterministic=deterministic))
        returns[current] += step.rewards[running]
        lengths[current] += 1
        obs = step.obs
    return Evaluation(returns, lengths)
