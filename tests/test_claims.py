"""Claims of README and RESULTS, recomputed from raw returns: marks of significance, intervals, costs, ages."""

from __future__ import annotations

import json
import math
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from imitate.experts.training.models import zoo_settings
from imitate.training.experiment import Experiment

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "benchmarks" / "results"
ROWS: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "imitate/reproduce/rows.toml").read_text("utf-8"))
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8").partition("## Results")[2].partition("## Adding")[0]


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDS / f"{name}.json").read_text("utf-8"))
    return found


def returns(name: str) -> Any:
    return np.array([seed["returns"] for seed in record(name)["seeds"]])


def cells(text: str, first: str) -> list[list[str]]:
    """Rows of the table whose head begins with this cell."""
    table = re.search(rf"^\| {re.escape(first)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


def numbers(cell: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"[-+]?\d[\d,]*(?:\.\d+)?", cell)]


def p_value(a: Any, b: Any) -> float:
    """p of no difference between two learners (S, E), with random seeds and episodes (two-way), by hand."""
    by_episode = a.mean(0) - b.mean(0)
    parts = [(by_episode.var(ddof=1) / len(by_episode), len(by_episode) - 1)]
    noise = 0.0
    for x in (a, b):
        seeds, episodes = x.shape
        if seeds == 1:  # one policy, such as a teacher
            continue
        parts.append((x.mean(1).var(ddof=1) / seeds, seeds - 1))
        rest = x - x.mean(1, keepdims=True) - x.mean(0) + x.mean()
        noise += (rest**2).sum() / ((seeds - 1) * (episodes - 1)) / (seeds * episodes)
    variance = max(sum(part for part, _ in parts) - noise, *(part for part, _ in parts))
    degrees = variance**2 / sum(part**2 / free for part, free in parts)
    degrees = max(degrees, min(free for part, free in parts if part))
    return float(2 * stats.t.sf(abs(by_episode.mean()) / math.sqrt(variance), degrees))


def holm(p: list[float]) -> list[float]:
    order, adjusted, highest = np.argsort(p), [0.0] * len(p), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, (len(p) - rank) * p[index])
        adjusted[index] = highest
    return adjusted


def rows_of(env: str, expert: str) -> tuple[str, str]:
    """The first rows of AggreVaTeD and DAgger on this task from this teacher."""
    of = {
        algorithm: next(
            name
            for name, row in ROWS.items()
            if (row["algorithm"], row["env"], row.get("expert")) == (algorithm, env, expert.strip("`"))
        )
        for algorithm in ("aggrevated", "dagger")
    }
    return of["aggrevated"], of["dagger"]


def test_bold_learners_are_significantly_better() -> None:
    aggrevated, dagger = 2, 3
    table = re.findall(r"(?m)^\| task \| teacher \| AggreVaTeD .*", RESULTS)
    assert len(table) == 1
    rows = cells(RESULTS[RESULTS.index(table[0]) :], "task")
    pairs = [rows_of(row[0], row[1]) for row in rows]
    adjusted = holm([p_value(returns(a), returns(b)) for a, b in pairs])
    for row, (a, b), p in zip(rows, pairs, adjusted, strict=True):
        better = returns(a).mean() > returns(b).mean()
        assert row[aggrevated].startswith("**") == (p < 0.05 and better), row
        assert row[dagger].startswith("**") == (p < 0.05 and not better), row
    assert 0 < sum(p < 0.05 for p in adjusted) < len(rows)


def test_bold_rows_are_above_their_expert_and_no_others() -> None:
    teachers = record("teachers")["teachers"]
    marked = 0
    for row in cells(RESULTS, "learner"):
        if not row[-1]:
            continue
        name = row[-1].strip("`")
        found = record(name)
        minus = numbers(row[3])
        assert row[1].startswith("**") == (len(minus) == 3 and minus[1] > 0), name
        assert not minus or (len(minus) == 3) == (len(found["seeds"]) >= 3), name
        marked += row[1].startswith("**")
        if minus:
            teacher = found.get("expert_returns") or teachers[found["expert"]]["returns"]
            assert minus[0] == pytest.approx(returns(name).mean() - np.mean(teacher), abs=0.51)
    assert marked > 5


