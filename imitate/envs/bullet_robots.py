"""The robots of pybullet_envs_gymnasium (`AntBulletEnv-v0`), if it is installed; SB3's zoo has agents for them."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import gymnasium as gym

from imitate.errors import pip_install

__all__ = ["PACKAGE", "RobotWorlds", "is_bullet_robot", "remedy"]

PACKAGE = "pybullet_envs_gymnasium"
_ROBOTS = (
    "Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidFlagrun", "HumanoidFlagrunHarder", "InvertedDoublePendulum",
    "InvertedPendulum", "InvertedPendulumSwingup", "Pusher", "Reacher", "Thrower", "Walker2D",
)  # fmt: skip
_IDS = tuple(f"{robot}BulletEnv-v0" for robot in _ROBOTS)


def is_bullet_robot(env_id: str) -> bool:
    spec = gym.registry.get(env_id)
    return spec is not None and str(spec.entry_point).startswith(f"{PACKAGE}.")


def remedy(env_id: str) -> str:
    """The command that installs one of these environments, for an error; empty if it is another, or installed."""
    missing = env_id in _IDS and find_spec(PACKAGE) is None
    return f": `{pip_install('bullet')}` installs PyBullet's robots" if missing else ""


class RobotWorlds(gym.Wrapper[Any, Any, Any, Any]):
    """A robot with a new physics world in every episode. A used world keeps traces of earlier episodes, so seed and
    actions alone would not determine what happens. (In a few episodes of Pusher and HumanoidFlagrunHarder they still
    don't: there Bullet's order of contacts seems to depend on addresses in memory.)

    The package would also join any simulation that another process shares, and print that it did not.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        robot: Any = self.unwrapped
        generator, spaces = robot.np_random, (robot.observation_space, robot.action_space)
        robot.close()
        robot.__init__(render_mode=robot.render_mode)
        robot.np_random = robot.robot.np_random = generator
        robot.observation_space, robot.action_space = spaces  # which may have been seeded
        if robot.render_mode != "human":  # in which the package opens a window
            robot._p = _world()
            robot.physicsClientId, robot.ownsPhysicsClient = robot._p._client, True
        return super().reset(seed=seed, options=options)


def _world() -> Any:
    """A connection to a world of its own, which ends with the object."""
    import pybullet
    from pybullet_utils.bullet_client import BulletClient

    world = BulletClient.__new__(BulletClient)  # its constructor passes options, which pybullet prints
    world._shapes, world._pid, world._client = {}, os.getpid(), pybullet.connect(pybullet.DIRECT)
    world.setPhysicsEngineParameter(deterministicOverlappingPairs=1)
    return world
