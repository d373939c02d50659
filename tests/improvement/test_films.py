"""Films of expert and student in the same episodes."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import teachers  # noqa: F401  # registers Tallied-v0

from imitate.datasets.play import RandomPolicy
from imitate.improvement.episodes import play
from imitate.improvement.films import films


def test_the_filmed_episode_is_that_of_the_test(tmp_path: Path) -> None:
    seeds = [3, 5, 4]
    test = play(RandomPolicy(gym.spaces.Discrete(2)), "CartPole-v1", {}, seeds[:1], room=0, limit=999)
    shown = films(
        {"student": RandomPolicy(gym.spaces.Discrete(2))}, "CartPole-v1", {}, {"worst": 3}, tmp_path
    )
    film = shown["worst"]["student"]
    assert film.shown == test.by_seed[3]
    assert film.url.startswith("data:video/mp4;base64,")
    assert film.poster.startswith("data:image/jpeg;base64,")


def test_an_environment_without_pictures_has_no_films(tmp_path: Path) -> None:
    assert (
        films({"student": RandomPolicy(gym.spaces.Discrete(3))}, "Tallied-v0", {}, {"worst": 3}, tmp_path)
        == {}
    )
