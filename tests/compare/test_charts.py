"""The points of a report's figures, on made-up comparisons that a reader can check."""

from __future__ import annotations

import csv
import tomllib
from dataclasses import replace
from importlib import resources
from itertools import pairwise
from pathlib import Path

import gymnasium as gym
import pytest
from reported import BUDGET, fill, five, outcome, result

from imitate.compare.plan.comparison import POINTS
from imitate.compare.report.charts import Line, as_csv
from imitate.compare.report.colours import looks
from imitate.compare.report.curves import curves, profiles
from imitate.compare.report.estimates import finals, frontier, scores
from imitate.compare.report.figures import balanced, draw, save_figure, spread
from imitate.compare.report.page_data import provenance
from imitate.compare.statistics.aggregate import SuiteOutcome, together
from imitate.compare.statistics.finished_runs import read_outcome
from imitate.compare.statistics.job_results import Point, Result
from imitate.compare.statistics.outcome import Outcome


def line(found: Outcome, name: str) -> Line:
    return next(line for line in curves(found).lines if line.name == name)


def demonstrated(tmp_path: Path, steps: int) -> Outcome:
    """GAIL that paid for demonstrations first: its policy is untrained, at -2, until these steps are spent."""
    out = fill(tmp_path / "out", {"gail": five(390, 410), "ppo": five(100, 180)})
    for path in (out / "runs").glob("gail-seed*"):
        found = Result.load(path)
        assert found is not None
        points = [
            Point(
                0 if not n else max(steps, 100 * n), 200, 2.0 * n, [-2.0 if 100 * n <= steps else 400.0] * 2
            )
            for n in range(POINTS + 1)
        ]
        result(
            "gail", found.seed, found.returns, curve=points, demo_steps=steps, env_steps=BUDGET - steps
        ).save(path)
    return read_outcome(out)


def test_a_learner_with_demonstrations_begins_when_it_has_learned_from_them(tmp_path: Path) -> None:
    points = line(demonstrated(tmp_path, 450), "gail").points["steps"]
    assert points[0][:2] == (500.0, 400.0)
    assert len(points) == POINTS + 1 - 5
    assert len(line(outcome(tmp_path / "without"), "ppo").points["steps"]) == POINTS + 1


def test_the_area_counts_the_untrained_policy_until_all_demonstrations_are_there(tmp_path: Path) -> None:
    """A clone of 400 steps is as good as the expert: a quarter of 0, then 1. Without demonstrations it is a ramp."""
    curve = [
        Point(0, 0, 0.0, [20.0] * 2),
        *(Point(steps, 0, 1.0, [500.0] * 2) for steps in (400, 400, 1_600)),
    ]
    changes = {"curve": curve, "demo_steps": 400, "env_steps": BUDGET - 400}
    found = outcome(tmp_path / "shown", {"gail": five(500, 500)}, changes=changes)
    assert found.area(found.learners[0]) == pytest.approx([0.75] * 5)
    found = outcome(tmp_path / "alone", {"ppo": five(500, 500)}, changes={"curve": curve})
    assert found.area(found.learners[0]) == pytest.approx([0.875] * 5)


def test_separate_trainings_are_steps(tmp_path: Path) -> None:
    found = outcome(tmp_path)
    assert [each.steps for each in curves(found).lines] == [
        True,
        False,
        False,
    ]  # BC takes no steps of its own


def test_the_range_shows_the_bands_but_not_whole_where_few_seeds_make_them_huge(tmp_path: Path) -> None:
    five_seeds = outcome(tmp_path / "five", {"ppo": five(400, 640)})
    low, high = curves(five_seeds).heights
    top = max(point[3] or 0.0 for point in curves(five_seeds).lines[0].points["steps"])
    assert top > 550  # the mean is 520
    assert low < 20 < top < high
    two = outcome(tmp_path / "two", {"ppo": [[190.0, 210.0], [390.0, 410.0]]})
    low, high = curves(two).heights
    assert max(point[3] or 0.0 for point in curves(two).lines[0].points["steps"]) > 1_500
    assert 500 < high < 800
    (mean, *_) = finals(two)
    assert mean.rows[0].bar is not None
    assert mean.rows[0].bar[1] > 1_500
    assert mean.ends == pytest.approx(
        (20 - 240, 500 + 240)
    )  # from random to the expert, and half of it on both sides


