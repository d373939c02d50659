"""The README and the documents of benchmarks/ agree with the records, and the files that they name exist."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2
import numpy as np
import pytest

from imitate.algorithms import ALGORITHMS
from imitate.compare.statistics.intervals import drawn_scores
from imitate.reproduce.summaries import Summary, read_summaries

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "benchmarks" / "results"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts there import one another."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module", autouse=True)
def drawn_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Scores of the same returns are drawn once for all documents, of which they take half the time, and a template is
    compiled once."""
    known: dict[Any, Any] = {}

    def once(*returns: Any, **options: Any) -> Any:
        arrays = [np.asarray(each, float) for each in returns]
        key = (*((each.shape, each.tobytes()) for each in arrays), *sorted(options.items()))
        if key not in known:
            known[key] = drawn_scores(*returns, **options)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        patch.setattr("evidence.drawn_scores", once)
        compiled = jinja2.FileSystemBytecodeCache(str(tmp_path_factory.mktemp("templates")))
        patch.setattr("jinja2.Environment", partial(jinja2.Environment, bytecode_cache=compiled))
        yield


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_documents_are_what_the_records_say() -> None:
    for path, text in script("results").documents().items():
        assert path.read_text("utf-8") == text, (
            f"{path.name} is out of date: run python benchmarks/results.py"
        )


CHANGED = {
    "aggrevated-bipedalwalker-ppo": ("1234.5", "RESULTS.md"),
    "half-trained": ("2345.5", "RESULTS.md"),
    "speed": ("3456.5", "SPEED.md"),
    "bc-cartpole-30-pairs": ("4567.5", "bc.md"),
}
"""Records, the figure that takes the place of all of theirs, and a document that shows it."""


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, str]:
    """The documents of changed records, which take seconds."""
    records = shutil.copytree(RECORDS, tmp_path_factory.mktemp("changed") / "results")
    for record, (figure, _) in CHANGED.items():
        path = records / f"{record}.json"
        path.write_text(re.sub(r"\d+\.\d+", figure, path.read_text("utf-8")))
    frozen = json.loads((records / "frozen.json").read_text("utf-8"))
    for seed in frozen["rows"]["dagger-ant-trpo"]["seeds"].values():
        seed["returns"] = [1_234.5] * len(seed["returns"])
    (records / "frozen.json").write_text(json.dumps(frozen))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        found: dict[Path, str] = script("results").documents(records)
    return found


@pytest.mark.parametrize("record", CHANGED)
def test_another_figure_in_a_record_is_another_document(record: str, changed: dict[Path, str]) -> None:
    figure, document = CHANGED[record]
    shown = f"{float(figure):,.0f}", f"{int(float(figure)):,}", figure
    (path,) = (path for path in changed if path.name == document)
    assert any(each in changed[path] for each in shown)
    assert not any(each in path.read_text("utf-8") for each in shown)


def test_the_readme_shows_the_frozen_record(changed: dict[Path, str]) -> None:
    lines = changed[ROOT / "README.md"].splitlines()
    assert "| 1,234 |" in next(line for line in lines if "zoo:trpo/Ant-v3" in line)


def test_two_seeds_are_shown_without_an_interval() -> None:
    row = script("results").ROWS["bc-cartpole-30-pairs"]
    assert row["algorithm"] == "bc"
    for means, ci95, shown in (
        ((1.0, 3.0), None, "| 2.0 (1.0, 3.0) |  |"),
        ((1.0,), None, "| 1.0 |  |"),
        ((1.0, 2.0, 3.0), (0.5, 3.5), "| 2.0 | 0.5 to 3.5 |"),
    ):
        short = Summary(means=means, ci95=ci95, expert=None, random=0.0, steps=10, minutes=1.0)
        assert shown in script("results").table_of("bc", {"bc-cartpole-30-pairs": short})
    assert all(len(each.means) > 2 for each in read_summaries().values() if each.ci95)


def test_a_rows_commands_are_those_of_its_record() -> None:
    for name, row in script("table").read_rows().items():
        path = RECORDS / f"{name}.json"
        if not path.exists():
            continue
        first = json.loads(path.read_text("utf-8"))["seeds"][0]
        recorded, ours = (
            first["commands"],
            row.commands(row.first_seed, "cuda" if "device" in first else None),
        )
        assert [sorted(shlex.split(c)) for c in recorded] == [sorted(shlex.split(c)) for c in ours]


def test_atari_rows_name_their_protocol() -> None:
    rows = [row for row in script("table").read_rows().values() if row.env.startswith("ALE/")]
    assert rows
    for row in rows:
        sticky = row.env_kwargs["repeat_action_probability"]
        assert row.protocol.startswith(f"sticky actions {sticky:g}, ")


def test_every_record_is_shown_or_linked() -> None:
    texts = [(ROOT / "benchmarks" / name).read_text("utf-8") for name in ("RESULTS.md", "SPEED.md")]
    for path in RECORDS.glob("*.json"):
        shown = f"`{path.stem}`" in texts[0] or f"(results/{path.name})" in texts[0]
        assert shown or path.stem.startswith("speed") or path.name in texts[1], path.name


def test_the_readme_lists_every_algorithm() -> None:
    table = (ROOT / "README.md").read_text("utf-8").partition("## Algorithms")[2].partition("## Install")[0]
    assert set(ALGORITHMS) <= set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE))


def test_links_within_the_repository_lead_somewhere() -> None:
    documents = [path for folder in (".", "benchmarks", "docs") for path in (ROOT / folder).glob("*.md")]
    for document in documents:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_the_readmes_commands_run(tmp_path: Path) -> None:
    """As a stranger would, in order and in one folder: the quickstart, the commands, then the Python."""
    text = (ROOT / "README.md").read_text("utf-8")
    bash = re.findall(r"(?s)```bash\n(.*?)```", text)[2]
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    for command in ("imitate quickstart", *bash.splitlines()):
        subprocess.run(shlex.split(command), cwd=tmp_path, env=environment, check=True)
    for block in re.findall(r"(?s)```python\n(.*?)```", text):
        (tmp_path / "block.py").write_text(block)
        subprocess.run([sys.executable, "block.py"], cwd=tmp_path, check=True)
    assert (tmp_path / "quickstart" / "report.html").exists()
    assert (tmp_path / "report" / "report.html").exists()
