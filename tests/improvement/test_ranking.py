"""Ranking: the first of the order that nobody is clearly ahead of goes on."""

from __future__ import annotations

from imitate.improvement.ranking import ranked


def played(*returns: float) -> dict[int, float]:
    return dict(enumerate(returns))


def test_a_clear_lead_decides() -> None:
    assert ranked(["a", "b"], {"a": played(1, 2, 3), "b": played(11, 12.5, 13)}) == ["b", "a"]


def test_the_order_decides_where_episodes_cannot() -> None:
    """b's lead of 3.3 on average has a standard error of 3.3."""
    assert ranked(["a", "b"], {"a": played(10, 20, 30), "b": played(10, 20, 40)}) == ["a", "b"]


def test_three_episodes_need_a_larger_lead() -> None:
    """154 on average with a standard error of 93 is 1.65 of these, and three episodes need 4.3."""
    returns = {"a": played(-77, 137, 96), "b": played(237, 128, 253)}
    assert ranked(["a", "b"], returns) == ["a", "b"]
    more = {"a": played(*[-77, 137, 96] * 4), "b": played(*[237, 128, 253] * 4)}
    assert ranked(["a", "b"], more) == ["b", "a"]


def test_a_lead_of_less_than_three_percent_does_not_decide() -> None:
    assert ranked(["a", "b"], {"a": played(100, 200, 300), "b": played(102, 202, 302)}) == ["a", "b"]


def test_only_episodes_that_all_have_played_count_for_the_leader() -> None:
    """b has played three more, in which it did badly; in the three of both it is ahead."""
    returns = {"a": played(1, 2, 3), "b": played(11, 12.5, 13, -99, -99, -99)}
    assert ranked(["a", "b"], returns) == ["b", "a"]


def test_a_long_validation_is_compared_with_a_short_one() -> None:
    """Three episodes are less than half of b's seven, but all that a has played."""
    returns = {"a": played(1, 2, 3), "b": played(11, 12.5, 13, -99, -99, -99, -99)}
    assert ranked(["a", "b"], returns) == ["b", "a"]


def test_of_fewer_than_three_episodes_the_order_is_kept() -> None:
    assert ranked(["a", "b"], {"a": played(1, 2), "b": played(100, 200)}) == ["a", "b"]
