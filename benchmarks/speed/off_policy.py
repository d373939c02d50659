"""The SAC and TQC rows of peers.py: HalfCheetah, SB3's networks of 256 x 256, batches of 256, one environment and one
gradient step for each of its steps. sbx is SB3 in JAX; Tianshou's learner has the settings of SB3's."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from rate import learner_rate, rate, sb3_rate

ENV = "HalfCheetah-v5"
LEARNING_STARTS = 500
# `steps` steps are measured after `before` steps, when learning has started.
SETTINGS = {"before": 1_000, "steps": 3_000}


def sac_imitate(data: Path, *, before: int, steps: int, name: str = "SAC", **more: int) -> float:  # noqa: ARG001
    import imitate
    from imitate.envs.make import make_env
    from imitate.envs.vec import SyncVecEnv

    learner, config = getattr(imitate, name), getattr(imitate, f"{name}Config")
    settings = config(total_steps=before + steps, learning_starts=LEARNING_STARTS, **more)
    envs = SyncVecEnv([lambda: make_env(ENV)])
    return learner_rate(learner(settings, envs=envs, seed=0), steps, before=before)


def tqc_imitate(data: Path, *, before: int, steps: int) -> float:
    return sac_imitate(data, before=before, steps=steps, name="TQC", quantiles=25, dropped=2)


def sac_sb3(data: Path, *, before: int, steps: int) -> float:  # noqa: ARG001
    from stable_baselines3 import SAC

    return _sb3(SAC, before, steps)


def tqc_sb3(data: Path, *, before: int, steps: int) -> float:  # noqa: ARG001
    from sb3_contrib import TQC

    return _sb3(TQC, before, steps)


def sac_sbx(data: Path, *, before: int, steps: int) -> float:  # noqa: ARG001
    import gymnasium as gym
    from sbx import SAC

    model = SAC("MlpPolicy", gym.make(ENV), seed=0, learning_starts=LEARNING_STARTS, buffer_size=100_000)
    return sb3_rate(model, partial(model.learn, reset_num_timesteps=False), steps, before=before)


def sac_tianshou(data: Path, *, before: int, steps: int) -> float:  # noqa: ARG001
    import gymnasium as gym
    from tianshou.algorithm import SAC
    from tianshou.algorithm.modelfree.sac import AutoAlpha, SACPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, ReplayBuffer
    from tianshou.trainer import OffPolicyTrainerParams
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic

    env: Any = gym.make(ENV)
    state, action, hidden = env.observation_space.shape, env.action_space.shape, [256, 256]
    body = Net(state_shape=state, hidden_sizes=hidden)
    actor = ContinuousActorProbabilistic(
        preprocess_net=body, action_shape=action, unbounded=True, conditioned_sigma=True
    )
    critics = [
        ContinuousCritic(
            preprocess_net=Net(state_shape=state, action_shape=action, hidden_sizes=hidden, concat=True)
        )
        for _ in range(2)
    ]
    adam = AdamOptimizerFactory(lr=3e-4)
    learner = SAC(
        policy=SACPolicy(actor=actor, action_space=env.action_space),
        policy_optim=adam, critic=critics[0], critic_optim=adam, critic2=critics[1], critic2_optim=adam,
        alpha=AutoAlpha(-float(action[0]), 0.0, adam),
    )  # fmt: skip
    collector = Collector(learner, env, ReplayBuffer(100_000))
    collector.reset()
    collector.collect(n_step=LEARNING_STARTS, random=True)

    def learn(count: int) -> int:
        settings: dict[str, Any] = {"batch_size": 256, "collection_step_num_env_steps": 1, "max_epochs": 1}
        quiet = {"verbose": False, "show_progress": False}
        learner.run_training(
            OffPolicyTrainerParams(training_collector=collector, epoch_num_steps=count, **settings | quiet)
        )
        return count

    learn(before - LEARNING_STARTS)
    return rate(lambda: learn(steps))


def _sb3(algorithm: Any, before: int, steps: int) -> float:
    from imitate.envs.make import make_env

    settings: dict[str, Any] = {"learning_starts": LEARNING_STARTS, "buffer_size": 100_000}
    model = algorithm("MlpPolicy", make_env(ENV), seed=0, device="cpu", **settings)
    return sb3_rate(model, partial(model.learn, reset_num_timesteps=False), steps, before=before)
