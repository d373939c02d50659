"""Lives of Atari games in training, and the action that begins each game."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from imitate.envs import make_vec
from imitate.envs.atari import FIRE, FireFirst
from imitate.envs.backends.ale import AlePool, TrainingGames
from imitate.envs.vec import Step

NOOP = 0


class Scripted:
    """One game that pays 5 a step and has these lives after each; it ends with the last of them."""

    num_envs, single_observation_space, single_action_space = 1, None, None

    def __init__(self, *lives: int) -> None:
        self.pool = AlePool.__new__(AlePool)
        self._lives = list(lives)
        self.running, self.seeds = np.ones(1, bool), np.zeros(1, np.int64)

    def reset(self, seeds: Any) -> Any:  # noqa: ARG002
        self.pool.lives = np.array([self._lives.pop(0)])
        return np.zeros(1)

    def step(self, actions: Any) -> Step:  # noqa: ARG002
        self.pool.lives = np.array([self._lives.pop(0)])
        over = np.array([not self._lives])
        return Step(np.zeros(1), np.full(1, 5.0, np.float32), over, np.zeros(1, bool), np.zeros(1))


def test_a_life_is_lost_where_fewer_are_left_and_not_where_none_is_shown_before_the_end() -> None:
    envs: Any = Scripted(3, 3, 2, 1, 0, 0)
    games = TrainingGames(envs, episodic_life=True, clip_rewards=True)
    games.reset([0])
    steps = [games.step(np.zeros(1, int)) for _ in range(5)]
    assert [bool(step.terminated[0]) for step in steps] == [False, True, True, False, True]
    assert [step.rewards[0] for step in steps] == [1] * 5
    assert games.pop_games() == [(25.0, 5)]


def test_a_life_that_is_won_is_none_that_is_lost() -> None:
    envs: Any = Scripted(1, 2, 1, 1)
    games = TrainingGames(envs, episodic_life=True, clip_rewards=False)
    games.reset([0])
    assert [bool(games.step(np.zeros(1, int)).terminated[0]) for _ in range(2)] == [False, True]


def test_a_game_after_one_that_was_cut_begins_with_fire(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pong shows no lives. 40 frames are ten steps, of which up to 30 no-ops leave three."""
    taken: list[int] = []
    envs: Any = make_vec(
        "PongNoFrameskip-v4", 1, backend="ale", env_kwargs={"max_num_frames_per_episode": 40}
    )
    step = envs.pool.games.step

    def spied(actions: Any) -> Any:
        taken.extend(actions.tolist())
        return step(actions)

    monkeypatch.setattr(envs.pool.games, "step", spied)
    envs.reset([1, 2])
    games = []
    while envs.running[0]:
        games.append(int(envs.seeds[0]))
        envs.step(np.array([NOOP]))
    assert [action == FIRE for action in taken] == [True, *(a != b for a, b in pairwise(games))]
    assert set(games) == {1, 2}
    envs.close()


class Lives(gym.Env[Any, Any]):
    """A game with these lives after its reset and after each step."""

    def __init__(self, *lives: int) -> None:
        self.ale, self.taken = SimpleNamespace(lives=iter(lives).__next__), list[Any]()

    def reset(self, **_: Any) -> Any:
        return 0, {}

    def step(self, action: Any) -> Any:
        self.taken.append(action)
        return 0, 0.0, False, False, {}


def test_fire_begins_a_life_but_does_not_follow_one_that_was_won() -> None:
    game = Lives(2, 2, 3, 3, 2, 2)
    env = FireFirst(game)
    env.reset()
    for _ in range(5):
        env.step(NOOP)
    assert game.taken == [FIRE, NOOP, NOOP, NOOP, FIRE]
