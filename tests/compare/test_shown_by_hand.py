"""The words and points that a report shows, on made-up returns, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from reported import fill, five, outcome, result

from imitate.compare.plan.comparison import POINTS
from imitate.compare.report.curves import curves
from imitate.compare.report.estimates import finals
from imitate.compare.report.page_data import machines, matrix_cell, pairs_matrix, provenance, tiles
from imitate.compare.statistics.aggregate import Estimate
from imitate.compare.statistics.finished_runs import read_outcome
from imitate.compare.statistics.job_results import Point, Result
from imitate.compare.statistics.outcome import Outcome
from imitate.compare.statistics.verdict import answer, cost_words, warnings
from imitate.files import read_json, write_json


def curve(**columns: list[float]) -> list[Point]:
    """A curve with a value at each of its points; the costs are 0 if none are given."""
    zero = [0.0] * len(columns["returns"])
    steps, queries = (map(int, columns.get(name, zero)) for name in ("steps", "queries"))
    seconds = columns.get("cpu_seconds", zero)
    returns = ([each] * 2 for each in columns["returns"])
    return [Point(*point) for point in zip(steps, queries, seconds, returns, strict=True)]


def changed(out: Path, name: str, **seeds_changes: Any) -> Outcome:
    """The comparison with other results of a learner: `seed0=...` and so on, each with a curve."""
    for seed, points in seeds_changes.items():
        (path,) = (out / "runs").glob(f"{name}-{seed}-*")
        found = Result.load(path)
        assert found is not None
        replace(found, curve=points).save(path)
    return read_outcome(out)


# --- costs


def test_the_least_cost_is_that_in_steps(tmp_path: Path) -> None:
    """DAgger gets there first, and BC with fewer answers."""
    out = fill(tmp_path / "out", {"bc": five(500, 500)[:1], "dagger": five(500, 500)[:1]})
    changed(out, "bc", seed0=curve(steps=[0, 400], queries=[0, 100], returns=[20, 500]))
    found = changed(out, "dagger", seed0=curve(steps=[0, 300], queries=[0, 250], returns=[20, 500]))
    assert answer(found).sentence.endswith(
        "DAgger reached 95 % of the expert at the least cost: 250 expert answers and 300 steps."
    )


def test_seconds_have_a_fraction_if_they_are_few(tmp_path: Path) -> None:
    out = fill(tmp_path / "out", {"ppo": five(500, 500)[:1]})
    for seconds, said in ((12.34, "12.3"), (123.4, "123")):
        points = curve(steps=[0, 100], cpu_seconds=[0, seconds], returns=[20, 500])
        found = changed(out, "ppo", seed0=points)
        assert cost_words(found, found.learners[0], 0.95, "cpu_seconds") == said


def test_a_cost_that_was_not_reached_is_that_of_the_longest_run(tmp_path: Path) -> None:
    out = fill(tmp_path / "out", {"ppo": five(20, 20)[:2]})
    short, long = (curve(steps=[0, steps], returns=[20, 20]) for steps in (1_500, 1_600))
    found = changed(out, "ppo", seed0=long, seed1=short)
    assert cost_words(found, found.learners[0], 0.95) == "> 1,600 (0 of 2 seeds)"


# --- words


def test_the_answer_counts_the_seeds_of_the_learner_with_fewer(tmp_path: Path) -> None:
    found = outcome(tmp_path, {"bc": five(100, 480), "ppo": five(120, 470)[:3]})
    assert "; 3 seeds do not tell them apart: " in answer(found).sentence


def test_the_answer_names_the_first_pair_that_can_not_be_told_apart(tmp_path: Path) -> None:
    """BC is certainly ahead of PPO, but not of A2C, whose seeds differ."""
    wide = [[each - 5, each + 5] for each in (20.0, 20.0, 500.0, 500.0, 260.0)]
    found = outcome(tmp_path, {"bc": five(500, 500), "ppo": five(300, 300), "a2c": wide})
    assert answer(found).sentence.startswith("Can't tell yet: BC ended at 100 %, A2C at 50 %")


def test_a_useless_expert_is_not_called_weak_too(tmp_path: Path) -> None:
    out = fill(tmp_path / "out", {"ppo": five(100, 180)}, expert=20.0)
    text = read_json(out / "references.json", dict[str, Any])
    text["expert"]["published_return"] = 500.0
    write_json(out / "references.json", text)
    assert warnings(read_outcome(out)) == [
        "The expert (20) is no better than random actions: shares mean nothing."
    ]


# --- tiles and pairs


def test_only_imitators_have_a_least_number_of_answers(tmp_path: Path) -> None:
    """PPO gets there too, with none."""
    found = outcome(tmp_path, {"dagger": five(500, 500), "ppo": five(500, 500)})
    assert {"title": "Expert answers to 95 %", "value": "800", "who": "DAgger"} in tiles(found)
    alone = outcome(tmp_path / "alone", {"ppo": five(500, 500)})
    assert [tile["title"] for tile in tiles(alone)] == [
        *("Steps to 95 % of the expert", "CPU seconds to 95 %", "Best minus expert, paired")
    ]


def test_the_best_learner_meets_the_expert_on_the_test_episodes(tmp_path: Path) -> None:
    """Means 390 to 410: standard error sqrt(62.5 / 5) = 3.536, times 2.776 = 9.8. Episodes cancel: each is 5 below and
    5 above, as the expert's are."""
    *_, best = tiles(outcome(tmp_path, {"bc": five(390, 410), "ppo": five(20, 60)}))
    assert (best["value"], best["who"]) == ("−100", "BC: −109.8 to −90.2")
    *_, best = tiles(outcome(tmp_path / "one", {"bc": five(410, 410)[:1]}))
    assert (best["value"], best["who"]) == ("−90", "BC: one seed: no interval")


