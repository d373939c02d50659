"""The documentation: its commands are read, its Python runs, its links lead somewhere, its tutorials run.

The fast tests read the commands of all pages, and run the Python of those that are not tutorials, with little training.
The slow ones run the tutorials, except blocks below `<!-- not run: why -->`, and the commands of the algorithms' pages
with few steps. The rows of the experiments' page run in tests/commands/test_reproduce.py.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import imitate
from imitate import cli
from imitate.algorithms import ALGORITHMS
from imitate.commands import described, options
from imitate.commands.parsing import read
from imitate.datasets import SyncVecEnv, collect, make_env
from imitate.training.experiment import Experiment

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "notebooks" not in path.parts)
TUTORIALS = [page for page in PAGES if page.parent.name == "tutorials"]
OTHERS = [
    ROOT / name
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "benchmarks/RESULTS.md",
        "benchmarks/SPEED.md",
    )
]
"""Documents that are pages of the site too, but the changelog, which tells of commands that are gone."""
SHORT = [page for page in PAGES if page.parent.name == "algorithms" and page.stem != "index"]
"""Pages whose commands a slow test runs with few steps."""
BLOCK = re.compile(r"(?ms)^(<!-- not run: [^\n]+ -->\n)?```(bash|python)\n(.*?)^```$")
PLACES = {
    "ALGO": "ppo",
    "NAME": "ppo",
    "ENV": "CartPole-v1",
    "ROW": "dqn-cartpole",
    "FORMAT": "onnx",
    "N": "2",
    "my_module:Name": "cem:CEM",
}
"""Words that stand for the reader's own, and real ones in their place."""
OLDER = "--steps-per-iteration"
"""An option of older code, in the command of a record."""
LITTLE = (
    (r"BCConfig\(\)", "BCConfig(max_updates=5)"),
    (r"((?:DAgger|Trial)Config\()", r"\1updates_per_iteration=2, final_updates=2, "),
    (r"(TrialConfig\()", r"\1fqe_updates=2, "),
    (r"(total_steps|budget)=[\d_]+", r"\1=400"),
    (r"episodes=50", "episodes=2"),
    (r"measure\(\)", "measure(2)"),
)
"""Makes a page's Python short."""


def blocks(path: Path) -> Iterator[tuple[str, str, bool]]:
    """Language, code, and whether the tutorial's test runs it."""
    for unrun, language, code in BLOCK.findall(path.read_text("utf-8")):
        yield language, code, not unrun


def named(code: str) -> str | None:
    """The file that a block of Python is, according to its first line."""
    found = re.match(r"# (\w+\.py)\n", code)
    return found[1] if found else None


def commands(path: Path) -> Iterator[tuple[list[str], bool]]:
    """The words of each command line of `imitate` on a page, and whether it is complete, as in a block of code."""
    text = path.read_text("utf-8")
    lines = [
        (re.sub(r"\s+", " ", line), False) for line in re.findall(r"`imitate ([^`]+)`", BLOCK.sub("", text))
    ]
    for language, code, _ in blocks(path):
        if language == "bash":
            parts = (part.strip() for line in code.splitlines() for part in line.split("&&"))
            lines += [(part.removeprefix("imitate "), True) for part in parts if part.startswith("imitate ")]
    for line, complete in dict.fromkeys(each for each in lines if OLDER not in each[0]):
        written = shlex.split(line, comments=True)
        words = [PLACES.get(word, word) for word in written]
        yield [word for word in words if word != "..."], complete and words == written


class Read(Exception):
    """A command line was understood; nothing is to be done."""


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [*PAGES, *OTHERS], ids=shown)
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
        if "--config" in words:  # which is read first
            config = Path(words[words.index("--config") + 1])
            config.parent.mkdir(parents=True, exist_ok=True)
            Experiment.preset("ppo", "CartPole-v1").write(config)
            config.with_suffix(".toml").write_text(
                'algorithm = "ppo"\nenv_id = "CartPole-v1"\nbudget = 100\n'
            )
        try:
            status = cli.main(words)
        except (Read, SystemExit):  # the latter ends help
            continue
        said = capsys.readouterr().err
        unfinished = not complete and (
            len(words) == 1 or re.search("^imitate: (Missing|which algorithm)|lacks its value", said)
        )
        assert status == 0 or unfinished, f"imitate {shlex.join(words)}: {said}"