def test_a_closer_range_is_offered_if_a_learner_gets_near_the_expert(tmp_path: Path) -> None:
    assert curves(outcome(tmp_path / "a")).near == pytest.approx((500 - 96, 500 + 96))  # a fifth of 20 to 500
    assert curves(outcome(tmp_path / "b", {"ppo": five(100, 180)})).near is None
    assert curves(outcome(tmp_path / "c", expert=None)).near is None


def test_returns_that_are_all_the_same_have_a_range_too(tmp_path: Path) -> None:
    found = outcome(tmp_path, {"ppo": [[20.0, 20.0]]}, expert=None)
    low, high = curves(found).heights
    assert low < 20 < high
    draw([curves(found), *finals(found)], looks(["ppo"]))


def test_the_cost_of_every_goal_is_the_median_seeds(tmp_path: Path) -> None:
    """DAgger goes from 20 to its mean in 16 points of 100 steps and passes 50, 90 and 95 % at points 8, 15 and 16."""
    found = outcome(tmp_path)
    dagger, bc, ppo = frontier(found, "steps").rows
    assert (dagger.name, dagger.text) == ("dagger", "1,600")
    assert dagger.marks == [("50 %", 800.0), ("90 %", 1_500.0), ("95 %", 1_600.0)]
    assert dagger.dots == [1_600.0] * 5
    assert dagger.beyond is None
    assert (bc.name, bc.marks, bc.beyond) == ("bc", [("50 %", 1_100.0)], 1_600.0)
    assert (ppo.marks, ppo.bar, ppo.text) == ([], (1_600.0, 1_600.0), "> 1,600 (0 of 5)")
    assert [row.name for row in frontier(found, "queries").rows] == ["dagger", "bc"]  # PPO asks nobody


def test_the_first_figure_has_a_row_of_runs_for_every_metric(tmp_path: Path) -> None:
    mean, iqm, gap, chance = finals(outcome(tmp_path))
    assert [row.title for row in mean.rows] == ["DAgger", "BC", "PPO"]
    assert mean.rows[1].dots == [390.0, 395.0, 400.0, 405.0, 410.0]
    assert mean.rows[1].marks == [("mean", 400.0)]
    assert iqm.rows[0].marks == [("mean", 1.0)]
    assert gap.rows[2].marks[0][1] == pytest.approx(0.75)  # PPO ends at a quarter
    assert [row.title for row in chance.rows] == ["DAgger over BC", "DAgger over PPO"]
    assert [row.marks[0][1] for row in chance.rows] == [1.0, 1.0]


def test_all_of_the_first_figure_has_the_order_of_the_means(tmp_path: Path) -> None:
    """BC's mean is the best, by one run; DAgger's interquartile mean is. One BC run in five beats DAgger's."""
    means = [100.0, 100.0, 100.0, 100.0, 2_000.0]
    found = outcome(tmp_path, {"dagger": five(200, 200), "bc": [[mean, mean] for mean in means]})
    panels = finals(found)
    assert [[row.name for row in panel.rows] for panel in panels[:3]] == [["bc", "dagger"]] * 3
    assert [row.title for row in panels[3].rows] == ["BC over DAgger"]
    assert panels[3].rows[0].marks == [("mean", pytest.approx(0.2))]


def suite(tmp_path: Path, best: float) -> SuiteOutcome:
    found = outcome(tmp_path, {"dagger": five(best, best), "ppo": five(100, 180)})
    return together("one", {"CartPole-v1": found}, {})


def test_the_profile_reaches_the_largest_score(tmp_path: Path) -> None:
    found = profiles(suite(tmp_path / "a", 20 + 3 * 480))
    assert 3.0 <= found.limit < 3.3
    assert [row.points["score"][-1][1] for row in found.lines] == [0.0, 0.0]
    assert 1.0 <= profiles(suite(tmp_path / "b", 260)).limit < 1.05  # at least the expert's
    assert [panel.title for panel in scores(suite(tmp_path / "c", 500))][:2] == ["Interquartile mean", "Mean"]


def test_every_point_is_in_the_csv(tmp_path: Path) -> None:
    found = outcome(tmp_path)
    rows = list(csv.DictReader(as_csv([curves(found), frontier(found, "steps")]).splitlines()))
    ppo = [row for row in rows if row["learner"] == "PPO" and row["axis"] == "environment steps"]
    assert len(ppo) == POINTS + 1
    assert (ppo[-1]["x"], ppo[-1]["value"], ppo[-1]["what"]) == ("1600.0", "140.0", "mean return")
    assert float(ppo[-1]["low"]) < 140 < float(ppo[-1]["high"])
    assert sum(row["what"] == "run" for row in rows) == 5  # DAgger's seeds at 95 %


