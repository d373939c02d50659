"""The expert of `imitate/ReachArm-v0`: differential inverse kinematics of the Panda arm."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from imitate.envs.spaces import Array
from imitate.envs.tasks.reach_arm import FASTEST, READY

__all__ = ["InverseKinematics", "hand_and_jacobian"]

Floats = NDArray[np.float64]

_ORIGINS = np.array(
    [(0, 0, 0.333), (0, 0, 0), (0, -0.316, 0), (0.0825, 0, 0), (-0.0825, 0.384, 0), (0, 0, 0), (0.088, 0, 0)]
)
_ROLLS = np.array([0, -1, 1, 1, -1, 1, 1]) * np.pi / 2
"""Each joint's place in the frame of the link before it, in m, and its roll about x; it turns about its z axis. From
PyBullet's panda.urdf, like the distance in m from the last joint along its axis to the hand."""
_HAND = 0.107 + 0.105


def hand_and_jacobian(angles: Array) -> tuple[Floats, Floats]:
    """The hand's position (N, 3) in m at joint angles (N, 7), and its derivative (N, 3, 7)."""
    turned, place = np.broadcast_to(np.eye(3), (len(angles), 3, 3)), np.zeros((len(angles), 3))
    places, axes = [], []
    for origin, roll, angle in zip(_ORIGINS, _ROLLS, angles.T.astype(np.float64), strict=True):
        place = place + turned @ origin
        c, s, zero = np.cos(angle), np.sin(angle), np.zeros_like(angle)
        about_z = np.stack([c, -s, zero, s, c, zero, zero, zero, zero + 1], -1).reshape(-1, 3, 3)
        c, s = np.cos(roll), np.sin(roll)
        turned = turned @ np.array([(1, 0, 0), (0, c, -s), (0, s, c)]) @ about_z
        places.append(place)
        axes.append(turned[:, :, 2])
    hand = place + _HAND * axes[-1]
    return hand, np.stack([np.cross(a, hand - p) for a, p in zip(axes, places, strict=True)], -1)


class InverseKinematics:
    """Moves the hand straight to the goal, and what is left of the joints towards `READY`.

    Damped least squares turn the hand's velocity into the joints' (Wampler 1986); if one of them is beyond its maximum
    speed, all are slowed alike, so that the hand stays on its line.

    gain      the hand's speed, in 1/s times the distance that is left
    damping   in m; it bounds the joints' velocities where the arm is stretched out
    posture   as `gain`, of the joints towards `READY`, in directions that don't move the hand
    """

    def __init__(self, gain: float = 10.0, damping: float = 0.05, posture: float = 1.0) -> None:
        self.gain, self.damping, self.posture = gain, damping, posture

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        """Observations (N, 20), or (N,) with the fields of the Dict form, to actions (N, 7)."""
        if obs.dtype.names is None:
            angles, goal = obs[:, :7], obs[:, 17:20]
        else:
            angles, goal = obs["observation"][:, :7], obs["desired_goal"]
        hand, jacobian = hand_and_jacobian(angles)  # (N, 3), (N, 3, 7)
        transposed = jacobian.swapaxes(1, 2)
        inverse = transposed @ np.linalg.inv(jacobian @ transposed + self.damping**2 * np.eye(3))  # (N, 7, 3)
        rest = self.posture * (READY - angles)[..., None]  # (N, 7, 1)
        wanted = inverse @ (self.gain * (goal - hand)[..., None] - jacobian @ rest) + rest
        wanted = wanted[..., 0]
        slower = np.minimum(FASTEST / np.maximum(abs(wanted).max(1, keepdims=True), 1e-9), 1.0)
        actions: Array = (slower * wanted).astype(np.float32)
        return actions

    def seed(self, seed: int) -> None:
        """Do nothing: it draws nothing."""
