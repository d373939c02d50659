"""Shared parts of PyBullet environments: a separate physics world without a display, and pictures of it."""

from __future__ import annotations

import operator
import weakref
from functools import partial
from importlib import resources
from typing import Any

import gymnasium as gym
import numpy as np
import pybullet
from numpy.typing import NDArray

__all__ = ["GRAVITY", "World", "check_action"]

GRAVITY = 9.8
"""m/s^2"""
_FIELD_OF_VIEW = 35.0


class World:
    """A Bullet world with its own connection, so that many can run in one process.

    Its methods include pybullet's functions, without their `physicsClientId`; after `close` they raise
    `pybullet.error`. A world is also closed when it is garbage collected, since a process can have only 1,024.
    """

    def __init__(self, time_step: float) -> None:
        self.client = int(pybullet.connect(pybullet.DIRECT))
        self._disconnect = weakref.finalize(self, pybullet.disconnect, physicsClientId=self.client)
        self.setTimeStep(time_step)
        self.setGravity(0.0, 0.0, -GRAVITY)

    def __getattr__(self, name: str) -> Any:
        function = getattr(pybullet, name)
        if not callable(function):
            raise AttributeError(f"pybullet's {name} is no function")
        function = partial(function, physicsClientId=self.client)
        setattr(self, name, function)  # the next call finds it there, which takes half a microsecond less
        return function

    def load(self, urdf: str) -> int:
        """Load a URDF file of this package as a body fixed to the world, with the file's inertias; returns its id."""
        with resources.as_file(resources.files("imitate.envs.tasks") / urdf) as path:
            flags = pybullet.URDF_USE_INERTIA_FROM_FILE
            return int(self.loadURDF(str(path), useFixedBase=True, flags=flags))

    def picture(
        self,
        target: tuple[float, float, float],
        distance: float,
        *,
        pitch: float,
        size: tuple[int, int],
        yaw: float = 0.0,
    ) -> NDArray[np.uint8]:
        """A picture (H, W, 3) uint8 of `size` (W, H), by a camera that looks at `target` along the y axis.

        The camera is pitched up by `pitch` degrees and turned to the left by `yaw` degrees. Bullet's software renderer
        needs neither a display nor a GPU.
        """
        width, height = size
        view = pybullet.computeViewMatrixFromYawPitchRoll(target, distance, yaw, pitch, 0.0, 2)
        lens = pybullet.computeProjectionMatrixFOV(_FIELD_OF_VIEW, width / height, 0.01, 100.0)
        pixels = self.getCameraImage(
            width, height, view, lens, lightDirection=(2.0, -4.0, 8.0), renderer=pybullet.ER_TINY_RENDERER
        )[2]
        return np.ascontiguousarray(np.reshape(pixels, (height, width, 4))[..., :3], np.uint8)

    def close(self) -> None:
        self._disconnect()
        # pybullet reuses the number for the next connection, so no function may keep it.
        self.__dict__ = {"_disconnect": self._disconnect, "client": -1}


def check_action(action: Any, count: int) -> int:
    """The action as an int. Raises `gymnasium.error.InvalidAction` unless it is one of 0 to count - 1."""
    try:
        index = operator.index(action)
    except TypeError:
        index = -1
    if not 0 <= index < count:
        raise gym.error.InvalidAction(f"action {action!r} is not one of 0 to {count - 1}")
    return index
