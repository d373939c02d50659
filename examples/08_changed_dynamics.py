"""AIRL's reward of states outlives the dynamics that it was learned in (arXiv:1710.11248). Takes a minute.
Left and right are exchanged, and PPO begins anew. GAIL's reward knows which action the expert took where."""

import tempfile
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np

from imitate import GAIL, PPO, GAILConfig, LearnedReward, PPOConfig, collect, evaluate
from imitate.datasets import DemoInfo, SyncVecEnv, make_env
from imitate.envs.rewarded import Rewarded

CELLS, PACES, GAMMA, STEPS, ENV = np.arange(9), np.array([-1, 0, 1]), 0.9, 20_000, "Row-v0"
PAID = -np.abs(CELLS - 6)  # for a step from each cell of a row


class Row(gym.Env):
    observation_space, action_space = gym.spaces.Discrete(9), gym.spaces.Discrete(3)

    def __init__(self, sign: int = 1) -> None:
        self.sign = sign

    def reset(self, **given):
        super().reset(seed=given.get("seed"))
        self.cell = int(self.np_random.integers(9))
        return self.cell, {}

    def step(self, action):
        paid, self.cell = float(PAID[self.cell]), int(np.clip(self.cell + self.sign * PACES[action], 0, 8))
        return self.cell, paid, False, False, {}


class SoftExpert:
    values, rng = np.zeros(9), np.random.default_rng(0)
    for _ in range(200):
        q = PAID[:, None] + GAMMA * values[(CELLS[:, None] + PACES).clip(0, 8)]
        values = np.log(np.exp(q).sum(1))
    chances = np.exp(q - values[:, None])  # (cells, actions), by soft values, as AIRL assumes

    def act(self, obs, **_):
        return np.array([self.rng.choice(3, p=self.chances[cell]) for cell in obs])


if __name__ == "__main__":
    gym.register(ENV, Row, max_episode_steps=20)
    envs, others = (SyncVecEnv([partial(make_env, ENV, {"sign": sign})] * 8) for sign in (1, -1))
    info = DemoInfo(ENV, Row.observation_space, Row.action_space)
    demos = collect(SoftExpert(), envs, Path(tempfile.mkdtemp()) / "demos.h5", info, episodes=50, seed=0)
    ppo = PPOConfig(STEPS, num_steps=64, learning_rate=1e-3, gamma=GAMMA)
    for form in ("airl", "logit"):
        config = GAILConfig(STEPS, reward=form, bc_updates=0, learning_rate=3e-3, hidden=(), ppo=ppo)
        gail = GAIL(config, envs=envs, demos=demos, seed=0)
        while not gail.done:
            gail.step()
        learner = PPO(ppo, envs=Rewarded(others, LearnedReward.of(gail)), seed=1)
        while not learner.done:
            learner.step()
        print(f"{form:5} returns {evaluate(learner.policy, ENV, env_kwargs={'sign': -1}).mean:.1f}")
