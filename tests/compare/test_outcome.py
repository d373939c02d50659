"""The report's numbers: what was reached, when, and how far from random to the expert."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reported import fill, five, outcome, result

from imitate.compare.plan.comparison import POINTS
from imitate.compare.report.page_data import VIDEO_BYTES, films, tiles
from imitate.compare.report.report import write_report
from imitate.compare.report.results_table import rows, runs_csv
from imitate.compare.statistics.entry import Entry
from imitate.compare.statistics.finished_runs import merged, read_outcome
from imitate.compare.statistics.job_results import Point, Result
from imitate.compare.statistics.verdict import answer, cost_words, warnings
from imitate.errors import InputError
from imitate.files import read_json, write_json


def test_results_are_read_back(tmp_path: Path) -> None:
    bc, dagger, ppo = outcome(tmp_path).learners
    assert (bc.title, dagger.title, ppo.title) == ("BC", "DAgger", "PPO")
    assert (bc.mean, ppo.mean) == (400.0, 140.0)
    assert bc.average("cpu_seconds") == 14.0
    assert ppo.worst == 95.0  # of ten episodes the worst
    assert ppo.typical.seed == 2
    # the lower of the two in the middle
    assert Entry("ppo", ppo.results[:4]).typical.seed == 1
    assert [entry.imitates for entry in (bc, dagger, ppo)] == [True, True, False]


@pytest.mark.filterwarnings("error")
def test_the_largest_returns_are_read_back(tmp_path: Path) -> None:
    """A reward is at most float32's largest number, and an episode has a million steps here."""
    largest = float(np.finfo(np.float32).max) * 1e6
    runs = {"dagger": [[largest, 0.9 * largest], [0.8 * largest] * 2], "ppo": [[-largest] * 2, [0.0] * 2]}
    found = outcome(tmp_path, runs, expert=largest)
    assert [entry.mean for entry in found.ranked()] == pytest.approx([0.875 * largest, -0.5 * largest])
    assert all(
        math.isfinite(each) for pair in found.pairs for each in (pair.mean, pair.low, pair.high, pair.p)
    )
    assert "DAgger ended at 88 %, PPO at −50 %" in answer(found).sentence


def test_a_run_that_failed_to_play_more_test_episodes_has_failed(tmp_path: Path) -> None:
    """It has two, and four were asked for since: `imitate compare` then ends with status 1."""
    out = fill(tmp_path / "out", {"ppo": [[500.0, 500.0]]})
    path = out / "comparison.json"
    write_json(path, read_json(path, dict[str, Any]) | {"episodes": 4})
    write_json(out / "errors" / "ppo-seed0.json", {"error": "ppo-seed0: it has no policy", "traceback": ""})
    assert read_outcome(out).failures == ["ppo-seed0: it has no policy"]


def test_a_failure_is_that_of_the_learner_with_the_whole_name(tmp_path: Path) -> None:
    out = fill(tmp_path / "out", {"ppo": five(1, 2), "ppo@wide": five(1, 2)[:4]})
    write_json(out / "errors" / "ppo@wide-seed4.json", {"error": "ppo@wide-seed4: it fell"})
    found = read_outcome(out)
    assert (found.failed("ppo"), found.failed("ppo@wide")) == (0, 1)


def test_a_failure_is_that_of_the_seed_with_the_whole_number(tmp_path: Path) -> None:
    """Seed 1 of PPO has ended, and seed 10 has not."""
    learners = {"ppo": five(1, 2) + five(1, 2)[:4], "a2c": five(1, 2) * 2}
    out = fill(tmp_path / "out", learners, first_seed=1)
    write_json(out / "errors" / "ppo-seed10.json", {"error": "ppo-seed10: it fell"})
    assert read_outcome(out).failures == ["ppo-seed10: it fell"]


@pytest.mark.parametrize("linked", ["bc.mp4", "bc.jpg"])
def test_a_film_that_is_a_link_is_left_out(linked: str, tmp_path: Path) -> None:
    """It could bring any file of the reader's machine into the report that they pass on."""
    out = fill(tmp_path / "out")
    for name in ("bc", "ppo"):
        write_json(out / "videos" / f"{name}.json", {"episode_return": 1.0})
        for kind in ("mp4", "jpg"):
            (out / "videos" / f"{name}.{kind}").write_bytes(b"")
    (tmp_path / "secret").write_text("secret")
    (out / "videos" / linked).unlink()
    (out / "videos" / linked).symlink_to(tmp_path / "secret")
    assert [*read_outcome(out).videos] == ["ppo"]


