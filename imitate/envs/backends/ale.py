"""Atari through ALE's C++ vector environment, and its changes for training."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from imitate.envs.atari import FIRE, STACK, fires, frame_skip, settings
from imitate.envs.backends.pool import PoolVecEnv
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.envs.stepping import Games
from imitate.envs.vec import Step
from imitate.errors import InputError

__all__ = ["AlePool", "TrainingGames", "takes"]

SEEDS = (1 << 31) - 1
EMULATORS = ("repeat_action_probability", "full_action_space", "max_num_frames_per_episode")
KEYWORDS = (*EMULATORS, "frame_skip")


class AlePool:
    """N full games as a `Pool`, with raw scores; frames equal those of `make_env` pixel by pixel.

    Frames are stacked here, because ALE's own stack starts a game with black frames and gymnasium's with copies of the
    first one. As in `make_env`, the first action of every life is FIRE if the game has it.

    `begin` seeds the games. Later games are not seeded, since ALE would load the cartridge again, which takes 0.1 s. So
    a later game can't be repeated on its own; its seed only identifies it.

    lives  (N,) int, after the last step or at the start of a game

    Raises InputError for keyword arguments that ALE's vector environment does not accept.
    """

    def __init__(self, env_id: str, num_envs: int, env_kwargs: Mapping[str, Any] | None = None) -> None:
        from ale_py.vector_env import AtariVectorEnv

        if not takes(env_kwargs):
            raise InputError(
                f"backend ale takes {', '.join(KEYWORDS)}, got {dict(env_kwargs or {})}; use gymnasium"
            )
        env = make_env(env_id, env_kwargs)
        self.num_envs = num_envs
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space
        self._fires = fires(env)
        env.close()
        own = settings(env_id, env_kwargs)
        self.games = AtariVectorEnv(
            own["game"],
            num_envs,
            num_threads=min(num_envs, os.cpu_count() or 1),
            stack_num=1,
            reward_clipping=False,
            use_fire_reset=False,
            frameskip=frame_skip(env_kwargs),
            **{name: own[name] for name in EMULATORS},
        )
        self.lives = np.zeros(num_envs, np.int32)

    def begin(self, seeds: list[int]) -> Array:
        # ALE takes 0 to mean no seed.
        frames, info = self.games.reset(seed=np.array([seed % SEEDS + 1 for seed in seeds]))
        self.lives = info["lives"].copy()
        self._new_life = np.full(self.num_envs, self._fires)
        self._obs = np.repeat(frames, STACK, axis=1)
        return self._obs.copy()

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array]:
        actions = np.where(self._new_life, FIRE, actions)
        frames, rewards, terminated, truncated, info = self.games.step(actions)
        self._new_life = (info["lives"] < self.lives) & self._fires
        self.lives = info["lives"].copy()
        obs = np.empty_like(self._obs)
        obs[:, :-1] = self._obs[:, 1:]
        obs[:, -1:] = frames
        self._obs = obs
        return obs.copy(), rewards.astype(np.float32), terminated.copy(), truncated.copy()

    def begin_again(self, which: Array, seeds: list[int]) -> Array:  # noqa: ARG002
        mask = np.zeros(self.num_envs, bool)
        mask[which] = True
        frames, info = self.games.reset(options={"reset_mask": mask})
        self.lives[which] = info["lives"][which]
        self._new_life[which] = self._fires
        self._obs[which] = np.repeat(frames[which], STACK, axis=1)
        return self._obs[which]

    def close(self) -> None:
        self.games.close()


class TrainingGames:
    """Games with changes for training; `pop_games` returns the raw scores.

    With episodic_life, the loss of a life is `terminated` (as in SB3's EpisodicLifeEnv, but without its no-op). With
    clip_rewards, rewards are replaced by their sign.
    """

    def __init__(self, envs: PoolVecEnv, *, episodic_life: bool, clip_rewards: bool) -> None:
        self.envs, self._episodic_life, self._clip_rewards = envs, episodic_life, clip_rewards
        assert isinstance(envs.pool, AlePool)
        self._pool = envs.pool
        self.num_envs = envs.num_envs
        self.single_observation_space = envs.single_observation_space
        self.single_action_space = envs.single_action_space
        self.running, self.seeds = envs.running, envs.seeds

    def reset(self, seeds: Iterable[int]) -> Array:
        obs = self.envs.reset(seeds)
        self.running, self.seeds = self.envs.running, self.envs.seeds  # the same arrays
        self._lives = self._pool.lives
        self._games = Games(self.envs)
        return obs

    def step(self, actions: Array) -> Step:
        step = self.envs.step(actions)
        self._games.add(step)
        if self._episodic_life:
            # A finished game has been reset, with all its lives. Some games show 0 lives before they end.
            before, self._lives = self._lives, self._pool.lives
            lost = (self._lives > 0) & (self._lives < before) & self.running
            step = step._replace(terminated=step.terminated | lost)
        return step._replace(rewards=np.sign(step.rewards)) if self._clip_rewards else step

    def pop_games(self) -> list[tuple[float, int]]:
        """Raw scores and lengths of the full games that ended since the last call."""
        return self._games.pop()

    def close(self) -> None:
        self.envs.close()


def takes(env_kwargs: Mapping[str, Any] | None) -> bool:
    return set(env_kwargs or {}) <= set(KEYWORDS)
