"""Learners whose seeds fall into two groups are marked, and their mean does not stand alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from reported import five, outcome

from imitate.compare.report.report import write_report
from imitate.compare.statistics.collapse import collapse, lower_group, mean_words
from imitate.compare.statistics.verdict import answer, warnings


@pytest.mark.parametrize(
    ("means", "below"),
    [
        ([0.02, 0.95, 0.97, 1.0, 1.01], 1),
        ([0.0, 0.05, 0.9, 0.95, 1.0], 2),
        ([0.13, 0.23, 0.25, 0.32, 0.95], 4),
        ([0.7, 0.95, 0.97, 1.0, 1.01], 0),  # 0.25 apart: less than a third of the way
        ([0.0, 0.25, 0.5, 0.75, 1.0], 0),  # spread out
        ([0.1, 0.3, 0.8, 0.9, 1.0], 2),  # 0.5 apart, the groups 0.2 wide
        ([0.0, 0.3, 0.8, 0.9, 1.0], 0),  # 0.5 apart, but the lower group is 0.3 wide
        ([0.0, 1.0], 0),  # two are no groups
        ([0.0, 1.0, 1.0], 1),
    ],
)
def test_two_groups_are_a_third_of_the_way_and_twice_their_width_apart(
    means: list[float], below: int
) -> None:
    assert lower_group(means, span=1.0) == below
    assert lower_group([100 * mean - 50 for mean in reversed(means)], span=100.0) == below


COLLAPSED = {"dagger": [[20.0, 20.0], *five(490, 500)[:4]], "ppo": five(100, 180)}
"""DAgger's seeds end at 20, 490, 492.5, 495 and 497.5: 399 in the mean, where none of them is."""


@pytest.mark.usefixtures("undrawn")
def test_a_collapsed_seed_is_said_wherever_the_mean_is(tmp_path: Path) -> None:
    found = outcome(tmp_path, COLLAPSED)
    dagger, ppo = found.learners
    assert (collapse(found, dagger), collapse(found, ppo)) == ("1 of 5 seeds collapsed", "")
    assert (mean_words(found, dagger), mean_words(found, ppo)) == ("399 (1 of 5 seeds collapsed)", "140")
    assert (
        "DAgger: 1 of 5 seeds collapsed (20, 490, 492.5, 495 and 497.5). Its mean describes neither group of seeds."
    ) in warnings(found)
    assert "DAgger ended at 79 % (1 of 5 seeds collapsed), PPO at 25 %" in answer(found).sentence
    page = write_report(tmp_path / "out")
    assert "| DAgger | 399 (1 of 5 seeds collapsed) |" in page.with_name("table.md").read_text("utf-8")
    assert '"title":"DAgger","text":"399 (1 of 5 seeds collapsed)"' in page.read_text(
        "utf-8"
    )  # the first figure
    said = json.loads(page.with_name("summary.json").read_text("utf-8"))["algorithms"]
    assert (said["dagger"]["collapsed"], said["ppo"]["collapsed"]) == ("1 of 5 seeds collapsed", None)


def test_the_way_begins_at_random_actions(tmp_path: Path) -> None:
    """A gap of 25 is more than a third of the 60 from 20 to 80, and less than a third of 80."""
    found = outcome(tmp_path, {"ppo": [[50.0, 50.0], *[[75.0, 75.0]] * 4]}, expert=80.0)
    assert collapse(found, found.learners[0]) == "1 of 5 seeds collapsed"


def test_without_an_expert_the_way_ends_at_the_best_run(tmp_path: Path) -> None:
    found = outcome(tmp_path, {"ppo": [[20.0, 20.0], *five(490, 500)[:4]], "a2c": five(20, 60)}, expert=None)
    assert [collapse(found, entry) for entry in found.learners] == ["1 of 5 seeds collapsed", ""]