def test_a_poster_is_as_small_as_a_film(tmp_path: Path) -> None:
    """A page holds both, and a file that takes no room on a disk may claim gigabytes."""
    out = fill(tmp_path / "out")
    write_json(out / "videos" / "bc.json", {"episode_return": 1.0})
    (out / "videos" / "bc.mp4").write_bytes(b"")
    with (out / "videos" / "bc.jpg").open("wb") as poster:
        poster.truncate(VIDEO_BYTES + 1)
    assert [film["poster"] for film in films(read_outcome(out))] == [""]


def test_less_than_a_second_is_not_shown_as_none(tmp_path: Path) -> None:
    curve = [Point(100 * n, 50 * n, 0.02 * n, [500.0 * (n == POINTS)] * 2) for n in range(POINTS + 1)]
    shown = {each["title"]: each["value"] for each in tiles(outcome(tmp_path, changes={"curve": curve}))}
    assert (shown["Steps to 95 % of the expert"], shown["CPU seconds to 95 %"]) == ("1,600", "0.32")


def test_share_is_of_the_way_from_random_to_expert(tmp_path: Path) -> None:
    found = outcome(tmp_path)
    assert [found.share(value) for value in (20.0, 500.0, 260.0)] == [0.0, 1.0, 0.5]
    hopeless = outcome(tmp_path / "hopeless", expert=20.0)
    assert hopeless.share(400.0) is None
    assert "The expert (20) is no better than random actions" in " ".join(warnings(hopeless))


def test_the_steps_to_a_goal_are_censored_at_the_budget(tmp_path: Path) -> None:
    returns = {"dagger": [[500.0, 500.0], [500.0, 500.0], [260.0, 260.0]], "ppo": five(100, 180)[:3]}
    found = outcome(tmp_path, returns)
    dagger, ppo = found.learners
    # 1/16 of the way is gained every 100 steps: 95 % needs all 16 parts, 50 % eight; the third seed ends at 50 %.
    assert found.to_reach(dagger, 0.95) == [1_600, 1_600, None]
    assert found.to_reach(dagger, 0.5, "queries") == [400, 400, 800]
    assert found.to_reach(dagger, 0.5, "cpu_seconds") == [16.0, 16.0, 32.0]
    assert cost_words(found, dagger, 0.95) == "1,600 (2 of 3 seeds)"
    assert cost_words(found, ppo, 0.5) == "> 1,600 (0 of 3 seeds)"
    assert found.area(dagger) == pytest.approx([0.5, 0.5, 0.25])


@pytest.mark.usefixtures("undrawn")
def test_goals_that_the_curves_can_not_measure_are_not_called_missed(tmp_path: Path) -> None:
    """The expert is better than random actions in the test, and by bad luck not on the curves' few episodes."""
    out = fill(tmp_path / "out")
    found = read_json(out / "references.json", dict[str, Any])
    found["expert"]["measured"]["curve"] = [20.0, 20.0]
    write_json(out / "references.json", found)
    assert [tile["title"] for tile in tiles(read_outcome(out))] == ["Best minus expert, paired"]
    assert 'id="cost"' not in write_report(out).read_text("utf-8")


def test_the_cells_of_the_table(tmp_path: Path) -> None:
    """DAgger passes 50, 90 and 95 % of the way from 20 to 500 at points 8, 15 and 16 of its curve."""
    found = outcome(tmp_path)
    dagger, bc, ppo, *_ = rows(found)
    names = ("Steps to 50 %", "Steps to 90 %", "Steps to 95 %", "Answers to 95 %", "CPU s to 95 %")
    assert [dagger.cells[name].value for name in names] == [800.0, 1_500.0, 1_600.0, 800.0, 32.0]
    assert [ppo.cells[name].text for name in names[:4]] == ["> 1,600 (0 of 5 seeds)"] * 3 + ["–"]
    others = ("Worst 10 %", "Area under share", "Seeds", "CPU seconds", "Own steps", "Demo steps")
    assert [dagger.cells[name].text for name in others] == ["495", "50 %", "5", "14", "1,600", "0"]
    # Flat steps to 400 in the mean: 120 / 256 of 380 / 480.
    assert bc.cells["Area under share"].text == "37 %"
    # BC's seed 0 gets 385 and 395: 370 of the 480 from random actions to the expert.
    _, first, second, *_ = runs_csv(found).splitlines()
    share = repr(370 / 480)
    assert first == f"bc,0,390.0,5.0,385.0,{share},390.0,800,0,1600,12.0"
    assert second.startswith("bc,1,395.0,5.0,390.0,")