def test_the_learners_of_your_algorithm_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _, code, _ in blocks(DOCS / "tutorials" / "your-algorithm.md"):
        if (name := named(code)) is not None:
            (tmp_path / name).write_text(code)
    for line in (
        "collect Pendulum-v1 --episodes 1 --no-measure --out one.h5",
        "train cem:CEM --env CartPole-v1 --budget 200 --num-envs 2 --no-looks --out cem",
        "train awac:AWAC --env Pendulum-v1 --demos one.h5 --budget 400 --learning-starts 100 --no-looks --out awac",
    ):
        assert cli.main(line.split()) == 0


@pytest.mark.parametrize("path", [*PAGES, *OTHERS], ids=shown)
def test_scripts_extras_and_markers_exist(path: Path) -> None:
    text = path.read_text("utf-8")
    for name, arguments in re.findall(r"\bpython ((?:benchmarks|docs|examples)/[\w/.]+)([^`\n]*)", text):
        source = (ROOT / name).read_text("utf-8")
        for option in re.findall(r"(?<=\s)--[\w-]+", arguments):
            spelt = f'"{option}"', option.strip("-").replace("-", "_")
            assert option == "--help" or any(each in source for each in spelt), f"{name} has no {option}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = {each for found in re.findall(r"-e ['\"]\.\[([\w,]+)\]", text) for each in found.split(",")}
    assert extras <= set(project["project"]["optional-dependencies"])
    markers = {each.partition(":")[0] for each in project["tool"]["pytest"]["ini_options"]["markers"]}
    assert set(re.findall(r"\bpytest -m (\w+)", text)) <= markers


@pytest.mark.parametrize("path", [*PAGES, *OTHERS], ids=shown)
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


def test_the_table_of_spaces_has_every_algorithms_actions() -> None:
    rows = re.findall(
        r"(?m)^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", (DOCS / "environments.md").read_text("utf-8")
    )
    said = {name.strip().lower(): actions for names, actions in rows for name in names.split(",")}
    for algorithm in ALGORITHMS.values():
        actions = said.get(algorithm.title.lower(), said["the others"])
        wanted = {"discrete": "Discrete", "continuous": "Box"}.get(algorithm.actions)
        assert actions == wanted if wanted else actions.startswith("Box, Discrete"), algorithm.title


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands around the Python write: demonstrations, and a run on the same environment."""
    folder = tmp_path_factory.mktemp("docs")
    envs = SyncVecEnv([lambda: make_env("LunarLander-v3")])
    spaces = envs.single_observation_space, envs.single_action_space
    expert, info = (
        imitate.load_expert("LunarLander-v3:ppo"),
        imitate.DemoInfo("LunarLander-v3", *spaces, seed=0),
    )
    collect(expert, envs, folder / "demos.h5", info, episodes=2).close()
    imitate.save_policy(folder / "runs" / "dagger" / "policy", imitate.ActorPolicy(*spaces))
    return folder


@pytest.mark.parametrize(
    "path",
    [
        page
        for page in (*PAGES, OTHERS[0])
        if page not in TUTORIALS and "```python" in page.read_text("utf-8")
    ],
    ids=shown,
)
@pytest.mark.usefixtures("own_cache")
def test_the_python_of_a_page_runs(
    path: Path, recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little training and few episodes."""
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for language, code, _ in blocks(path):
        if language == "python":
            for pattern, little in LITTLE:
                code = re.sub(pattern, little, code)
            (tmp_path / "block.py").write_text(code)
            runpy.run_path("block.py", run_name="__main__")


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as MkDocs and code hosts make them."""
    text = re.sub(r"(?ms)^```.*?^```$", "", path.read_text("utf-8"))
    headings = (
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", each) for each in re.findall(r"(?m)^#+ (.+?)\s*$", text)
    )
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    """Also those of documents that are no pages of the site, or lead out of it."""
    dead = []
    for page in (
        *PAGES,
        *OTHERS,
        ROOT / "CHANGELOG.md",
        ROOT / "benchmarks" / "templates" / "README-results.md",
    ):
        origin = ROOT / "README.md" if page.parent.name == "templates" else page
        text = re.sub(r"(?ms)^```.*?^```$|`[^`\n]+`", "`code`", page.read_text("utf-8"))
        for target, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)", text):
            to = origin.parent / target if target else origin
            if not to.exists() or (anchor and to.suffix == ".md" and anchor not in anchors(to)):
                dead.append(f"{shown(page)}: {target}#{anchor}")
    assert not dead


def test_the_reference_has_every_public_name() -> None:
    text = "".join(page.read_text("utf-8") for page in (DOCS / "api").glob("*.md"))
    described = set(re.findall(r"^::: imitate\.(?:[\w.]+\.)?(\w+)$", text, re.MULTILINE))
    assert set(imitate.__all__) - {"ALGORITHMS"} <= described


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2].partition("\nhooks:")[0]
    listed = set(re.findall(r"[\w/-]+\.md$", navigation, re.MULTILINE))
    assert {str(page.relative_to(DOCS)) for page in PAGES} <= listed


def test_home_lists_the_tutorials_in_the_order_of_the_navigation() -> None:
    pattern = re.compile(r"tutorials/[\w-]+\.md")
    assert pattern.findall((DOCS / "index.md").read_text("utf-8")) == pattern.findall(
        (ROOT / "mkdocs.yml").read_text("utf-8")
    )


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path: Path, tmp_path: Path) -> None:
    """As a reader would, in order and in one folder."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "OMP_NUM_THREADS": "1",
    }
    for number, (language, code, runs) in enumerate(blocks(path)):
        file = tmp_path / (named(code) or f"block_{number}.py")
        if language == "python":
            file.write_text(code)
        if not runs or named(code) is not None:
            continue
        command = ["bash", "-ec", code] if language == "bash" else [sys.executable, str(file)]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"