def test_the_frozen_table_has_the_means_of_its_record() -> None:
    found = record("frozen")
    rows, seen = cells(RESULTS, "task and its teacher"), 0
    assert len(rows) == len(found["references"])
    for row, reference in zip(rows, found["references"].values(), strict=True):
        assert numbers(row[2])[0] == pytest.approx(np.mean(reference["teacher"]["returns"]), abs=0.51)
    ends = [seed for row in found["rows"].values() for seed in row["seeds"].values()]
    means = [cell for row in rows for cell in row[3:] if cell]
    assert sum(int(numbers(cell.strip("*"))[-1]) for cell in means) >= len(
        ends
    )  # pure RL has a cell for each teacher
    for cell, seeds in zip(
        (row[3] for row in rows), (row["seeds"] for row in found["rows"].values()), strict=False
    ):
        if seeds:  # the first rows of the record are BC's, which has the first column
            assert numbers(cell)[0] == pytest.approx(
                np.mean([x["returns"] for x in seeds.values()]), abs=0.51
            )
            seen += 1
    assert seen >= 6


def test_the_suites_score_and_its_intervals() -> None:
    """Drawn here one by one, where evidence.py draws all at once."""
    from mujoco_suite import suite_tasks

    tasks, rng, drawn = suite_tasks(), np.random.default_rng(7), []
    point = np.concatenate([task.scores("aggrevated") for task in tasks])
    for _ in range(800):
        scores: list[float] = []
        for task in tasks:
            e = rng.integers(20, size=20)
            low, high = task.random[e].mean(), task.teacher[e].mean()
            for seed in rng.integers(5, size=5):
                scores.append((task.learners["aggrevated"][seed][e].mean() - low) / (high - low))
        drawn.append(stats.trim_mean(scores, 0.25))
    row = next(
        row for row in cells(RESULTS[RESULTS.index("## Whether") :], "learner") if row[0] == "AggreVaTeD"
    )
    assert numbers(row[1])[0] == pytest.approx(stats.trim_mean(point, 0.25), abs=0.005)
    assert numbers(row[3]) == pytest.approx(np.percentile(drawn, (2.5, 97.5)), abs=0.011)
    factor = math.sqrt(5 / 4) * stats.t.ppf(0.975, 4) / 1.96
    value = stats.trim_mean(point, 0.25)
    stretched = value + factor * (np.percentile(drawn, (2.5, 97.5)) - value)
    assert numbers(row[4]) == pytest.approx(stretched, abs=0.016)


def test_a_teacher_of_each_seed_is_paired_with_it() -> None:
    from evidence import minus_teacher

    rng = np.random.default_rng(0)
    teachers = np.array([[-100.0], [0.0], [100.0]]) + rng.normal(0, 5, (3, 40))
    gained = teachers + rng.normal(2, 1, (3, 40))
    seeds = [{"returns": each.tolist()} for each in gained]
    found = minus_teacher({"expert": None, "expert_returns": teachers.tolist(), "seeds": seeds}, {})
    assert found is not None
    assert 0 < found.low < 2 < found.high < 4


def test_fewer_than_three_seeds_have_a_difference_but_no_interval_and_are_never_bold() -> None:
    from shown import figures

    row = {"label": "", "env": "Pendulum-v1"}
    seed = {"returns": [1.0, 2.0, 3.0], "mean": 2.0, "env_steps": 1}
    known = {
        "expert": None,
        "expert_returns": [0.0, 1.0, 2.5],
        "expert_mean": 1.2,
        "mean": 2.0,
        "random": 0.0,
    }
    for seeds, minus in ((1, "+0.8"), (2, "+0.8"), (3, "+0.8 [")):
        shown = figures("row", row, known | {"env": "Pendulum-v1", "seeds": [seed] * seeds}, {})
        assert shown["minus"].startswith(minus)
        assert ("[" in shown["minus"]) == (seeds == 3)
        assert seeds == 3 or not shown["better"]


def test_costs_by_hand() -> None:
    from evidence import Cost, costs

    curves = [
        [(100.0, 10.0, 1.0, 0.4), (200.0, 20.0, 2.0, 0.95), (300.0, 30.0, 3.0, 0.5)],
        [(100.0, 10.0, 1.0, 0.6), (200.0, 20.0, 2.0, 0.7)],
        [(100.0, 10.0, 4.0, 0.9)],
    ]
    assert costs(curves, 0.5) == Cost(100.0, 10.0, 2.0, 3, 3)
    assert costs(curves, 0.9) == Cost(200.0, 20.0, 4.0, 2, 3)  # the second never: it counts as infinite
    assert math.isinf(costs(curves, 0.95).steps)
    assert costs(curves, 0.95).reached == 1