def test_luck_before_learning_and_what_was_lost_again_are_no_success(tmp_path: Path) -> None:
    """Untrained policies balance a pole now and then: "reaches 95 % with 0 steps" was said of one that ended at 0 %."""
    out = fill(tmp_path / "out", {"ppo": five(20, 20), "a2c": five(20, 20)})
    for name, lucky in (("ppo", 0), ("a2c", 3)):
        for path in (out / "runs").glob(f"{name}-*"):
            found = Result.load(path)
            assert found is not None
            points = [
                Point(100 * n, 0, 2.0 * n, [500.0 if n == lucky else 20.0] * 2) for n in range(POINTS + 1)
            ]
            result(name, found.seed, found.returns, curve=points).save(path)
    found = read_outcome(out)
    ppo, a2c = found.learners
    assert found.to_reach(ppo, 0.95) == [None] * 5
    assert found.to_reach(a2c, 0.95) == [300.0] * 5
    best = found.ranked()[0].title
    assert f"{best} ended at 0 % after 1,600 steps" in answer(found).sentence


@pytest.mark.usefixtures("undrawn")
def test_folders_are_reported_together(tmp_path: Path) -> None:
    a = fill(tmp_path / "a", {"bc": five(390, 410)})
    b = fill(tmp_path / "b", {"ppo": five(100, 180), "bc": five(0, 0)})
    found = read_outcome(a, b)
    assert [entry.algorithm for entry in found.learners] == ["bc", "ppo"]
    assert found.learners[0].mean == 400.0  # the first folder's
    write_report(a, b, out=tmp_path / "both")
    assert (tmp_path / "both" / "report.html").is_file()
    other = fill(tmp_path / "other", {"ppo": five(1, 2)}, budget=5_000)
    with pytest.raises(
        InputError, match=r"other can't be reported together .*: its budget is 5000, not 1600"
    ):
        read_outcome(a, other)


def test_folders_with_other_seeds_are_all_of_their_seeds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a = fill(tmp_path / "a", {"bc": five(390, 410)[:2]})
    b = fill(tmp_path / "b", {"bc": five(390, 410)[:3]}, first_seed=2)
    both = read_outcome(a, b).comparison
    assert (both.first_seed, both.seeds) == (0, 5)
    (bc,) = read_outcome(b, a).learners
    assert [result.seed for result in bc.results] == [0, 1, 2, 3, 4]
    assert "have the seeds" not in caplog.text


