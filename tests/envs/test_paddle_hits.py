"""Rewards for strokes of the paddle, against what the picture shows and what the bricks say."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from imitate.envs import make_vec
from imitate.envs.atari import FIRE, protocol
from imitate.envs.make import make_env
from imitate.errors import InputError

BREAKOUT, PONG = "BreakoutNoFrameskip-v4", "PongNoFrameskip-v4"
HITS = {"reward": "paddle_hits"}
NOOP, RIGHT, LEFT, UP, DOWN = 0, 2, 3, 2, 3
BALL = 236
"""The grey of Pong's ball; the paddles have other colours."""


def memory(env: Any) -> list[int]:
    return [int(value) for value in env.unwrapped.ale.getRAM()]


def column(env: Any) -> float | None:
    """The column (0 to 159) of the ball in Pong's picture; None if it is not in play."""
    field = env.unwrapped.ale.getScreenRGB()[34:194]
    red, green, blue = np.moveaxis(field == BALL, 2, 0)
    found = np.nonzero((red & green & blue).any(axis=0))[0]
    return float(found.mean()) if len(found) else None


def test_a_hit_in_pong_is_a_turn_of_the_ball_at_the_right_paddle() -> None:
    """In the picture the ball goes right, then left, beyond column 130. Turns at the left paddle do not count."""
    env = make_env(PONG, {**HITS, "frame_skip": 1})
    env.reset(seed=0)
    columns, hits = [], []
    for _ in range(2_500):
        ball, paddle = memory(env)[54], memory(env)[51]
        _, reward, *_ = env.step(UP if ball < paddle + 8 else DOWN)
        hits.append(float(reward))
        columns.append(column(env))
    seen: list[float] = [each for each in columns if each is not None]
    moves = [(at, to - at) for at, to in pairwise(seen) if 0 < abs(to - at) < 8]
    turns = [(at, after > 0) for (_, before), (at, after) in pairwise(moves) if (before > 0) != (after > 0)]
    assert sum(at > 130 for at, to_the_right in turns if not to_the_right) == sum(hits) > 8
    assert sum(at < 30 for at, to_the_right in turns if to_the_right) > 8
    assert set(hits) == {0.0, 1.0}
    env.close()


def test_in_breakout_hits_and_bricks_take_turns() -> None:
    """The same game for its score and for hits: the ball goes from the paddle to a brick and back until it is lost,
    which is no hit."""
    for_score, for_hits = (make_env(BREAKOUT, {"frame_skip": 1, **kwargs}) for kwargs in ({}, HITS))
    for_score.reset(seed=0)
    for_hits.reset(seed=0)
    events, lives = "", 5
    for t in range(3_000):
        ball, paddle = memory(for_score)[99], memory(for_score)[72]
        action = (
            LEFT if t > 1_000 else RIGHT if ball > paddle + 8 else LEFT
        )  # in the end it stands in the corner
        _, score, *_, info = for_score.step(action)
        _, hit, *_ = for_hits.step(action)
        events += "brick " * bool(score) + "hit " * bool(hit)
        if info["lives"] < lives:
            lives, events = info["lives"], events + "lost "
            break
    assert events == "hit brick " * 8 + "lost "
    for_score.close()
    for_hits.close()


def test_hits_of_skipped_frames_add_up() -> None:
    """A decision is four frames, so the same play pays the same whether it is decided each frame or each fourth."""

    def paid(skip: int) -> float:
        env, total, action = make_env(BREAKOUT, {**HITS, "frame_skip": skip}), 0.0, FIRE
        env.reset(seed=1)
        for frame in range(0, 1_000, skip):
            if frame and frame % 4 == 0:
                off = memory(env)[99] - memory(env)[72] - 8
                action = NOOP if abs(off) < 3 else RIGHT if off > 0 else LEFT
            total += float(env.step(action)[1])
        env.close()
        return total

    assert paid(4) == paid(1) > 4


def test_the_backend_is_gymnasium_and_records_say_what_was_counted() -> None:
    make_vec(PONG, 1, env_kwargs=HITS).close()
    with pytest.raises(InputError, match="backend ale takes"):
        make_vec(PONG, 1, backend="ale", env_kwargs=HITS)
    assert protocol(PONG, HITS).endswith("4 frames, paddle hits of full games")
    assert protocol(PONG).endswith("4 frames, raw scores of full games")


def test_other_games_and_other_rewards_are_refused() -> None:
    with pytest.raises(InputError, match="paddle hits are known in pong and breakout, not in freeway"):
        make_env("FreewayNoFrameskip-v4", HITS)
    for reward in ("paddle", 1, None, ["paddle_hits"]):
        with pytest.raises(InputError, match="reward must be score or paddle_hits, got"):
            make_env(PONG, {"reward": reward})
