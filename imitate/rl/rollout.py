"""On-policy experience of the RL core: T steps of N environments, carried on from where the last ones stopped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from imitate.datasets.environments import VecEnv, episode_seeds
from imitate.datasets.trajectory import Array
from imitate.networks import ActorPolicy

__all__ = ["Rollout", "Sampler"]


@dataclass(frozen=True, slots=True)
class Rollout:
    """What happened in T steps of N environments; every field (T, N, ...).

    obs         raw
    raw_actions what the policy's distribution gave, before scaling to the environment
    rewards     the environment's own
    ends        (E, 2) int: the (t, n) where episodes ended, in order
    end_obs     (E, *obs_shape) the true final observations there
    last_obs    (N, *obs_shape) the true successors of the last row
    """

    obs: Array
    raw_actions: Array
    rewards: Array
    terminated: Array
    truncated: Array
    ends: Array
    end_obs: Array
    last_obs: Array

    @property
    def done(self) -> Array:
        return self.terminated | self.truncated


class Sampler:
    """Steps the environments with a policy and remembers where it stopped.

    `returns` and `lengths` collect the episodes that ended since `pop_episodes` was called last.
    """

    def __init__(self, envs: VecEnv, seed: int) -> None:
        self.envs = envs
        self.env_steps = 0
        self.restart(seed)

    def restart(self, seed: int) -> None:
        """Drop the episodes in flight and begin new ones, seeded."""
        self._obs = self.envs.reset(episode_seeds(seed))
        self._return = np.zeros(self.envs.num_envs)
        self._length = np.zeros(self.envs.num_envs, np.int64)
        self._ended: list[tuple[float, int]] = []

    @torch.inference_mode()
    def collect(self, policy: ActorPolicy, num_steps: int, generator: torch.Generator) -> Rollout:
        """`num_steps` steps of every environment with sampled actions."""
        envs, obs = self.envs, self._obs
        shape = (num_steps, envs.num_envs)
        device = policy.output.weight.device
        all_obs = np.empty((*shape, *obs.shape[1:]), obs.dtype)
        rewards = np.empty(shape, np.float32)
        terminated, truncated = np.empty(shape, bool), np.empty(shape, bool)
        raw_actions, end_obs = [], []
        for t in range(num_steps):
            all_obs[t] = obs
            raw = policy(policy.encoder.prepare(torch.as_tensor(obs, device=device))).sample(generator)
            step = envs.step(policy.to_env(raw).cpu().numpy())
            raw_actions.append(raw)
            rewards[t], terminated[t], truncated[t] = step.rewards, step.terminated, step.truncated
            self._count(step.rewards, step.terminated | step.truncated)
            end_obs.append(step.final_obs[step.terminated | step.truncated])
            obs, last_obs = step.obs, step.final_obs
        self._obs = obs
        self.env_steps += num_steps * envs.num_envs
        return Rollout(
            all_obs,
            torch.stack(raw_actions).cpu().numpy(),
            rewards,
            terminated,
            truncated,
            ends=np.argwhere(terminated | truncated),
            end_obs=np.concatenate(end_obs),
            last_obs=last_obs,
        )

    def pop_episodes(self) -> dict[str, float]:
        """Mean return and length of the training episodes that ended since the last call; empty if none did."""
        if not self._ended:
            return {}
        returns, lengths = zip(*self._ended, strict=True)
        self._ended = []
        return {"train_return": float(np.mean(returns)), "train_length": float(np.mean(lengths))}

    def _count(self, rewards: Array, done: Array) -> None:
        self._return += rewards
        self._length += 1
        for index in np.flatnonzero(done):
            self._ended.append((float(self._return[index]), int(self._length[index])))
            self._return[index], self._length[index] = 0.0, 0
