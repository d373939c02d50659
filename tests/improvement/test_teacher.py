"""The facts on an expert."""

from __future__ import annotations

import numpy as np
import pytest

from imitate.experts import load_expert
from imitate.experts.published import best_published
from imitate.improvement.episodes import Played
from imitate.improvement.teacher import Watched, teacher


def test_the_facts_on_an_expert() -> None:
    """The median length is 400; the episode of 100 is short, that of 200 is not."""
    expert = load_expert("CartPole-v1")
    facts = teacher(expert, Played([7, 8, 9, 10], [500, 100, 300, 200], [500, 100, 600, 300], 1_500), None)
    assert (facts.mean, facts.lowest, facts.worst_seed, facts.short, facts.has_critic) == (
        275,
        100,
        8,
        1,
        True,
    )
    assert facts.share == pytest.approx(275 / 500)
    assert facts.describe() == (
        "CartPole-v1 (DQN, the argmax of its critic) makes 275 in 4 episodes, at worst 100, 1 of them short, 55 % of "
        "the best published return 500"
    )


def test_a_short_episode_is_compared_with_the_median() -> None:
    """The mean length is 325, because of one that is long."""
    facts = teacher(
        load_expert("CartPole-v1"), Played([1, 2, 3, 4], [1] * 4, [100, 100, 100, 1_000], 1_300), None
    )
    assert facts.short == 0


def test_the_best_published_return_is_that_of_any_version() -> None:
    assert (
        best_published("LunarLander-v3") == best_published("LunarLander-v2") == pytest.approx(242.1, abs=0.1)
    )
    assert best_published("Identity-v0") is None
    negative = teacher(load_expert("random", env_id="Pendulum-v1"), Played([1], [-1_000.0], [200], 200), None)
    assert negative.share is None


@pytest.mark.parametrize(("trusted", "doubt"), [(0.97, ""), (0.5, ", too few to trust it")])
def test_a_critic_is_trusted_by_the_states_in_which_it_knows_its_expert(trusted: float, doubt: str) -> None:
    facts = teacher(load_expert("Pendulum-v1"), Played([1, 2], [-100, -200], [200, 200], 400), trusted)
    assert (
        f"a critic that puts its action above random ones in {trusted:.0%}".replace("%", " %")
        in facts.describe()
    )
    assert facts.critic.endswith(f"of states{doubt}")


def test_a_fitted_critic_is_judged_where_the_expert_has_none() -> None:
    expert = load_expert("random", env_id="Pendulum-v1")
    played = Played([1, 2], [-100, -200], [200, 200], 400)
    assert teacher(expert, played, None).critic == "without a critic"
    assert teacher(expert, played, None, 0.5).critic == (
        "without a critic; a fitted one puts its action above random ones in 50 % of states, too few to trust it"
    )


def test_the_states_of_the_episodes_judge_the_critic() -> None:
    """Pendulum's expert is an actor with a critic of its own; CartPole's is the argmax of its critic."""
    rng = np.random.default_rng(0)
    watched = Watched(load_expert("Pendulum-v1"))
    assert watched.trusted(0) is None  # nothing was seen yet
    for _ in range(40):
        angle, speed = rng.uniform(-np.pi, np.pi, 8), rng.uniform(-4, 4, 8)
        watched.act(np.stack([np.cos(angle), np.sin(angle), speed], 1).astype(np.float32))
    found = watched.trusted(0)
    assert found is not None
    assert found > 0.8
    watched.expert.oracle = None
    assert watched.trusted(0) is None
    greedy = Watched(load_expert("CartPole-v1"))
    greedy.act(np.zeros((8, 4), np.float32))
    assert greedy.trusted(0) is None


def test_states_are_remembered_as_they_were() -> None:
    """Environments write the next observations into the same array."""
    rng = np.random.default_rng(0)
    watched, copied = (Watched(load_expert("Pendulum-v1")) for _ in range(2))
    obs = np.zeros((8, 3), np.float32)
    for _ in range(5):
        angle, speed = rng.uniform(-np.pi, np.pi, 8), rng.uniform(-4, 4, 8)
        obs[:] = np.stack([np.cos(angle), np.sin(angle), speed], 1)
        watched.act(obs)
        copied.act(obs.copy())
    obs[:] = 0.0
    assert watched.trusted(0) == copied.trusted(0)
