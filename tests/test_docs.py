"""The documentation: its commands are read, its Python compiles, its pages are linked, and the cheap tutorials run."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import imitate
from imitate import cli
from imitate.commands import described, options
from imitate.commands.parsing import read

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "notebooks" not in path.parts)
BLOCK = re.compile(r"(?ms)^(<!-- not run: [^\n]+ -->\n)?```(bash|python)\n(.*?)^```$")
RUN = (
    *("record-and-clone", "dagger", "aggrevated", "gail", "improve", "compare", "your-environment"),
    *("your-algorithm", "robot-arm", "data-formats", "use-the-policy"),
)
"""Tutorials that take minutes at most."""


def blocks(path: Path) -> Iterator[tuple[str, str, bool]]:
    """Language, code, and whether the tutorial's test runs it."""
    for unrun, language, code in BLOCK.findall(path.read_text()):
        yield language, code, not unrun


def named(code: str) -> str | None:
    """The file that a block of Python is, according to its first line."""
    found = re.match(r"# (\w+\.py)\n", code)
    return found[1] if found else None


def commands(path: Path) -> Iterator[tuple[list[str], bool]]:
    """The words of each command line of `imitate` on a page, and whether it is complete, as in a block of code."""
    text = path.read_text()
    inline = re.findall(r"`imitate ([^`]+)`", BLOCK.sub("", text))
    lines = [(re.sub(r"\s+", " ", line), False) for line in inline]
    for language, code, _ in blocks(path):
        if language == "bash":
            parts = (part.strip() for line in code.splitlines() for part in line.split("&&"))
            lines += [(part.removeprefix("imitate "), True) for part in parts if part.startswith("imitate ")]
    for line, complete in lines:
        words = shlex.split(line, comments=True)
        pattern = any(re.fullmatch(r"(hub:)?[A-Z/]+|my_module:\w+|\.\.\.", word) for word in words)
        of_a_run = words[0] == "train" and {"--resume", "--config"} & {*words}  # which is read first
        if not pattern and not of_a_run:
            yield words, complete


class Read(Exception):
    """A command line was understood; nothing is to be done."""


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_every_command_is_understood(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def only_read(*arguments: Any) -> None:
        read(*arguments)
        raise Read

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(options, "read", only_read)
    monkeypatch.setattr(described, "read", only_read)
    for page in (path, DOCS / "tutorials" / "your-environment.md", DOCS / "tutorials" / "your-algorithm.md"):
        for _, code, _ in blocks(page):
            if (name := named(code)) is not None:
                (tmp_path / name).write_text(code)
    for words, complete in commands(path):
        try:
            status = cli.main(words)
        except (Read, SystemExit):  # the latter ends help
            continue
        said = capsys.readouterr().err
        unfinished = not complete and (
            len(words) == 1 or re.search("^imitate: (Missing|which algorithm)|lacks its value", said)
        )
        assert status == 0 or unfinished, f"imitate {shlex.join(words)}: {said}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_every_snippet_compiles_and_its_imports_resolve(path: Path) -> None:
    files = {named(code) for _, code, _ in blocks(path)} - {None}
    for language, code, _ in blocks(path):
        if language != "python":
            continue
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "imitate":
                module = importlib.import_module(str(node.module))
                missing = [each.name for each in node.names if not hasattr(module, each.name)]
                assert not missing, f"{node.module} has no {missing}"
            elif isinstance(node, ast.Import):
                names = [each.name for each in node.names if f"{each.name}.py" not in files]
                assert all(importlib.util.find_spec(name) for name in names), names


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(DOCS)}: {target}"


def test_the_reference_has_every_public_name() -> None:
    text = "".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    described = set(re.findall(r"^::: imitate\.(?:[\w.]+\.)?(\w+)$", text, re.MULTILINE))
    assert set(imitate.__all__) - {"ALGORITHMS"} <= described


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].partition("\nhooks:")[0]
    listed = set(re.findall(r"[\w/-]+\.md$", navigation, re.MULTILINE))
    assert {str(page.relative_to(DOCS)) for page in PAGES} <= listed


def test_home_lists_the_tutorials_in_the_order_of_the_navigation() -> None:
    pattern = re.compile(r"tutorials/[\w-]+\.md")
    assert pattern.findall((DOCS / "index.md").read_text()) == pattern.findall(
        (ROOT / "mkdocs.yml").read_text()
    )


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", RUN)
def test_a_tutorial_runs(name: str, tmp_path: Path) -> None:
    """As a reader would, in order and in one folder."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "OMP_NUM_THREADS": "1",
    }
    for number, (language, code, runs) in enumerate(blocks(DOCS / "tutorials" / f"{name}.md")):
        path = tmp_path / (named(code) or f"block_{number}.py")
        if language == "python":
            path.write_text(code)
        if not runs or named(code) is not None:
            continue
        command = ["bash", "-ec", code] if language == "bash" else [sys.executable, str(path)]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"


def notebooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_notebooks_are_what_their_tutorials_say() -> None:
    script = notebooks()
    for name in script.TUTORIALS:
        stored = json.loads((DOCS / "notebooks" / f"{name}.ipynb").read_text())
        cells = [(cell["cell_type"], "".join(cell["source"])) for cell in stored["cells"]]
        assert cells == script.cells_of(name), f"{name}: run python docs/notebooks.py"


def test_a_terminal_shows_a_progress_bar_no_more() -> None:
    assert notebooks().printed(" 10%|#   |\r100%|####|\r\ndone\r\n\n") == "done"


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", ["record-and-clone", "dagger"])
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    pytest.importorskip("nbclient", reason="pip install -e '.[notebooks]'")
    script = notebooks()
    done = script.executed(script.notebook(name), tmp_path)
    assert sum(bool(cell.get("outputs")) for cell in done["cells"]) > 3


@pytest.mark.skipif(shutil.which("mkdocs") is None, reason="no mkdocs here: pip install -e '.[docs]'")
@pytest.mark.slow
def test_the_site_is_built_and_fetches_nothing(tmp_path: Path) -> None:
    subprocess.run(["mkdocs", "build", "-q", "--strict", "-d", str(tmp_path)], cwd=ROOT, check=True)
    for page in tmp_path.rglob("*.html"):
        if "files" not in page.relative_to(tmp_path).parts:
            fetched = re.findall(
                r"<(?:script|img|link|iframe)[^>]+(?:src|href)=\"?(https?://[^\" >]+)", page.read_text()
            )
            assert not fetched, f"{page.relative_to(tmp_path)} fetches {fetched}"