def test_seeds_far_apart_are_counted_and_what_finished_elsewhere_did_not_fail(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = fill(tmp_path / "one", {"bc": five(390, 410)[:2]})
    other = fill(tmp_path / "other", {"bc": five(390, 410)[:2]}, first_seed=1_000_000)
    write_json(one / "errors" / "bc-seed1000000.json", {"error": "bc-seed1000000: boom", "traceback": ""})
    found = read_outcome(one, other)
    assert found.comparison.seeds == len(found.learners[0].results) == 4
    assert (
        "have the seeds 0, 1, 1000000, 1000001: the command on the page repeats as many from 0" in caplog.text
    )
    assert not found.failures


def test_a_curve_of_other_episodes_is_one_line(tmp_path: Path) -> None:
    out = fill(tmp_path / "out", {"bc": five(390, 410)})
    place = out / read_json(out / "runs.json", dict[str, str])["bc-seed3"]
    damaged = Result.load(place)
    assert damaged is not None
    damaged.curve[4].returns.pop()
    damaged.save(place)
    with pytest.raises(InputError, match=r"the curve of bc-seed3 .* is not that of its comparison"):
        read_outcome(out)


def test_folders_with_other_settings_are_not_one_learner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a = fill(tmp_path / "a", {"ppo": five(1, 2)}, hyperparameters={"ppo": {"learning_rate": 1e-3}})
    b = fill(tmp_path / "b", {"ppo": five(1, 2)}, hyperparameters={"ppo": {"learning_rate": 3e-4}})
    with pytest.raises(InputError, match=r"ppo has .*; run it there as ppo@label"):
        read_outcome(a, b)
    own = fill(tmp_path / "own", {"ppo@own": five(1, 2)})
    both = fill(
        tmp_path / "both", {"ppo": [], "ppo@own": five(1, 2)}, hyperparameters={"ppo": {"gamma": 0.9}}
    )
    with pytest.raises(
        InputError, match=r"ppo@own has .*gamma.*; run it there as ppo@label"
    ):  # which it has from ppo
        read_outcome(own, both)
    merged([read_outcome(each).comparison for each in (a, own)], [a, own])
    assert "repeats ppo@own with another folder's settings too" in caplog.text
    c = fill(tmp_path / "c", {"bc": five(1, 2)}, demo_every=20)
    with pytest.raises(InputError, match="its demo_every is 20, not 1"):
        read_outcome(a, c)


def test_folders_with_experts_of_other_weights_are_not_reported_together(tmp_path: Path) -> None:
    """A path can name one file here and another on the second machine."""
    a, b = fill(tmp_path / "a", {"bc": five(1, 2)}), fill(tmp_path / "b", {"ppo": five(1, 2)})
    found = read_json(b / "references.json", dict[str, Any])
    found["expert"]["sha256"] = "f" * 64
    write_json(b / "references.json", found)
    with pytest.raises(
        InputError, match="its expert has the sha256 ffffffffffffffff, not 0123456789abcdef; run it"
    ):
        read_outcome(a, b)


@pytest.mark.parametrize(
    ("ours", "theirs", "got", "wanted"),
    [
        ("weights statistics", "weights others", "others", "statistics"),
        ("weights", "weights statistics", "statistics", "none"),
        ("code", "othercode", "othercode", "code"),
    ],
)
def test_folders_with_other_statistics_or_code_are_not_reported_together(
    tmp_path: Path, ours: str, theirs: str, got: str, wanted: str
) -> None:
    """A vecnormalize.pkl and an environment of one's own can differ under one name too."""
    a, b = fill(tmp_path / "a", {"bc": five(1, 2)}), fill(tmp_path / "b", {"ppo": five(1, 2)})
    for folder, made_from in ((a, ours), (b, theirs)):
        found = read_json(folder / "references.json", dict[str, Any])
        write_json(folder / "references.json", found | {"made_from": made_from})
    with pytest.raises(InputError, match=f"code of your own has the sha256 {got}, not {wanted}; run it"):
        read_outcome(a, b)


def test_folders_of_versions_that_noted_weights_only_are_reported_together(tmp_path: Path) -> None:
    a, b = fill(tmp_path / "a", {"bc": five(1, 2)}), fill(tmp_path / "b", {"ppo": five(1, 2)})
    found = read_json(b / "references.json", dict[str, Any])
    write_json(b / "references.json", found | {"made_from": "0123456789abcdef" * 4 + " statistics"})
    assert len(read_outcome(a, b).learners) == 2


def test_the_last_policy_is_tested_on_the_common_episodes(tmp_path: Path) -> None:
    a = fill(tmp_path / "a", {"bc": [[4.0, 8.0, 9.0]]}, changes={"last_returns": [1.0, 5.0, 9.0]}, episodes=3)
    b = fill(tmp_path / "b", {"ppo": [[4.0, 8.0]]})
    bc, _ = read_outcome(a, b).learners
    assert (bc.results[0].returns, bc.results[0].last_returns) == ([4.0, 8.0], [1.0, 5.0])


def test_validations_are_spent_and_the_last_policy_has_returns_of_its_own() -> None:
    steps = {"env_steps": 1_000, "demo_steps": 200, "validation_steps": 400}
    found = result("sqil", 0, [4.0, 8.0], last_returns=[1.0, 5.0], **steps)
    assert (found.spent, found.mean, found.last_mean) == (1_600, 6.0, 3.0)
    assert result("sqil", 0, [4.0, 8.0]).last_mean == 6.0


def test_an_infinite_setting_is_kept_as_a_word(tmp_path: Path) -> None:
    """REINFORCE's max_grad_norm: JSON has no infinity."""
    result("reinforce", 0, [1.0, 2.0], hyperparameters={"max_grad_norm": math.inf}).save(tmp_path)
    found = Result.load(tmp_path)
    assert found is not None
    assert found.hyperparameters == {"max_grad_norm": "inf"}


def test_damaged_results_are_one_line(tmp_path: Path) -> None:
    out = fill(tmp_path / "out")
    (out / "runs" / "bc-seed0-0123456789" / "result.json").write_text('{"env_id": 3}')
    with pytest.raises(InputError, match=r"result\.json can't be read: Expected `str`, got `int`"):
        read_outcome(out)
