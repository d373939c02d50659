"""Random actions in a vector of environments."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from imitate.envs.seeds import episode_seeds
from imitate.envs.spaces import Array
from imitate.envs.vec import Step, VecEnv


def steps(envs: VecEnv, seed: int, count: int) -> Iterator[tuple[Array, Array, Step]]:
    """Observations, random actions, and what came of them."""
    obs = envs.reset(episode_seeds(seed))
    rng = np.random.default_rng(seed)
    for _ in range(count):
        actions = rng.integers(2, size=envs.num_envs)
        step = envs.step(actions)
        yield obs, actions, step
        obs = step.obs
