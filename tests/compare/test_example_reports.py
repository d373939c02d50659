"""The committed reports of suites say what their runs say: every number of their tables, from raw returns."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imitate.compare.formatting import number
from imitate.compare.plan.learners import title
from imitate.compare.plan.suite import Suite
from imitate.compare.report.results_table import as_markdown, rows
from imitate.compare.report.suite_tables import suite_rows
from imitate.compare.statistics.aggregate import read_suite
from imitate.compare.statistics.collapse import collapse

EXAMPLES = Path(__file__).parents[2] / "examples"
SEEDS = 5


@pytest.fixture(scope="module", params=["classic", "mujoco"])
def example(request: pytest.FixtureRequest) -> Path:
    return EXAMPLES / str(request.param)


@pytest.fixture(scope="module")
def runs(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(example.name)
    with tarfile.open(example / "runs.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def table(path: Path) -> dict[str, dict[str, str]]:
    """A table in Markdown: cells by row and column."""
    lines = [re.split(r"\s*\|\s*", line.strip("| \n")) for line in path.read_text("utf-8").splitlines()]
    return {row[0]: dict(zip(lines[0], row, strict=False)) for row in lines[2:]}


def raw(runs: Path) -> dict[str, dict[str, Any]]:
    """By environment: returns of random actions, of the expert, and (seeds, episodes) of each learner."""
    found = {}
    for label in Suite.read(runs).parts:
        references = json.loads((runs / label / "references.json").read_text("utf-8"))
        learners: dict[str, list[list[float]]] = {}
        for name, place in json.loads((runs / label / "runs.json").read_text("utf-8")).items():
            result = json.loads((runs / label / place / "result.json").read_text("utf-8"))
            algorithm = name.rpartition("-seed")[0]
            if not algorithm.startswith("gail:"):  # its controls are no learners
                learners.setdefault(algorithm, []).append(result["returns"])
        found[label] = {
            "random": np.array(references["random"]["returns"]),
            "expert": np.array(references["expert"]["measured"]["returns"]),
            "learners": {name: np.array(returns) for name, returns in learners.items()},
        }
    return found


def test_it_is_the_bundled_suite_whole(example: Path, runs: Path) -> None:
    suite = Suite.bundled(example.name)
    assert Suite.read(runs) == suite
    for label, env in raw(runs).items():
        assert set(env["learners"]) == set(suite.parts[label].algorithms)
        assert {returns.shape for returns in env["learners"].values()} == {(SEEDS, 20)}
    found = read_suite(runs)
    assert not [outcome for outcome in found.outcomes.values() if outcome.failures or outcome.missing]


def test_every_number_of_the_table_is_recomputed(example: Path, runs: Path) -> None:
    """In plain NumPy: mean returns; of 20 scores the mean of the middle ten; what they lack to 1; 2,000 draws of seeds
    and episodes in each environment, whose distance is stretched by sqrt(5 / 4) * t(4) / 1.96."""
    shown, data = table(example / "table.md"), raw(runs)
    factor = np.sqrt(5 / 4) * 2.7764451 / 1.9599640
    for name in Suite.bundled(example.name).parts[next(iter(data))].algorithms:
        row = shown[title(name)]
        scores, drawn = np.empty((SEEDS, len(data))), np.empty((2_000, SEEDS, len(data)))
        for column, (label, env) in enumerate(data.items()):
            returns, random, expert = env["learners"][name], env["random"], env["expert"]
            assert row[label].partition(" (")[0] == number(returns.mean())
            scores[:, column] = score(returns.mean(1), random.mean(), expert.mean())
            weights = np.random.default_rng((column, 0)).multinomial(20, [1 / 20] * 20, 2_000) / 20
            seeds = np.random.default_rng((column, SEEDS)).integers(SEEDS, size=(2_000, SEEDS))
            for n, (weight, drawn_seeds) in enumerate(zip(weights, seeds, strict=True)):
                drawn[n, :, column] = score(returns[drawn_seeds] @ weight, random @ weight, expert @ weight)
        value = np.sort(scores.ravel())[5:15].mean()
        assert row["IQM of scores"] == number(value)
        assert row["Optimality gap"] == number(np.maximum(1 - scores, 0).mean())
        low, high = np.percentile(np.sort(drawn.reshape(2_000, -1))[:, 5:15].mean(1), (2.5, 97.5))
        ends = value + factor * (low - value), value + factor * (high - value)
        assert row["95 % interval"] == f"{number(ends[0])} to {number(ends[1])}"
    for label, env in data.items():
        assert shown["Expert"][label] == number(env["expert"].mean())
        assert shown["Random actions"][label] == number(env["random"].mean())


def score(returns: Any, random: float, expert: float) -> Any:
    return (returns - random) / (expert - random)


def test_collapsed_seeds_are_marked(runs: Path) -> None:
    """By eye: one seed of GAIL's in Pendulum is at a tenth of the way, two of SB3's PPO in Acrobot at none of it."""
    found = read_suite(runs)
    if found.name == "classic":
        assert {
            (label, entry.algorithm): collapse(outcome, entry)
            for label, outcome in found.outcomes.items()
            for entry in outcome.learners
            if collapse(outcome, entry)
        } == {
            ("CartPole-v1", "ppo"): "4 of 5 seeds collapsed",
            ("Acrobot-v1", "sb3:ppo"): "2 of 5 seeds collapsed",
            ("Pendulum-v1", "gail"): "1 of 5 seeds collapsed",
            ("MountainCar-v0", "ppo"): "4 of 5 seeds collapsed",
        }


def test_the_tables_are_what_is_written_today(example: Path, runs: Path) -> None:
    found = read_suite(runs)
    columns, lines = suite_rows(found)
    assert as_markdown(lines, columns) == (example / "table.md").read_text("utf-8")
    page = (example / "report.html").read_text("utf-8")
    for row in lines:
        for cell in row.cells.values():
            assert f">{cell.text}</t" in page or cell.text == ""
    for name in ("scores", "cost", "curves", "profiles"):
        assert f'<figure data-name="{name}">' in page
    for label, outcome in found.outcomes.items():
        assert as_markdown(rows(outcome)) == (example / label / "table.md").read_text("utf-8")
        assert (example / label / "report.html").read_text("utf-8").count("<video controls") >= 3


def test_the_results_state_the_scores_of_the_mujoco_suite() -> None:
    """Its interval is recomputed in tests/test_claims.py, from raw returns."""
    shown = table(EXAMPLES / "mujoco" / "table.md")
    results = (EXAMPLES.parent / "benchmarks" / "RESULTS.md").read_text("utf-8")
    for name in ("AggreVaTeD", "DAgger", "BC", "GAIL"):
        assert f"\n| {name} | {shown[name]['IQM of scores']} | " in results


def test_it_is_small(example: Path) -> None:
    assert sum(path.stat().st_size for path in example.rglob("*") if path.is_file()) <= 3_000_000
