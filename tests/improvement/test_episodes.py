"""Paired episodes within a share of the budget; an episode of Identity takes ten steps."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import teachers  # registers Tallied-v0

from imitate.datasets.play import RandomPolicy
from imitate.improvement.episodes import Played, play

SEEDS = [5, 6, 7, 1, 2, 3, 4]


def identity(**given: Any) -> Played:
    policy = RandomPolicy(gym.spaces.Discrete(3))
    return play(policy, "Tallied-v0", {}, SEEDS, **given)


def test_three_more_are_played_while_they_fit() -> None:
    before = teachers.Tallied.taken
    played = identity(room=69, limit=1_000)
    assert (played.seeds, played.lengths, played.steps) == (SEEDS[:6], [10] * 6, 60)
    assert teachers.Tallied.taken - before == 60
    assert identity(room=70, limit=1_000).seeds == SEEDS  # one is left, and there is room for one
    assert identity(room=0, limit=1_000).seeds == SEEDS[:3]


def test_the_limit_cuts_and_its_steps_count() -> None:
    before = teachers.Tallied.taken
    played = identity(room=1_000, limit=45)
    assert (played.seeds, played.steps) == (SEEDS[:3], 45)
    assert teachers.Tallied.taken - before == 45
    assert identity(room=1_000, limit=0) == Played()


def test_the_same_seeds_are_the_same_episodes() -> None:
    assert identity(room=0, limit=99).by_seed == identity(room=0, limit=99).by_seed