def shortened(line: str) -> str:
    """A command with so few steps that all of a page's take a minute or two."""
    line = re.sub(r"--episodes \d\d+", "--episodes 5", line)
    if not re.match(r"imitate train \w", line):
        return line
    line = re.sub(r" --(budget|max-updates) \w+", "", line)
    return line + (" --max-updates 20" if line.split()[2] in ("bc", "td3bc") else " --budget 6500")


def test_commands_are_shortened() -> None:
    assert (
        shortened("imitate collect X --episodes 50 --out d.h5") == "imitate collect X --episodes 5 --out d.h5"
    )
    assert shortened("imitate train ppo --budget 50k --out r") == "imitate train ppo --out r --budget 6500"
    assert shortened("imitate train bc --demos d.h5") == "imitate train bc --demos d.h5 --max-updates 20"


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("path", SHORT, ids=shown)
def test_the_commands_of_a_page_run(path: Path, tmp_path: Path) -> None:
    """In order and in one folder, with few steps."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "OMP_NUM_THREADS": "1",
    }
    lines = [line for language, code, _ in blocks(path) if language == "bash" for line in code.splitlines()]
    assert lines
    for line in lines:
        done = subprocess.run(
            ["bash", "-ec", shortened(line)],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{shortened(line)}\n{done.stdout}{done.stderr}"


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
        stored = json.loads((DOCS / "notebooks" / f"{name}.ipynb").read_text("utf-8"))
        cells = [(cell["cell_type"], "".join(cell["source"])) for cell in stored["cells"]]
        assert cells == script.cells_of(name), f"{name}: run python docs/notebooks.py"


def test_a_terminal_shows_a_progress_bar_no_more() -> None:
    assert notebooks().printed(" 10%|#   |\r100%|####|\r\ndone\r\n\n") == "done"


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", ["record-and-clone", "dagger"])
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    pytest.importorskip("nbclient", reason='pip install -e ".[notebooks]"')
    script = notebooks()
    done = script.executed(script.notebook(name), tmp_path)
    assert sum(bool(cell.get("outputs")) for cell in done["cells"]) > 3


def test_a_warning_of_mkdocs_fails_the_build() -> None:
    """Quietly it shows none, and --strict counts those that are shown."""
    command = re.search(
        r"^NO_MKDOCS_2_WARNING=1 (mkdocs build .*?)(?: #.*)?$",
        (ROOT / ".ci" / "run").read_text("utf-8"),
        re.M,
    )
    assert command is not None
    assert command[1].split() == ["mkdocs", "build", "--strict"]


@pytest.mark.skipif(shutil.which("mkdocs") is None, reason='no mkdocs here: pip install -e ".[docs]"')
@pytest.mark.slow
def test_the_site_is_built_and_fetches_nothing(tmp_path: Path) -> None:
    subprocess.run(["mkdocs", "build", "--strict", "-d", str(tmp_path)], cwd=ROOT, check=True)
    for page in tmp_path.rglob("*.html"):
        if "files" not in page.relative_to(tmp_path).parts:
            fetched = re.findall(
                r"<(?:script|img|link|iframe)[^>]+(?:src|href)=\"?(https?://[^\" >]+)",
                page.read_text("utf-8"),
            )
            assert not fetched, f"{page.relative_to(tmp_path)} fetches {fetched}"
    reference = re.sub(r"<[^>]+>", "", (tmp_path / "api" / "imitators.html").read_text("utf-8"))
    assert "demos: DemoReader" in reference, "signatures lack types"
