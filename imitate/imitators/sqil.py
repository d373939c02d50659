"""Soft Q imitation learning (arXiv:1905.11108).

Q-learning with reward 1 for the expert's steps and 0 for the learner's own. Half of each batch are demonstrations.
Discrete actions are learned with DQN, continuous ones with SAC.

Departures: DQN's targets are those of double DQN, without the paper's entropy. A terminated episode of the expert
continues in an absorbing state with reward 1 per step (arXiv:1809.02925); otherwise avoiding the expert's goal would
pay.

With SAC it imitates at first and can collapse later (arXiv:2108.01867), when most of the learner's steps look like the
expert's and are still worth 0. So its presets validate, and keep the policy whose episodes are closest to the
demonstrations, which takes no reward (`imitate.imitators.likeness`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from imitate.configs.sqil import SQILConfig
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.imitators.noisy import warn_of_noise
from imitate.rl.batches import replay_of
from imitate.rl.budget import rounds
from imitate.rl.continuous import check_continuous
from imitate.rl.dqn import DQN
from imitate.rl.handed import takes
from imitate.rl.sac import SAC

__all__ = ["SQIL", "SQILConfig", "rewards_of"]


def rewards_of(episode: Trajectory, gamma: float, *, absorbing: bool) -> Array:
    """Rewards (T,) of an expert's episode: 1 a step, and at the end of a terminated one 1 + gamma + gamma^2 ..."""
    rewards = np.ones(len(episode), np.float32)
    if episode.terminated and absorbing:
        rewards[-1] = 1 / (1 - gamma)
    return rewards


class SQIL:
    """SQIL on vector environments, from demonstrations in memory; `episodes` are indices, by default all.

    learner  DQN for discrete actions, SAC for continuous ones
    """

    expert_queries = 0

    @takes(SQILConfig)
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
        warn_of_noise(demos, "sqil")
        handed: dict[str, Any] = {"envs": envs, "seed": seed, "device": device}
        self.learner: DQN | SAC
        if isinstance(envs.single_action_space, spaces.Discrete):
            self.learner = DQN(replace(config.dqn, total_steps=config.total_steps), **handed)
        else:
            check_continuous("sqil", envs, ("gail", "gail"))
            self.learner = SAC(replace(config.sac, total_steps=config.total_steps), **handed)
        self.config, self.policy = config, self.learner.policy
        gamma = self.learner.config.gamma
        self.learner.demos = replay_of(
            demos,
            episodes,
            self.policy,
            gamma=gamma,
            n_step=self.learner.config.n_step,
            rewarded=lambda episode: rewards_of(episode, gamma, absorbing=config.absorbing),
            every=config.demo_every,
        )

    @property
    def env_steps(self) -> int:
        return self.learner.env_steps

    @property
    def least_steps(self) -> int:
        return self.learner.least_steps

    @property
    def done(self) -> bool:
        return self.learner.done

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps, with as many rounds as the learner's own iteration."""
        learner, history = self.learner, []
        for left, progress in rounds(learner, learner.config.rounds_per_iteration, limit):
            learner.schedule(progress)
            rollout = learner.collect(left)
            learner.replay.add(replace(rollout, rewards=np.zeros_like(rollout.rewards)))
            if learner.ready:
                history += learner.learn()
        return learner.end_iteration(history)

    def state_dict(self) -> dict[str, Any]:
        return self.learner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.learner.load_state_dict(state)
