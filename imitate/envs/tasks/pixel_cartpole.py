"""CartPole from pixels: frames are drawn from the geometry of CartPole-v1, without a display.

CartPole's own rendering shows the whole track, on which 12 degrees of the pole are only a few pixels, fewer after
shrinking. Here one camera follows the cart, close enough to see the pole's angle, with marks on the track passing by.
Since this view does not show the cart's position, the rows below it are the view of a second camera, from above, of
the whole track between the edges where an episode ends. CartPole's own picture is there for comparison.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import cv2
import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv

from imitate.envs.spaces import Array
from imitate.errors import InputError, check_range, check_switches, check_whole

__all__ = ["PixelCartPole", "make_pixel_cartpole"]

# In metres, as in CartPole's rendering: half width and half height of the cart, and of the pole, which begins a
# little below its axle. Only the camera differs.
CART, POLE, POLE_CENTER, AXLE = (0.2, 0.12), (0.04, 0.5), 0.46, 0.06
LEFT_RIGHT, BOTTOM, TOP = 0.5, -0.22, 1.08  # field of view of the near camera, relative to the cart's centre
MARKS, MARK = 0.4, 0.05  # distance between marks on the track, and half width of a mark
X_THRESHOLD, EDGE = 2.4, 2.6  # end of the track, and edge of the far camera's view
TRACK_SHADE, CART_SHADE, POLE_SHADE = 60, 130, 255
LINE = 3  # width of the line, in pixels of CartPole's own picture


class PixelCartPole(gym.Env[Array, np.int64]):
    """CartPole-v1 seen by a camera: single grey frames (size, size) uint8, each action held for `frame_skip` steps.

    The reward is 1 for each *physics* step, and an episode is truncated after `physics_steps` of these: with 500, the
    default, returns are CartPole-v1's.

    view    "cameras": the two cameras of this module
            "rendered": gymnasium's own picture of the whole track, 600 x 400, shrunk to (size, size)
    line    draw a black vertical line through the cart's middle into the rendered picture, from which the pole leans

    Raises InputError for another view, a line without the rendered one, a size below 36, and a frame_skip or
    physics_steps below 1 or a fraction.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(
        self,
        *,
        size: int = 36,
        frame_skip: int = 2,
        physics_steps: int = 500,
        view: Literal["cameras", "rendered"] = "cameras",
        line: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if view not in ("cameras", "rendered"):
            raise InputError(f"view must be cameras or rendered, got {view!r}")
        check_switches(line=line)
        check_whole(size=size, frame_skip=frame_skip, physics_steps=physics_steps)
        if line and view != "rendered":
            raise InputError('the line is drawn into the rendered picture: set view to "rendered" too')
        if size < 36:
            raise InputError(f"size must be at least 36, NatureCNN's smallest, got {size}")
        self.size, self.frame_skip, self.physics_steps = size, frame_skip, physics_steps
        check_range(self, 1, np.inf, "frame_skip", "physics_steps")
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": max(50 // frame_skip, 1)}
        self.observation_space = spaces.Box(0, 255, (size, size), np.uint8)
        self.action_space = spaces.Discrete(2)
        self._rendered, self._line = view == "rendered", line
        # Its methods have no types.
        self.physics: Any = CartPoleEnv(render_mode="rgb_array" if self._rendered else None)
        if self._rendered:
            os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
            import pygame

            # CartPole would look for a display to make one.
            shape = (self.physics.screen_width, self.physics.screen_height)
            self.physics.screen = pygame.Surface(shape)  # type: ignore[assignment]
        far_rows = size // 5
        self._scene = _Scene(size, size - far_rows, far_rows)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.physics.reset(seed=seed, options=options)
        self._steps = 0
        return self.picture(), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        reward, terminated = 0.0, False
        while not terminated and self._steps < self.physics_steps:
            _, one, terminated, _, _ = self.physics.step(action)
            reward += float(one)
            self._steps += 1
            if self._steps % self.frame_skip == 0:
                break
        truncated = not terminated and self._steps >= self.physics_steps
        return self.picture(), reward, terminated, truncated, {}

    def render(self) -> Array | None:
        """The current frame, which is all that a learner sees, enlarged 8 times and in three equal colour channels."""
        if self.render_mode is None:
            return None
        grey = self.picture().repeat(8, 0).repeat(8, 1)
        return np.stack([grey] * 3, -1)

    def picture(self) -> Array:
        x, _, angle, _ = self.physics.state
        if self._rendered:
            wide = cv2.cvtColor(self.physics.render(), cv2.COLOR_RGB2GRAY)  # (400, 600)
            if self._line:
                middle = round((float(x) / (2 * X_THRESHOLD) + 0.5) * wide.shape[1])
                wide[:, max(middle - LINE // 2, 0) : middle + LINE // 2 + 1] = 0
            shrunk: Array = cv2.resize(wide, (self.size, self.size), interpolation=cv2.INTER_AREA)
            return shrunk
        return self._scene.draw(float(x), float(angle))


class _Scene:
    """The views of the two cameras, one above the other, with anti-aliased edges."""

    def __init__(self, columns: int, near_rows: int, far_rows: int) -> None:
        self._pixel = np.float32(2 * LEFT_RIGHT / columns)
        self._x = _centers(-LEFT_RIGHT, LEFT_RIGHT, columns)  # (C,)
        self._y = _centers(TOP, BOTTOM, near_rows)[:, None]  # (R, 1)
        cart = np.maximum(abs(self._x) - CART[0], abs(self._y) - CART[1])
        self._cart = CART_SHADE * self._covered(cart)
        self._track = self._y < -CART[1]
        self._far_x = _centers(-EDGE, EDGE, columns)
        self._far_pixel = np.float32(2 * EDGE / columns)
        self._frame = np.zeros((near_rows + far_rows, columns), np.float32)
        self._near, self._far = self._frame[:near_rows], self._frame[near_rows:]

    def draw(self, x: float, angle: float) -> Array:
        """The frame (R, C) uint8 with the cart at `x` metres and the pole at `angle` radians."""
        place = self._x + np.float32(x)
        from_mark = abs((place + MARKS / 2) % MARKS - MARKS / 2) - MARK
        marks = self._covered(np.maximum(from_mark, abs(place) - X_THRESHOLD))
        sine, cosine = np.float32(np.sin(angle)), np.float32(np.cos(angle))
        height = self._y - AXLE
        across = abs(self._x * cosine - height * sine) - POLE[0]
        along = abs(self._x * sine + height * cosine - POLE_CENTER) - POLE[1]
        np.multiply(self._covered(np.maximum(across, along)), POLE_SHADE, out=self._near)
        np.maximum(self._near, self._cart, out=self._near)
        np.maximum(self._near, self._track * (TRACK_SHADE * marks), out=self._near)
        track = self._covered(abs(self._far_x) - X_THRESHOLD, self._far_pixel)
        cart = self._covered(abs(self._far_x - np.float32(x)) - CART[0], self._far_pixel)
        self._far[1:-1] = np.maximum(TRACK_SHADE * track, POLE_SHADE * cart)
        return self._frame.astype(np.uint8)

    def _covered(self, outside: Array, pixel: Any = None) -> Array:
        """Share of each pixel inside an edge, from the distance of its centre to the edge (inside: negative)."""
        pixel = self._pixel if pixel is None else pixel
        covered: Array = np.clip(0.5 - outside / pixel, 0.0, 1.0)
        return covered


def make_pixel_cartpole(*, stack_size: int = 4, **options: Any) -> gym.Env[Array, np.int64]:
    """`imitate/PixelCartPole-v0`: observations (stack_size, size, size) are stacks of the last frames."""
    return gym.wrappers.FrameStackObservation(PixelCartPole(**options), stack_size)


def _centers(begin: float, end: float, count: int) -> Array:
    edges = np.linspace(begin, end, count + 1, dtype=np.float32)
    return (edges[1:] + edges[:-1]) / 2
