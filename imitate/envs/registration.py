"""Registers our environments with gymnasium on import."""

from __future__ import annotations

import gymnasium as gym

__all__: list[str] = []

gym.register("imitate/PixelCartPole-v0", entry_point="imitate.envs.tasks.pixel_cartpole:make_pixel_cartpole")
gym.register(
    "imitate/BulletCartPole-v0",
    entry_point="imitate.envs.tasks.bullet_cartpole:BulletCartPole",
    max_episode_steps=500,
)
gym.register(
    "imitate/BalancingPlate-v0",
    entry_point="imitate.envs.tasks.balancing_plate:BalancingPlate",
    max_episode_steps=2_000,
)
gym.register(
    "imitate/BalancingPlateUndamped-v0",
    entry_point="imitate.envs.tasks.balancing_plate:BalancingPlate",
    kwargs={"plate": "undamped"},
    max_episode_steps=2_000,
)
