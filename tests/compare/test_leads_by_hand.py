"""Leads of a suite whose draws are known."""

from __future__ import annotations

from pathlib import Path

from reported import five
from test_suite import fill

from imitate.compare.statistics.aggregate import leads, read_suite


def test_who_is_always_ahead_is_so_in_every_draw(tmp_path: Path) -> None:
    found = read_suite(fill(tmp_path, {"CartPole-v1": {"bc": five(480, 500), "ppo": five(20, 68)}}))
    (lead,) = leads(found.aggregates)
    assert (lead.improvement.value, lead.improvement.low, lead.improvement.high) == (1.0, 1.0, 1.0)


def test_a_lead_is_drawn_with_the_same_seeds_and_episodes_for_both(tmp_path: Path) -> None:
    """The seeds of both differ by 300, and each of one by 24 from the same of the other: 24 / 480 in every draw but for
    the scale, which is 477 to 483."""
    found = read_suite(fill(tmp_path, {"CartPole-v1": {"bc": five(124, 424), "ppo": five(100, 400)}}))
    (lead,) = leads(found.aggregates)
    assert 0.049 < lead.iqm.low <= lead.iqm.value <= lead.iqm.high < 0.051
    assert lead.certain
