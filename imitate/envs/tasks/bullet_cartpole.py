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
_FASTEST = 100.0  # m/s or rad/s: Bullet clips the speed of joints there


class BulletCartPole(gym.Env[NDArray[np.float32], np.int64]):
    """Keep a pole upright on a cart by pushing the cart left (action 0) or right (1) with 50 N for 1/20 s.

    Observation (4,) float32: position m, velocity m/s, angle rad, angular velocity rad/s; each begins uniformly in
    +-0.05. The cart weighs 1 kg, the pole 100 g at a length of 1 m. An episode is terminated where |position| > 10 or
    |angle| > 0.2095; registered, it is truncated after 500 steps. The reward is 1 for each step, the last one too, as
    in Gymnasium's CartPole, so 500 is the most (the notebook that this comes from gave 0 for the last).

    The slider's motor stays on. PyBullet gives one to every joint, which brings it to rest with up to 1 N s a step: dry
    friction of 20 N at this time step. That is why 50 N can be played: the cart gets 30 N. Without it a push changes
    the pole's angular velocity by more than 3 rad/s, and no feedback was found that holds the pole; 10 N would do.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        reach = _FASTEST * TIME_STEP  # the last step of an episode may overshoot its limits by so much
        high = np.array([X_LIMIT + reach, _FASTEST, ANGLE_LIMIT + reach, _FASTEST], np.float32)
        self.observation_space = spaces.Box(-high, high, dtype=np.float32)
        self.action_space = spaces.Discrete(2)
        self.render_mode = render_mode
        self._world = World(TIME_STEP)
        self._body = self._world.load("cart_pole.urdf")
        for joint, force in ((_SLIDER, FRICTION), (_HINGE, 0.0)):
            pybullet.setJointMotorControl2(
                self._body, joint, pybullet.VELOCITY_CONTROL, force=force, physicsClientId=self._world.client
            )
        self._marked = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        x, velocity, angle, angular_velocity = self.np_random.uniform(-0.05, 0.05, 4).tolist()
        client = self._world.client
        pybullet.resetJointState(self._body, _SLIDER, x, velocity, physicsClientId=client)
        pybullet.resetJointState(self._body, _HINGE, angle, angular_velocity, physicsClientId=client)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        force = FORCE if check_action(action, 2) else -FORCE
        client = self._world.client
        pybullet.setJointMotorControl2(
            self._body, _SLIDER, pybullet.TORQUE_CONTROL, force=force, physicsClientId=client
        )
        pybullet.stepSimulation(physicsClientId=client)
        obs = self._observe()
        fallen = bool(abs(obs[0]) > X_LIMIT or abs(obs[2]) > ANGLE_LIMIT)
        return obs, 1.0, fallen, False, {}

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (240, 480, 3) by a camera that goes with the cart; a post stands at every metre of the rail."""
        if self.render_mode is None:
            return None
        if not self._marked:
            self._place_posts()
        x = float(self._observe()[0])
        return self._world.picture((x, 0.0, 0.4), 3.2, pitch=-8.0, size=(480, 240))

    def close(self) -> None:
        self._world.close()

    def _observe(self) -> NDArray[np.float32]:
        slider, hinge = pybullet.getJointStates(
            self._body, (_SLIDER, _HINGE), physicsClientId=self._world.client
        )
        return np.array([slider[0], slider[1], hinge[0], hinge[1]], np.float32)

    def _place_posts(self) -> None:
        client = self._world.client
        post = pybullet.createVisualShape(
            pybullet.GEOM_BOX,
            halfExtents=(0.02, 0.02, 0.1),
            rgbaColor=(0.3, 0.3, 0.3, 1.0),
            physicsClientId=client,
        )
        for x in range(-12, 13):
            pybullet.createMultiBody(0.0, -1, post, (x, 0.4, -0.1), physicsClientId=client)
        self._marked = True
