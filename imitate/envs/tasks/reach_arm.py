"""A robot arm in PyBullet that reaches for a point: Franka Emika's Panda, by joint velocities."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import pybullet
import pybullet_data
from gymnasium import spaces
from numpy.typing import NDArray

from imitate.envs.tasks.bullet import World
from imitate.errors import check_switches

__all__ = ["FASTEST", "HIGH_GOAL", "LOW_GOAL", "READY", "TOLERANCE", "ReachArm"]

URDF = Path(pybullet_data.__file__).parent / "franka_panda" / "panda.urdf"
TIME_STEP, SUBSTEPS = 1 / 240, 12
FASTEST = 1.0
"""The largest joint velocity of an action, in rad/s; the arm could turn its joints twice as fast."""
READY = np.array([0.0, -0.25, 0.0, -0.75, 0.0, 0.5, 0.25]) * np.pi
"""The joint angles in rad around which episodes begin, the pose that Franka calls ready."""
LOW_GOAL, HIGH_GOAL = np.array([0.3, -0.3, 0.1]), np.array([0.6, 0.3, 0.6])
"""Corners of the box of goals, in m; the arm stands at the origin and looks along x."""
TOLERANCE = 0.02
"""The hand is at the goal if it is nearer than this, in m."""
_START = 0.1  # rad
_TORQUES = [87.0] * 4 + [12.0] * 3  # N m, from the URDF
_JOINTS, _HAND = range(7), 11  # the hand is the point between the fingertips, the URDF's panda_grasptarget
_BARE = pybullet.URDF_USE_INERTIA_FROM_FILE | pybullet.URDF_IGNORE_COLLISION_SHAPES  # nothing is there to hit


class ReachArm(gym.Env[Any, Any]):
    """Move the hand of a Panda arm, the point between its fingertips, to a goal and hold it there.

    An action (7,) float32 is the joints' velocities for 1/20 s, from -1 to 1 rad/s; motors with the URDF's torques
    follow them against gravity. The arm touches nothing, itself included.

    Observation (20,) float32: the 7 joint angles in rad, their 7 velocities in rad/s, the hand's position in m, the
    goal's position in m. The angles begin uniformly within 0.1 rad of `READY`, at rest; the goal is uniform in a box of
    0.3 x 0.6 x 0.5 m before the arm.

    reward      "dense": minus the distance from hand to goal, in m; "sparse": 0 within `TOLERANCE`, 2 cm, else -1
    goal_dict   observe a Dict as in gymnasium-robotics: `observation` (17,), which is all but the goal, `achieved_goal`
                (3,), the hand's position, and `desired_goal` (3,)

    `info["is_success"]` is true while the hand is within `TOLERANCE`. No episode terminates: the registered environment
    truncates it after 50 steps. If success ended an episode, it would be enough to sweep through the goal,
    demonstrations would hold no state in which the arm has to stay, and the length of an episode would tell an expert
    from a learner, which is how adversarial imitation is fooled.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(
        self,
        reward: Literal["dense", "sparse"] = "dense",
        *,
        goal_dict: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if reward not in ("dense", "sparse"):
            raise ValueError(f"reward must be dense or sparse, got {reward!r}")
        check_switches(goal_dict=goal_dict)
        self.reward, self.goal_dict, self.render_mode = reward, goal_dict, render_mode
        high = np.repeat([4.0, 10.0, 1.5], [7, 7, 3])
        seen, place = _box(high), _box(high[-3:])
        self.observation_space: spaces.Space[Any] = _box(np.append(high, high[-3:]))
        if goal_dict:
            self.observation_space = spaces.Dict(
                {"observation": seen, "achieved_goal": place, "desired_goal": place}
            )
        self.action_space = _box(np.full(7, FASTEST))
        self.world = World(TIME_STEP)
        unseen = 0 if render_mode else pybullet.URDF_IGNORE_VISUAL_SHAPES  # its meshes take a second to load
        self.body = int(self.world.loadURDF(str(URDF), useFixedBase=True, flags=_BARE | unseen))
        self._ball = self._make_scene() if render_mode else -1
        # Motors and fingers keep traces of an episode, so each begins from the same state.
        self._begin = self.world.saveState()
        self.goal = (LOW_GOAL + HIGH_GOAL) / 2

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.world.restoreState(self._begin)
        angles = READY + self.np_random.uniform(-_START, _START, 7)
        self.goal = self.np_random.uniform(LOW_GOAL, HIGH_GOAL)
        for joint, angle in zip(_JOINTS, angles.tolist(), strict=True):
            self.world.resetJointState(self.body, joint, angle)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        action = np.asarray(action, np.float64)
        if action.shape != (7,) or not np.isfinite(action).all():
            raise gym.error.InvalidAction(f"wanted 7 joint velocities in rad/s, got {action}")
        self.world.setJointMotorControlArray(
            self.body,
            _JOINTS,
            pybullet.VELOCITY_CONTROL,
            targetVelocities=action.clip(-FASTEST, FASTEST).tolist(),
            forces=_TORQUES,
        )
        for _ in range(SUBSTEPS):
            self.world.stepSimulation()
        hand = self._hand()
        info = {"is_success": bool(np.linalg.norm(hand - self.goal) < TOLERANCE)}
        return self._observe(), float(self.compute_reward(hand, self.goal, info)), False, False, info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:  # noqa: ARG002
        """The rewards (...) of hands and goals (..., 3), as hindsight replay asks for them."""
        distance = np.linalg.norm(np.subtract(achieved_goal, desired_goal), axis=-1)
        return -distance if self.reward == "dense" else -(distance >= TOLERANCE).astype(np.float64)

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (320, 400, 3); the goal is a ball of the tolerance's radius."""
        if self.render_mode is None:
            return None
        self.world.resetBasePositionAndOrientation(self._ball, self.goal.tolist(), (0.0, 0.0, 0.0, 1.0))
        return self.world.picture((0.2, 0.0, 0.36), 1.9, pitch=-20.0, yaw=35.0, size=(400, 320))

    def close(self) -> None:
        self.world.close()

    def _hand(self) -> NDArray[np.float64]:
        link = self.world.getLinkState(self.body, _HAND, computeForwardKinematics=True)
        return np.array(link[4])

    def _observe(self) -> Any:
        joints = self.world.getJointStates(self.body, _JOINTS)
        angles, velocities = zip(*(joint[:2] for joint in joints), strict=True)
        hand, goal = self._hand().astype(np.float32), self.goal.astype(np.float32)
        seen = np.array([*angles, *velocities, *hand], np.float32)
        if not self.goal_dict:
            return np.append(seen, goal)
        return {"observation": seen, "achieved_goal": hand, "desired_goal": goal}

    def _make_scene(self) -> int:
        """Add the floor and the ball that shows the goal, which collide with nothing; returns the ball."""
        floor = self.world.createVisualShape(
            pybullet.GEOM_BOX, halfExtents=(0.5, 0.5, 0.01), rgbaColor=(0.75, 0.8, 0.85, 1.0)
        )
        ball = self.world.createVisualShape(
            pybullet.GEOM_SPHERE, radius=TOLERANCE, rgbaColor=(0.85, 0.2, 0.15, 1.0)
        )
        self.world.createMultiBody(0.0, -1, floor, (0.3, 0.0, -0.01))
        return int(self.world.createMultiBody(0.0, -1, ball))


def _box(high: NDArray[np.float64]) -> spaces.Box:
    bound = high.astype(np.float32)
    return spaces.Box(-bound, bound, dtype=np.float32)
