"""Cart and pole in PyBullet: pushes of 50 N against dry friction, twenty times a second."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pybullet
from gymnasium import spaces
from numpy.typing import NDArray

from imitate.envs.tasks.bullet import World, check_action

__all__ = ["BulletCartPole"]

TIME_STEP = 1 / 20
FORCE = 50.0
FRICTION = 20.0
X_LIMIT = 10.0
ANGLE_LIMIT = 0.2095
_SLIDER, _HINGE = 0, 1
_FASTEST = 100.0  # m/s or rad/s, at which Bullet clips joint speeds


class BulletCartPole(gym.Env[NDArray[np.float32], np.int64]):
    """Keep a pole upright on a cart by pushing the cart left (action 0) or right (1) with 50 N for 1/20 s.

    Observation (4,) float32: position m, velocity m/s, angle rad, angular velocity rad/s; each is drawn uniformly
    from +-0.05 at the start. The cart weighs 1 kg, the pole 100 g at a length of 1 m. An episode terminates when
    |position| > 10 or |angle| > 0.2095; the registered environment truncates it after 500 steps. The reward is 1 for
    each step including the last, as in Gymnasium's CartPole, so the maximum return is 500 (the original notebook gave
    0 for the last step).

    The slider's default motor stays on. PyBullet's motors bring joints to rest with up to 1 N s per step, which is a
    dry friction of 20 N at this time step. The friction makes 50 N playable: a net 30 N acts on the cart. Without it a
    push changes the pole's angular velocity by more than 3 rad/s, and we found no feedback that holds the pole; with
    10 N it would be playable.

    force, friction   of a push, and of the slider, in N
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(
        self, *, force: float = FORCE, friction: float = FRICTION, render_mode: str | None = None
    ) -> None:
        if not (force > 0 and friction >= 0):  # NaN is neither
            raise ValueError(f"force must be above 0 and friction at least 0, got {force} and {friction}")
        self.force = force
        reach = _FASTEST * TIME_STEP  # the last step of an episode may overshoot the limits by this much
        high = np.array([X_LIMIT + reach, _FASTEST, ANGLE_LIMIT + reach, _FASTEST], np.float32)
        self.observation_space = spaces.Box(-high, high, dtype=np.float32)
        self.action_space = spaces.Discrete(2)
        self.render_mode = render_mode
        self.world = World(TIME_STEP)
        self.body = self.world.load("cart_pole.urdf")
        for joint, most in ((_SLIDER, friction), (_HINGE, 0.0)):
            self.world.setJointMotorControl2(self.body, joint, pybullet.VELOCITY_CONTROL, force=most)
        self._marked = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        x, velocity, angle, angular_velocity = self.np_random.uniform(-0.05, 0.05, 4).tolist()
        self.world.resetJointState(self.body, _SLIDER, x, velocity)
        self.world.resetJointState(self.body, _HINGE, angle, angular_velocity)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        force = self.force if check_action(action, 2) else -self.force
        self.world.setJointMotorControl2(self.body, _SLIDER, pybullet.TORQUE_CONTROL, force=force)
        self.world.stepSimulation()
        obs = self._observe()
        fallen = bool(abs(obs[0]) > X_LIMIT or abs(obs[2]) > ANGLE_LIMIT)
        return obs, 1.0, fallen, False, {}

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (240, 480, 3) from a camera that follows the cart; a post marks every metre of the rail."""
        if self.render_mode is None:
            return None
        if not self._marked:
            self._place_posts()
        x = float(self._observe()[0])
        return self.world.picture((x, 0.0, 0.4), 3.2, pitch=-8.0, size=(480, 240))

    def close(self) -> None:
        self.world.close()

    def _observe(self) -> NDArray[np.float32]:
        slider, hinge = self.world.getJointStates(self.body, (_SLIDER, _HINGE))
        return np.array([slider[0], slider[1], hinge[0], hinge[1]], np.float32)

    def _place_posts(self) -> None:
        post = self.world.createVisualShape(
            pybullet.GEOM_BOX, halfExtents=(0.02, 0.02, 0.1), rgbaColor=(0.3, 0.3, 0.3, 1.0)
        )
        for x in range(-12, 13):
            self.world.createMultiBody(0.0, -1, post, (x, 0.4, -0.1))
        self._marked = True
