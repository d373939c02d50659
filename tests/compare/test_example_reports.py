"""The committed reports of suites say what their runs say: every number of their tables, from raw returns."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imitate.compare.aggregate import read_suite
from imitate.compare.learners import title
from imitate.compare.suite import Suite
from imitate.compare.suite_tables import suite_rows
from imitate.compare.tables import as_markdown, rows
from imitate.compare.words import number

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
    lines = [re.split(r"\s*\|\s*", line.strip("| \n")) for line in path.read_text().splitlines()]
    return {row[0]: dict(zip(lines[0], row, strict=False)) for row in lines[2:]}


def raw(runs: Path) -> dict[str, dict[str, Any]]:
    """By environment: returns of random actions, of the expert, and (seeds, episodes) of each learner."""
    found = {}
    for label in Suite.read(runs).parts:
        references = json.loads((runs / label / "references.json").read_text())
        learners: dict[str, list[list[float]]] = {}
        for name, place in json.loads((runs / label / "runs.json").read_text()).items():
            result = json.loads((runs / label / place / "result.json").read_text())
            algorithm = name.rpartition("-seed")[0]
            if not algorithm.startswith("gail:"):  # its controls are no learners
                learners.setdefault(algorithm, []).append(result["returns"])
        found[label] = {
            "random": np.mean(references["random"]["returns"]),
            "expert": np.mean(references["expert"]["measured"]["returns"]),
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
    in each environment."""
    shown, data = table(example / "table.md"), raw(runs)
    order = Suite.bundled(example.name).parts[next(iter(data))].algorithms
    for place, name in enumerate(order):
        row = shown[title(name)]
        scores = np.empty((SEEDS, len(data)))
        for column, (label, env) in enumerate(data.items()):
            returns = env["learners"][name]
            assert row[label] == number(returns.mean())
            scores[:, column] = (returns.mean(1) - env["random"]) / (env["expert"] - env["random"])
        assert row["IQM of scores"] == number(np.sort(scores.ravel())[5:15].mean())
        assert row["Optimality gap"] == number(np.maximum(1 - scores, 0).mean())
        drawn = np.random.default_rng(place).integers(SEEDS, size=(2_000, SEEDS, len(data)))
        middle = [np.sort(scores[draw, range(len(data))].ravel())[5:15].mean() for draw in drawn]
        low, high = np.percentile(middle, (2.5, 97.5))
        assert row["95 % interval"] == f"{number(low)} to {number(high)}"
    for label, env in data.items():
        assert shown["Expert"][label] == number(env["expert"])
        assert shown["Random actions"][label] == number(env["random"])


def test_the_tables_are_what_is_written_today(example: Path, runs: Path) -> None:
    found = read_suite(runs)
    columns, lines = suite_rows(found)
    assert as_markdown(lines, columns) == (example / "table.md").read_text()
    page = (example / "report.html").read_text()
    for row in lines:
        for cell in row.cells.values():
            assert f">{cell.text}</t" in page or cell.text == ""
    for name in ("scores", "cost", "curves", "profiles"):
        assert f'<figure data-name="{name}">' in page
    for label, outcome in found.outcomes.items():
        assert as_markdown(rows(outcome)) == (example / label / "table.md").read_text()
        assert (example / label / "report.html").read_text().count("<video controls") >= 3


def test_the_readme_states_the_scores_of_the_mujoco_suite() -> None:
    """Its interval is recomputed in tests/test_claims.py, from raw returns."""
    shown = table(EXAMPLES / "mujoco" / "table.md")
    readme = " ".join((EXAMPLES.parent / "README.md").read_text().split())
    score = {name: row["IQM of scores"] for name, row in shown.items()}
    assert f"AggreVaTeD scores {score['AggreVaTeD']} (95 % interval " in readme
    assert f"DAgger {score['DAgger']}, BC {score['BC']}, and GAIL {score['GAIL']}." in readme


def test_it_is_small(example: Path) -> None:
    assert sum(path.stat().st_size for path in example.rglob("*") if path.is_file()) <= 3_000_000