def test_a_row_of_the_matrix_minus_each_column(tmp_path: Path) -> None:
    found = pairs_matrix(outcome(tmp_path, {"ppo": five(100, 180), "bc": five(390, 410)}))
    assert found["across"] == ["BC", "PPO", "Expert"]
    bc, ppo = found["rows"]
    assert [cell and (cell["mean"], cell["chance"]) for cell in bc["cells"]] == [
        *(None, ("+260", "100 %"), ("−100", "0 %"))
    ]
    assert [cell and (cell["mean"], cell["kind"]) for cell in ppo["cells"]] == [
        *(("−260", "worse"), None, ("−360", "worse"))
    ]
    assert (bc["color"], ppo["color"]) == (1, 0)


def test_a_cell_is_open_from_5_percent_on() -> None:
    kinds = [
        matrix_cell(Estimate(gain, gain - 1, gain + 1), 0.5, p)["kind"]
        for gain, p in ((2, 0.049), (-2, 0.049), (2, 0.05), (2, float("nan")))
    ]
    assert kinds == ["better", "worse", "open", "open"]


# --- figures


def test_a_curve_begins_once_every_seed_has_its_demonstrations(tmp_path: Path) -> None:
    """The second seed's took 650 steps, so its first point afterwards is that of 700."""
    out = fill(tmp_path / "out", {"gail": five(390, 410)[:2]}, audit=False)
    for seed, steps in enumerate((450, 650)):
        (path,) = (out / "runs").glob(f"gail-seed{seed}-*")
        points = curve(
            steps=[0.0] + [max(steps, 100.0 * n) for n in range(1, POINTS + 1)],
            returns=[20.0] * (POINTS + 1),
        )
        result("gail", seed, [400.0] * 2, curve=points, demo_steps=steps, env_steps=1_600 - steps).save(path)
    (line,) = curves(read_outcome(out)).lines
    assert line.points["steps"][0][0] == 700.0


def test_a_score_above_1_has_no_gap(tmp_path: Path) -> None:
    """980 is twice the way from 20 to 500; 260 is half of it."""
    _, _, gap, _ = finals(outcome(tmp_path, {"bc": five(980, 980), "ppo": five(260, 260)}))
    assert [row.dots for row in gap.rows] == [[0.0] * 5, [0.5] * 5]


def test_a_row_says_its_value_and_its_interval(tmp_path: Path) -> None:
    """Means 390 to 410: the same 9.8 as above, and episodes that are 5 below and above."""
    mean, *_ = finals(outcome(tmp_path, {"bc": [[mean, mean] for mean in (390, 395, 400, 405, 410)]}))
    assert [row.text for row in mean.rows] == ["400  [390.2, 409.8]"]
    mean, *_ = finals(outcome(tmp_path / "one", {"bc": [[400.0, 400.0]]}))
    assert [(row.text, row.bar) for row in mean.rows] == [("400", None)]


# --- provenance


def test_two_neighbouring_seeds_are_no_range(tmp_path: Path) -> None:
    for count, said in ((2, "0 and 1"), (3, "0 to 2")):
        (row,) = provenance({"": outcome(tmp_path / said, {"ppo": five(1, 2)[:count]})})
        assert row["seeds"] == said


def test_each_machine_is_named_once(tmp_path: Path) -> None:
    found = outcome(tmp_path)
    other = outcome(tmp_path / "other", changes={"machine": {"cpu": "a 286", "os": "DOS"}})
    assert machines([found, other]) == ["a 286 · DOS", "a 486 · Linux"]


def test_the_first_folders_film_is_shown(tmp_path: Path) -> None:
    folders = [fill(tmp_path / name, {name: five(1, 2)}) for name in ("bc", "ppo")]
    for shown, folder in enumerate(folders):
        write_json(folder / "videos" / "expert.json", {"episode_return": float(shown)})
        (folder / "videos" / "expert.mp4").write_bytes(b"")
    assert read_outcome(*folders).videos == {"expert": (folders[0] / "videos" / "expert.mp4", 0.0)}


def test_episodes_that_the_expert_did_not_play_are_left_out(tmp_path: Path) -> None:
    """The third episode is an outlier that was added later, and only the expert's two are there."""
    out = fill(tmp_path / "out", {"bc": [[390.0, 410.0, 9_000.0]]}, episodes=3)
    text = read_json(out / "references.json", dict[str, Any])
    text["random"] |= {"returns": [18.0, 22.0, 80.0], "lengths": [10] * 3}
    write_json(out / "references.json", text)
    found = read_outcome(out)
    assert (found.comparison.episodes, found.learners[0].mean, found.random_mean) == (2, 400.0, 20.0)
