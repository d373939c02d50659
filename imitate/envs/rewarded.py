"""Environments that pay another reward."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from imitate.envs.spaces import Array
from imitate.envs.stepping import Games
from imitate.envs.vec import CountsGames, Step, VecEnv

__all__ = ["RewardFunction", "Rewarded"]

RewardFunction = Callable[[Array, Array, Array, Array], Array]
"""(obs (N, ...), actions (N, ...), next_obs (N, ...), terminated (N,)) -> rewards (N,)."""


class Rewarded:
    """Environments for learning from another reward than their own; `pop_games` returns the true returns."""

    def __init__(self, envs: VecEnv, reward: RewardFunction) -> None:
        self.envs, self._reward = envs, reward
        self.num_envs = envs.num_envs
        self.single_observation_space = envs.single_observation_space
        self.single_action_space = envs.single_action_space
        self.running, self.seeds = envs.running, envs.seeds

    def reset(self, seeds: Iterable[int]) -> Array:
        self._obs = self.envs.reset(seeds)
        self.running, self.seeds = self.envs.running, self.envs.seeds  # the same arrays
        self._games = Games(self.envs)
        return self._obs.copy()

    def step(self, actions: Array) -> Step:
        idle = ~self.running
        step = self.envs.step(actions)
        self._games.add(step)
        rewards = self._reward(self._obs, actions, step.final_obs, step.terminated)
        self._obs = step.obs
        return step._replace(rewards=np.where(idle, 0.0, rewards).astype(np.float32))

    def pop_games(self) -> list[tuple[float, int]]:
        """True returns and lengths of the episodes that ended since the last call."""
        if isinstance(self.envs, CountsGames):
            return self.envs.pop_games()
        return self._games.pop()

    def close(self) -> None:
        self.envs.close()