def test_names_are_spread_and_rows_are_filled() -> None:
    assert spread([5.0, 5.0, 0.0], 0.0, 10.0, 2.0) == [5.0, 7.0, 0.0]
    assert spread([10.0, 10.0], 0.0, 10.0, 2.0) == [8.0, 10.0]
    assert balanced(4, 3) == [[0, 1], [2, 3]]
    assert balanced(5, 3) == [[0, 1, 2], [3, 4]]
    assert balanced(1, 3) == [[0]]


def test_names_in_the_files_do_not_cover_each_other_or_the_lines(tmp_path: Path) -> None:
    """Four learners end at the expert: their names stand to the right of the axes, each on a line of its own."""
    names = ("bc", "dagger", "aggrevated", "gail", "ppo")
    found = outcome(tmp_path, {name: five(499, 501) for name in names})
    figure = draw([curves(found)], looks(names))
    (axes,) = figure.axes
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == 7  # the expert and random too
    assert all(box.x0 > axes.get_window_extent().x1 for box in boxes)
    heights = sorted((box.y0, box.y1) for box in boxes)
    assert all(a[1] <= b[0] + 1 for a, b in pairwise(heights))


def test_files_of_a_figure_are_the_same_every_time(tmp_path: Path) -> None:
    found = outcome(tmp_path)
    styles = looks(found.comparison.algorithms)
    first = save_figure(tmp_path / "a", "curves", [curves(found)], styles)
    assert first.startswith(b"%PDF")
    assert first == save_figure(tmp_path / "b", "curves", [curves(found)], styles)
    assert (tmp_path / "a" / "curves.png").read_bytes() == (tmp_path / "b" / "curves.png").read_bytes()


def test_a_link_in_place_of_a_figures_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    found, mine, folder = outcome(tmp_path), tmp_path / "mine", tmp_path / "figures"
    mine.write_text("mine")
    folder.mkdir()
    for kind in ("pdf", "png", "csv"):
        (folder / f"curves.{kind}").symlink_to(mine)
    save_figure(folder, "curves", [curves(found)], looks(found.comparison.algorithms))
    assert mine.read_text() == "mine"
    assert sorted(path.name for path in folder.iterdir()) == ["curves.csv", "curves.pdf", "curves.png"]


def test_provenance_names_the_commit_the_seeds_and_the_source_of_the_settings(tmp_path: Path) -> None:
    out = fill(tmp_path / "out", {"bc": five(390, 410), "ppo": five(100, 180)})
    for path in (out / "runs").glob("bc-*"):
        found = Result.load(path)
        assert found is not None
        replace(found, machine={"commit": "0123456789ab"}, settings_from="preset of this environment").save(
            path
        )
    first, second = provenance({"": read_outcome(out)})
    assert {name: first[name] for name in ("learner", "commit", "seeds", "settings")} == {
        "learner": "BC", "commit": "0123456789ab", "seeds": "0 to 4", "settings": "preset of this environment"
    }  # fmt: skip
    assert (second["learner"], second["commit"], second["settings"]) == ("PPO", "unknown", "unknown")


def test_a_cell_says_whether_its_settings_were_chosen_on_its_seeds(tmp_path: Path) -> None:
    """BC's presets record no seeds; DAgger's of CartPole were chosen on seeds 0 to 2, SQIL's on others."""
    runs = {name: five(390, 410) for name in ("bc", "dagger", "sqil", "ppo")}
    out = fill(tmp_path / "out", runs, hyperparameters={"ppo": {"gamma": 0.9}})
    said = {row["name"]: row["chosen_on"] for row in provenance({"": read_outcome(out)})}
    assert said == {
        "bc": "no record",
        "dagger": "these seeds: 0 to 2",
        "sqil": "other seeds: 10 to 25, 30 to 41 and 56 to 71",
        "ppo": "not known",
    }


def test_seeds_that_chose_settings_are_seeds_of_environments() -> None:
    files = resources.files("imitate.training") / "presets"
    recorded = {
        file.name: tomllib.loads(file.read_text("utf-8")).get("chosen_on", {}) for file in files.iterdir()
    }
    assert sum(map(bool, recorded.values())) > 5
    for table in recorded.values():
        for env_id, seeds in table.items():
            assert env_id in gym.registry
            assert seeds == sorted({*seeds})
