"""Soft Q imitation learning (arXiv:1905.11108) for discrete actions.

Q-learning with reward 1 for the expert's steps and 0 for the learner's own. Half of each batch are demonstrations.

Departures: the targets are double DQN's, without the paper's entropy. A terminated episode of the expert continues in
an absorbing state with reward 1 per step (arXiv:1809.02925); otherwise avoiding the expert's goal would pay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from imitate.configs.sqil import SQILConfig
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.rl.budget import rounds
from imitate.rl.dqn import DQN
from imitate.rl.off_policy import Batch
from imitate.rl.replay import Replay
from imitate.rl.rollout import Rollout

__all__ = ["SQIL", "SQILConfig"]


class SQIL:
    """SQIL on vector environments, from demonstrations in memory; `episodes` are indices, by default all."""

    expert_queries = 0

    def __init__(
        self,
        config: SQILConfig,
        *,
        envs: VecEnv,
        demos: DemoReader,
        seed: int,
        episodes: Array | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        settings = replace(config.dqn, total_steps=config.total_steps)
        self.config, self.dqn = config, DQN(settings, envs=envs, seed=seed, device=device)
        self.policy = self.dqn.policy
        chosen = range(len(demos)) if episodes is None else episodes.tolist()
        rewarded = [self._rewarded(demos[index]) for index in chosen]
        spaces = envs.single_observation_space, envs.single_action_space
        self.demo_replay = Replay.of_episodes(rewarded, *spaces, gamma=settings.gamma, n_step=settings.n_step)

    @property
    def env_steps(self) -> int:
        return self.dqn.env_steps

    @property
    def least_steps(self) -> int:
        return self.dqn.least_steps

    @property
    def done(self) -> bool:
        return self.dqn.done

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps, with as many rounds as DQN's own iteration."""
        dqn, history = self.dqn, []
        for left, progress in rounds(dqn, dqn.config.rounds_per_iteration, limit):
            dqn.schedule(progress)
            rollout = dqn.collect(left)
            dqn.replay.add(replace(rollout, rewards=np.zeros_like(rollout.rewards)))
            if dqn.ready:
                history += [dqn.update(batch) for batch in self._batches()]
        return dqn.end_iteration(history)

    def _batches(self) -> list[Batch]:
        """The minibatches of one round: the expert's half first."""
        return self.dqn.batches(self.dqn.config.num_updates, self.demo_replay, self.dqn.replay)

    def _rewarded(self, trajectory: Trajectory) -> Rollout:
        rewards = np.ones(len(trajectory), np.float32)
        if trajectory.terminated and self.config.absorbing:
            rewards[-1] = 1 / (1 - self.dqn.config.gamma)  # 1 + gamma + gamma^2 ...
        return Rollout.of_episode(trajectory, trajectory.labels - self.dqn.first_action, rewards)

    def state_dict(self) -> dict[str, Any]:
        return self.dqn.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.dqn.load_state_dict(state)
