"""Our environments, and the function that registers them with gymnasium."""

from __future__ import annotations

from typing import Any

# Not `import gymnasium`: older ones call `register` through our entry point while they are still being imported.
from gymnasium.envs import registration

__all__ = ["register"]

_TASKS = "imitate.envs.tasks"
_ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "imitate/PixelCartPole-v0": {"entry_point": f"{_TASKS}.pixel_cartpole:make_pixel_cartpole"},
    "imitate/BulletCartPole-v0": {
        "entry_point": f"{_TASKS}.bullet_cartpole:BulletCartPole",
        "max_episode_steps": 500,
    },
    "imitate/BalancingPlate-v0": {
        "entry_point": f"{_TASKS}.balancing_plate:BalancingPlate",
        "max_episode_steps": 2_000,
    },
    "imitate/BalancingPlateUndamped-v0": {
        "entry_point": f"{_TASKS}.balancing_plate:BalancingPlate",
        "max_episode_steps": 2_000,
        "kwargs": {"plate": "undamped"},
    },
    "imitate/ReachArm-v0": {
        "entry_point": f"{_TASKS}.reach_arm:ReachArm",
        "max_episode_steps": 50,
    },
}


def register() -> None:
    """Register those of our environments that aren't registered yet."""
    for env_id, spec in _ENVIRONMENTS.items():
        if env_id not in registration.registry:
            registration.register(env_id, **spec)
