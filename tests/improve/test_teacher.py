"""The facts on an expert."""

from __future__ import annotations

import pytest

from imitate.experts import load_expert
from imitate.experts.published import best_published
from imitate.improve.episodes import Played
from imitate.improve.teacher import teacher


def test_the_facts_on_an_expert() -> None:
    """The median length is 400; the episode of 100 is short, that of 200 is not."""
    expert = load_expert("CartPole-v1")
    facts = teacher(expert, Played([7, 8, 9, 10], [500, 100, 300, 200], [500, 100, 600, 300], 1_500))
    assert (facts.mean, facts.lowest, facts.worst_seed, facts.short, facts.has_critic) == (
        275,
        100,
        8,
        1,
        True,
    )
    assert facts.share == pytest.approx(275 / 500)
    assert facts.describe() == (
        "CartPole-v1 (DQN, with a critic) makes 275 in 4 episodes, at worst 100, 1 of them short, 55 % of the best "
        "published return 500"
    )


def test_the_best_published_return_is_that_of_any_version() -> None:
    assert (
        best_published("LunarLander-v3") == best_published("LunarLander-v2") == pytest.approx(242.1, abs=0.1)
    )
    assert best_published("Identity-v0") is None
    negative = teacher(load_expert("random", env_id="Pendulum-v1"), Played([1], [-1_000.0], [200], 200))
    assert negative.share is None
