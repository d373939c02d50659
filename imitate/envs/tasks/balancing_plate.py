"""A ball on a plate in PyBullet: two weak motors keep it from rolling off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import pybullet
from gymnasium import spaces
from numpy.typing import NDArray

from imitate.envs.tasks.bullet import World, check_action
from imitate.errors import check_switches

__all__ = ["BalancingPlate"]

TIME_STEP = 1 / 100
TORQUE = 0.0003
BALL_MASS = 0.0007
LOWEST = 0.1
_TOP = 0.202  # height of the level plate's surface: pivot plus half of its thickness, see the URDF
_SCALE = 10.0
_JOINTS = (0, 1)  # rotation about x and about y
_FASTEST = 100.0  # m/s
_SIGNS = ((-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0))


@dataclass(frozen=True)
class Plate:
    """A plate and its initial states; lengths in m, angles in rad, each drawn uniformly from +- its `spread`.

    drop   height above the plate from which the ball is dropped
    """

    urdf: str
    ball_radius: float
    drop: float
    spread: tuple[float, float, float, float]  # x and y of the ball, angles about x and y


PLATES = {
    "damped": Plate("balancing_plate.urdf", 0.01, 0.0, (0.01, 0.01, 0.01, 0.01)),
    "undamped": Plate("balancing_plate_undamped.urdf", 0.02, 0.05, (0.005, 0.005, 0.0, 0.0)),
    "notebook": Plate("balancing_plate_notebook.urdf", 0.02, 0.02, (0.005, 0.005, 0.0, 0.0)),
}


class BalancingPlate(gym.Env[NDArray[np.float32], np.int64]):
    """Keep a ball of 0.7 g on a plate by torques of 0.0003 N m about its two axes; a step takes 1/100 s.

    plate   "damped" (`imitate/BalancingPlate-v0`): a board of 60 g and 30 cm, with damped hinges and its centre of mass
            17 mm below them, so that it returns to level; the ball, of 1 cm radius, starts at rest on it
            "undamped" (`imitate/BalancingPlateUndamped-v0`): a board of 0.8 kg and 20 cm that turns freely about its
            centre of mass, as in many such tasks; a ball of 2 cm radius is dropped on it from 5 cm
            "notebook": as "undamped", but 30 cm wide, and the ball is dropped from 2 cm
    observe_rates   the angular velocities of the plate are observed too, as the last two of (10,), in rad/s times 10

    Action 2 i + j turns the plate about the x axis by the i-th of (-, +) and about the y axis by the j-th. A positive
    angle about x rolls the ball towards -y, one about y towards +x. Observation (8,) float32: the ball's position x, y,
    z in m, its velocity in m/s, the two angles in rad, all times 10. The ball starts with x and y uniformly in +-1 cm
    and the angles in +-0.01 rad (undamped: +-5 mm, level). An episode terminates when the ball falls below z = 0.1 m
    (the plate is at 0.2); the registered environment truncates it after 2,000 steps. The reward is 1 for each step.

    The ball tips the plate: more than 4.4 cm off the centre it outweighs a motor. On the damped plate random actions
    lose the ball after 170 to 320 steps, and the signs of a linear feedback of the observation hold it indefinitely
    (see examples/04_balancing_plate.py). On the undamped plate random actions last 230 steps on average, and such a
    feedback 1,600, since the plate's angular velocity is not observed and swings build up; a feedback of that too holds
    the ball on the notebook's plate.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 100}  # noqa: RUF012

    def __init__(
        self,
        plate: Literal["damped", "undamped", "notebook"] = "damped",
        *,
        observe_rates: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if plate not in PLATES:
            raise ValueError(f"plate must be one of {', '.join(PLATES)}, got {plate!r}")
        check_switches(observe_rates=observe_rates)
        self._kind, self._observe_rates = PLATES[plate], observe_rates
        limits = [1.0] * 3 + [_FASTEST] * 3 + [1.0] * 2 + [_FASTEST] * 2 * observe_rates
        high = np.array(limits, np.float32) * np.float32(_SCALE)
        self.observation_space = spaces.Box(-high, high, dtype=np.float32)
        self.action_space = spaces.Discrete(4)
        self.render_mode = render_mode
        self._world = World(TIME_STEP)
        self._plate = self._world.load(self._kind.urdf)
        for joint in _JOINTS:  # otherwise PyBullet's default motors hold the hinges still
            self._world.setJointMotorControl2(self._plate, joint, pybullet.VELOCITY_CONTROL, force=0.0)
        shape = self._world.createCollisionShape(pybullet.GEOM_SPHERE, radius=self._kind.ball_radius)
        look = self._world.createVisualShape(
            pybullet.GEOM_SPHERE, radius=self._kind.ball_radius, rgbaColor=(0.85, 0.2, 0.15, 1.0)
        )
        self._ball = self._world.createMultiBody(
            BALL_MASS, shape, look, (0.0, 0.0, _TOP + self._kind.ball_radius)
        )
        # Contacts survive a change of positions, so episodes begin from the state before any contact.
        self._begin = self._world.saveState()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._world.restoreState(self._begin)
        spread = np.array(self._kind.spread)
        x, y, *angles = self.np_random.uniform(-spread, spread).tolist()
        for joint, angle in zip(_JOINTS, angles, strict=True):
            self._world.resetJointState(self._plate, joint, angle)
        above = _TOP + self._kind.ball_radius + self._kind.drop + y * angles[0] - x * angles[1]
        self._world.resetBasePositionAndOrientation(self._ball, (x, y, above), (0.0, 0.0, 0.0, 1.0))
        return self._observe(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        about_x, about_y = _SIGNS[check_action(action, 4)]
        self._world.setJointMotorControlArray(
            self._plate, _JOINTS, pybullet.TORQUE_CONTROL, forces=(TORQUE * about_x, TORQUE * about_y)
        )
        self._world.stepSimulation()
        obs = self._observe()
        return obs, 1.0, bool(obs[2] < LOWEST * _SCALE), False, {}

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (240, 320, 3)."""
        if self.render_mode is None:
            return None
        return self._world.picture((0.0, 0.0, 0.17), 0.6, pitch=-25.0, size=(320, 240))

    def close(self) -> None:
        self._world.close()

    def _observe(self) -> NDArray[np.float32]:
        position, _ = self._world.getBasePositionAndOrientation(self._ball)
        velocity, _ = self._world.getBaseVelocity(self._ball)
        about_x, about_y = self._world.getJointStates(self._plate, _JOINTS)
        rates = (about_x[1], about_y[1]) if self._observe_rates else ()
        observed = [*position, *velocity, about_x[0], about_y[0], *rates]
        return np.array(observed, np.float32) * np.float32(_SCALE)
