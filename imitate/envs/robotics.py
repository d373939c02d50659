"""The environments of gymnasium-robotics, if it is installed."""

from __future__ import annotations

import gymnasium as gym

__all__ = ["NEEDS", "is_robotics", "needs_mujoco_py"]

NEEDS = (
    "gymnasium-robotics 1.4 asserts what no longer holds since MuJoCo 3.12; install the extra `robotics` in a virtual "
    "environment of its own"
)


def is_robotics(env_id: str) -> bool:
    return _entry_point(env_id).startswith("gymnasium_robotics.")


def needs_mujoco_py(env_id: str) -> bool:
    """True if the package registers the id for mujoco-py, which newer versions of the id don't need."""
    entry_point = _entry_point(env_id)
    return is_robotics(env_id) and (":MujocoPy" in entry_point or ".envs.mujoco." in entry_point)


def _entry_point(env_id: str) -> str:
    spec = gym.registry.get(env_id)
    return "" if spec is None else str(spec.entry_point)
