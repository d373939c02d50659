"""The DQN rows of peers.py: SB3's settings for both, one environment, one gradient step for every four steps."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from rate import learner_rate, rate, sb3_rate

# `steps` steps are measured after `before` steps, when the replay has been started and actions are mostly not random.
VECTORS = {"pixels": 0, "batch_size": 64, "replay_size": 100_000, "before": 2_000, "steps": 8_000}
PIXELS = {"pixels": 1, "batch_size": 32, "replay_size": 5_000, "before": 200, "steps": 800}
LEARNING_STARTS, TARGET_EVERY = 100, 10_000  # SB3's, in steps; copying the target this rarely costs nothing


def _environment(pixels: int) -> tuple[str, dict[str, Any]]:
    return ("imitate/PixelCartPole-v0", {"size": 84}) if pixels else ("CartPole-v1", {})


def dqn_imitate(
    data: Path,  # noqa: ARG001
    *,
    pixels: int,
    batch_size: int,
    replay_size: int,
    before: int,
    steps: int,
    bfloat16: bool = False,
) -> float:
    from imitate.envs.make import make_env
    from imitate.envs.vec import SyncVecEnv
    from imitate.rl.dqn import DQN, DQNConfig

    config = DQNConfig(
        total_steps=before,
        num_steps=4,
        num_updates=1,
        rounds_per_iteration=25,
        batch_size=batch_size,
        replay_size=replay_size,
        learning_starts=LEARNING_STARTS,
        learning_rate=1e-4,
        double=False,
        target_every=TARGET_EVERY // 4,
        hidden=(64, 64),
        bfloat16=bfloat16,
    )
    learner = DQN(config, envs=SyncVecEnv([lambda: make_env(*_environment(pixels))]), seed=0)
    return learner_rate(learner, steps, before=before)


def dqn_bfloat16_imitate(data: Path, **settings: int) -> float:
    return dqn_imitate(data, bfloat16=True, **settings)


def dqn_sb3(
    data: Path,  # noqa: ARG001
    *,
    pixels: int,
    batch_size: int,
    replay_size: int,
    before: int,
    steps: int,
) -> float:
    from stable_baselines3 import DQN

    from imitate.envs.make import make_env

    settings: dict[str, Any] = {"batch_size": batch_size, "buffer_size": replay_size, "train_freq": 4}
    settings |= {"learning_starts": LEARNING_STARTS, "target_update_interval": TARGET_EVERY}
    exploration = {"exploration_fraction": 0.1, "exploration_final_eps": 0.05}
    env = make_env(*_environment(pixels))
    if not pixels:
        settings["policy_kwargs"] = {"net_arch": [64, 64]}
    model = DQN("CnnPolicy" if pixels else "MlpPolicy", env, seed=0, device="cpu", **settings, **exploration)
    return sb3_rate(model, partial(model.learn, reset_num_timesteps=False), steps, before=before)


def dqn_bare(
    data: Path,  # noqa: ARG001
    *,
    pixels: int,
    batch_size: int,
    replay_size: int,  # noqa: ARG001
    before: int,
    steps: int,
) -> float:
    """The upper limit: gradient steps on a single batch in as few torch calls as possible, with environments stepped by
    random actions. Nothing is learned."""
    import torch
    import torch.nn.functional as F

    from imitate.envs.make import make_env
    from imitate.envs.seeds import episode_seeds
    from imitate.envs.vec import SyncVecEnv
    from imitate.nn.policy import ActorPolicy

    envs = SyncVecEnv([lambda: make_env(*_environment(pixels))])
    current = envs.reset(episode_seeds(0))
    policy, target = (
        ActorPolicy(envs.single_observation_space, envs.single_action_space, activation="relu")
        for _ in range(2)
    )
    layers, target_layers = (torch.nn.Sequential(net.encoder, net.output) for net in (policy, target))
    optimizer = torch.optim.Adam(layers.parameters(), lr=1e-4, fused=True)
    obs = torch.from_numpy(current).repeat(batch_size, *[1] * (current.ndim - 1))
    chosen, rewards = torch.randint(2, (batch_size, 1)), torch.ones(batch_size)

    def learn(steps: int) -> int:
        for step in range(steps):
            envs.step(chosen[step % batch_size].numpy())
            with torch.inference_mode():
                layers(torch.from_numpy(current))
            if step % 4 == 0:
                with torch.inference_mode():
                    values = target_layers(obs).amax(-1)
                loss = F.smooth_l1_loss(layers(obs).gather(-1, chosen).squeeze(-1), rewards + 0.99 * values)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                optimizer.zero_grad()
        return steps

    learn(before)
    return rate(lambda: learn(steps))
