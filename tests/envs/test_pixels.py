"""CartPole from pixels: what is seen is the pole and the cart, what is paid are CartPole-v1's steps."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.testing import assert_array_equal

from imitate.envs.make import make_env, stacked_frames
from imitate.envs.spaces import Array
from imitate.envs.tasks.pixel_cartpole import (
    BOTTOM,
    EDGE,
    LEFT_RIGHT,
    TOP,
    TRACK_SHADE,
    X_THRESHOLD,
    PixelCartPole,
)
from imitate.errors import InputError
from imitate.rl.replay import Replay

ENV = "imitate/PixelCartPole-v0"


def frame(x: float = 0.0, angle: float = 0.0, **options: Any) -> Array:
    env = PixelCartPole(**options)
    env.reset(seed=0)
    env.physics.state = np.array([x, 0.0, angle, 0.0])
    return env.picture()


def test_gymnasium_finds_nothing_wrong_with_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = make_env(ENV, render_mode="rgb_array")
        check_env(env.unwrapped)
        assert env.observation_space == gym.spaces.Box(0, 255, (4, 36, 36), np.uint8)
        obs, _ = env.reset(seed=3)
        assert env.observation_space.contains(obs)


@pytest.mark.parametrize("frame_skip", [1, 3, 4])
def test_the_return_is_the_number_of_physics_steps(frame_skip: int) -> None:
    """The same actions, each held for a few steps, on CartPole-v1 and seen."""
    seen = PixelCartPole(frame_skip=frame_skip, physics_steps=10)
    for limit, constant in [(10, None), (500, 1)]:  # cut by the limit; the pole falls
        physics = gym.make("CartPole-v1", max_episode_steps=limit)
        seen.physics_steps = limit
        physics.reset(seed=5)
        seen.reset(seed=5)
        ended, wanted, got, decisions = False, 0.0, 0.0, 0
        while not ended:
            action = np.int64(decisions % 2 if constant is None else constant)
            decisions += 1
            for _ in range(frame_skip):
                _, reward, terminated, truncated, _ = physics.step(action)
                wanted += float(reward)
                ended = terminated or truncated
                if ended:
                    break
            _, reward_seen, terminated_seen, truncated_seen, _ = seen.step(action)
            got += reward_seen
            assert (terminated_seen, truncated_seen) == (terminated, truncated)
        assert got == wanted
        assert truncated == (constant is None)


def test_the_pole_leans_as_far_as_in_the_world() -> None:
    size, far = 84, 84 // 5
    near = size - far
    for angle in (-0.2, -0.05, 0.0, 0.01, 0.2):
        picture = frame(angle=angle, size=size)[:near].astype(float)
        height = 0.8  # metres above the cart's centre, 0.74 above the axle
        row = int((TOP - height) / (TOP - BOTTOM) * near)
        middle_height = TOP - (row + 0.5) / near * (TOP - BOTTOM)
        columns = (np.arange(size) + 0.5) / size * 2 * LEFT_RIGHT - LEFT_RIGHT
        seen_at = (picture[row] * columns).sum() / picture[row].sum()
        assert seen_at == pytest.approx(
            np.tan(angle) * (middle_height - 0.06), abs=0.002
        )  # a sixth of a pixel


def test_the_place_on_the_track_is_seen_from_above_and_passes_by_below() -> None:
    columns = (np.arange(36) + 0.5) / 36 * 2 * EDGE - EDGE
    for x in (-2.3, -1.0, 0.0, 1.0, 2.3):
        cart = np.clip(frame(x)[-3].astype(float) - TRACK_SHADE, 0, None)
        assert (cart * columns).sum() / cart.sum() == pytest.approx(x, abs=0.03)  # a fifth of a pixel
    assert (frame(0.0)[-3] != frame(0.02)[-3]).any()  # less than a pixel, which is 0.14 m, shows
    near = 36 - 36 // 5
    assert_array_equal(frame(0.0)[: near - 4], frame(1.0)[: near - 4])  # cart and pole stay where they are
    assert (frame(0.0)[near - 2 : near] != frame(0.03)[near - 2 : near]).any()
    assert gym.make("CartPole-v1").unwrapped.x_threshold == X_THRESHOLD  # type: ignore[attr-defined]


def test_render_shows_what_is_learned_from() -> None:
    env = PixelCartPole(render_mode="rgb_array", frame_skip=2)
    obs, _ = env.reset(seed=0)
    picture = env.render()
    assert picture is not None
    assert picture.shape == (288, 288, 3)
    assert_array_equal(picture[::8, ::8, 1], obs)
    assert env.metadata["render_fps"] == 25
    assert PixelCartPole().render() is None


def columns_of_the_pole(picture: Array) -> tuple[float, float]:
    """The middle of what is dark, as columns, high up on the pole and on the cart. CartPole's picture has the cart's
    middle at 3/4 of its height, and the pole's tip 0.3 of its height above it."""
    dark = 255.0 - picture
    size = len(picture)
    at = np.arange(size) + 0.5
    high, low = dark[int(0.5 * size)], dark[int(0.72 * size)]
    return float(high @ at / high.sum()), float(low @ at / low.sum())


