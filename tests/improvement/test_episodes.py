"""Paired episodes within a share of the budget; an episode of Identity takes ten steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import teachers  # registers Tallied-v0 and Uneven-v0

from imitate.datasets.play import RandomPolicy
from imitate.improvement.episodes import Played, play

SEEDS = [5, 6, 7, 1, 2, 3, 4]


def identity(env_id: str = "Tallied-v0", seeds: Sequence[int] = SEEDS, **given: Any) -> Played:
    policy = RandomPolicy(gym.spaces.Discrete(3))
    return play(policy, env_id, {}, seeds, **given)


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


def test_episodes_are_in_the_order_of_their_seeds() -> None:
    """That of the odd seed takes five steps and ends first."""
    played = identity("Uneven-v0", [4, 5, 6], room=0, limit=99)
    assert (played.seeds, played.lengths) == ([4, 5, 6], [10, 5, 10])


def test_the_longest_three_so_far_must_fit() -> None:
    """Three episodes took 30 steps, then three took 15: other three may take 30."""
    seeds = [2, 4, 6, 1, 3, 5, 7, 9, 11]
    assert identity("Uneven-v0", seeds, room=74, limit=999).seeds == seeds[:6]
    assert identity("Uneven-v0", seeds, room=75, limit=999).seeds == seeds