def test_the_readme_shows_at_most_ten_results_of_the_frozen_record_and_marks_what_is_significant() -> None:
    found, plan = record("frozen"), tomllib.loads((ROOT / "benchmarks" / "frozen.toml").read_text("utf-8"))
    columns = {"bc": 3, "dagger": 4, "aggrevated": 5, "loki": 7, "guided": 8}
    tested: dict[tuple[int, int], tuple[float, float]] = {}  # row and column: gain and p-value
    rows = cells(README, "task")
    assert len(rows) <= 10
    for n, row in enumerate(rows):
        name = next(
            name for name, task in plan["tasks"].items() if [task["env"], f"`{task['expert']}`"] == row[:2]
        )
        teacher = np.array([found["references"][name]["teacher"]["returns"]])
        assert numbers(row[2])[0] == pytest.approx(teacher.mean(), abs=0.51)
        for learner, column in columns.items():
            seeds = found["rows"][f"{learner}-{name}"]["seeds"].values()
            got = np.array([seed["returns"] for seed in seeds])
            mean, *counted = numbers(row[column].strip("*"))
            assert (mean, counted or [3 if learner in ("loki", "guided", "tqc") else 5]) == (
                pytest.approx(got.mean(), abs=0.51),
                [len(got)],
            )
            if len(got) >= 3:
                tested[n, column] = float(got.mean() - teacher.mean()), p_value(got, teacher)
        gain = found["rows"][f"aggrevated-{name}"]["seeds"].values()
        got = np.array([seed["returns"] for seed in gain])
        assert numbers(row[6])[0] == pytest.approx(got.mean() - teacher.mean(), abs=0.51)
    adjusted = holm([p for _, p in tested.values()])
    bold = {at for (at, (gain, _)), p in zip(tested.items(), adjusted, strict=True) if gain > 0 and p < 0.05}
    assert bold
    assert bold == {(n, c) for n, row in enumerate(rows) for c in columns.values() if "**" in row[c]}


def test_ages_and_missing_seeds_are_marked() -> None:
    rows = {row[-1].strip("`"): row for row in cells(RESULTS, "learner") if row[-1]}
    older = 0
    for name, row in rows.items():
        found = record(name)
        older += (is_older := "commit" not in found.get("machine", {}))
        assert (row[-2].split(", ")[0] == "older") == is_older  # the code of its first seeds
        got, wanted = len(found["seeds"]), ROWS[name].get("seeds", 3)
        assert (f"{got} of {wanted} seeds" in row[0]) == (got < wanted)
    assert f"{older} of the {len(rows)} rows are marked" in " ".join(RESULTS.split())


def same(then: Any, now: Any) -> bool:
    """Nested settings are compared by the fields that both have."""
    if isinstance(then, dict) and isinstance(now, dict):
        return all(same(then[key], now[key]) for key in then.keys() & now.keys())
    return bool(then == now)


def test_a_row_repeats_the_settings_of_its_record_or_says_otherwise() -> None:
    """Fields that were added since are left out: their defaults keep what was."""
    checked = 0
    for name, row in ROWS.items():
        path = RECORDS / f"{name}.json"
        if not path.exists() or "config" not in (found := record(name)):
            continue
        words = shlex.split(row.get("options", ""))
        given = {word[2:].removeprefix("no-").replace("-", "_") for word in words if word.startswith("--")}
        if "--hyperparameters" in words:
            given |= json.loads(words[words.index("--hyperparameters") + 1]).keys()
        ours, _, theirs = row["algorithm"].partition("sb3:")
        if theirs:
            then, now = found["config"], zoo_settings(theirs, row["env"])
        else:
            then, now = (
                found["config"]["hyperparameters"],
                Experiment.preset(ours, row["env"]).hyperparameters,
            )
        differ = {
            key
            for key in then.keys() & now.keys() - given - {"total_steps", "fqe"}
            if not same(then[key], now[key])
        }
        assert not differ or "settings" in row, f"{name}: {differ}"
        checked += 1
    assert checked > 40


def test_the_best_known_returns_are_those_that_were_published() -> None:
    published = tomllib.loads((ROOT / "experts" / "published.toml").read_text("utf-8"))
    best: dict[str, float] = {}
    for returns_of in published.values():
        for env, (mean, *_) in returns_of.items():
            task = re.sub(r"-v\d+$", "", env)
            best[task] = max(best.get(task, -math.inf), mean)
    known = tomllib.loads((ROOT / "benchmarks" / "known.toml").read_text("utf-8"))["best"]
    checked = 0
    for env, each in known.items():
        task = re.sub(r"-v\d+$", "", env)
        assert each["return"] >= round(best[task], 1)
        if "rl-baselines3-zoo" in each["source"] and "our" not in each["source"]:
            assert each["return"] == pytest.approx(best[task], abs=0.05), env
            checked += 1
    assert checked >= 5