@pytest.mark.parametrize("size", [84, 200])
def test_the_rendered_view_is_the_whole_track_with_the_pole(size: int) -> None:
    """A metre is 600 / 4.8 = 125 of 600 columns. 0.5 of 400 rows is 92.5 pixels, 0.74 m, above the axle."""
    for x, angle in ((0.0, 0.0), (1.2, 0.0), (-1.2, 0.2)):
        picture = frame(x, angle, size=size, view="rendered")
        assert (picture.shape, picture.dtype) == ((size, size), np.uint8)
        pole, cart = columns_of_the_pole(picture)
        assert cart == pytest.approx(size * (0.5 + x / 4.8), abs=size / 200)
        assert pole - cart == pytest.approx(size * 0.74 * np.tan(angle) / 4.8, abs=size / 150)
    env = make_env(ENV, {"view": "rendered", "size": 84, "frame_skip": 4})
    assert env.observation_space == gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    assert env.reset(seed=0)[0].max() > 200
    env.close()


def test_the_line_goes_through_the_cart_from_top_to_bottom() -> None:
    """Above the pole all is white without it; with it, 3 of 600 columns are black: 3 / 600 * 84 of a pixel."""
    without, with_it = (frame(1.2, 0.2, size=84, view="rendered", line=line) for line in (False, True))
    assert (without[:10] == 255).all()
    middle = 84 * 0.75
    darkness = (255.0 - with_it[:10]).sum(1) / 255
    np.testing.assert_allclose(darkness, 84 * 3 / 600, rtol=0.02)
    assert set(np.flatnonzero(with_it[0] < 255)) <= {int(middle) - 1, int(middle)}


def test_frames_are_stored_once() -> None:
    env = make_env(ENV, {"stack_size": 3})
    assert stacked_frames(env) == 3
    replay = Replay(100, 1, env.observation_space, env.action_space, gamma=0.9)
    assert replay.frames.shape == (100, 36, 36)


def test_what_can_not_be_seen_is_refused() -> None:
    with pytest.raises(InputError, match="size must be at least 36, NatureCNN's smallest, got 20"):
        PixelCartPole(size=20)
    with pytest.raises(InputError, match="frame_skip must be"):
        PixelCartPole(frame_skip=0)
    with pytest.raises(InputError, match=r"frame_skip must be a whole number, got 2\.5"):
        make_env(ENV, {"frame_skip": 2.5})
    with pytest.raises(InputError, match="view must be cameras or rendered, got 'far'"):
        make_env(ENV, {"view": "far"})
    with pytest.raises(InputError, match="the line is drawn into the rendered picture"):
        PixelCartPole(line=True)
