"""The installed files, the floors of the imports, and the cost of help."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import imitate
from imitate.algorithms import ALGORITHMS

ROOT = Path(__file__).parent.parent


def test_the_wheel_installs_nothing_outside_imitate(tmp_path: Path) -> None:
    """A top-level `datasets` would overwrite Hugging Face's package of that name."""
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"imitate"}
    for folder, installed in (("imitate", ""), ("datasets", "imitate/"), ("experts", "imitate/")):
        sources = {f"{installed}{path.relative_to(ROOT)}" for path in (ROOT / folder).rglob("*.py")}
        assert sources <= set(names)
    for needed in (
        "imitate/py.typed",
        "imitate/compare/report/page/report.html",
        "imitate/compare/plan/suites/classic.toml",
        "imitate/improvement/page/improve.html",
        "imitate/export/model_card.md",
        "imitate/training/presets/ppo.toml",
        "imitate/envs/tasks/cart_pole.urdf",
        "imitate/experts/training/presets/tqc.toml",
        "imitate/experts/bundled/CartPole-v1/policy.safetensors",
        "imitate/datasets/storage/writer.py",
    ):
        assert needed in names


MISTAKES = [
    *(["train", name, "--env", "CartPole-v1", "--no-such-option"] for name in ALGORITHMS),
    ["train", "ppo", "--env", "CartPol-v1", "--out", "o"],
    ["train", "ppo", "--env", "CartPole-v1", "--gamma", "1.5", "--out", "o"],
    ["train", "bc", "--env", "CartPole-v1", "--out", "o"],
    ["collect", "CartPole-v1", "--episode", "3", "--out", "o"],
    ["collect", "CartPole-v1", "--out", "o"],
    ["evaluate", "run", "--episodes", "few"],
    ["compare", "--env", "CartPole-v1", "--algorithms", "pppo", "--out", "o"],
    ["compare", "clasic", "--out", "o"],
    ["improve", "CartPole-v1", "--env", "CartPol-v1", "--budget", "9000", "--out", "o"],
    ["improve", "CartPole-v1", "--env", "CartPole-v1", "--out", "o"],
    ["tune", "ppo", "--env", "CartPol-v1", "--out", "o"],
    ["tune", "ppo", "--env", "CartPole-v1", "--seed", "3", "--out", "o"],
    ["expert", "shwo", "CartPole-v1"],
    ["data", "inof", "demos.h5"],
    ["report"],
]


def test_help_and_mistakes_import_no_torch() -> None:
    """Torch takes more than a second, which nobody should wait for to read of a misspelt option."""
    script = f"""
import sys
from imitate.cli import main
main(["--help"])
for mistake in {MISTAKES}:
    assert main(mistake) == 2, mistake
    assert "torch" not in sys.modules, mistake
try:
    main(["train", "aggrevated", "--env", "CartPole-v1", "--help"])
except SystemExit:
    sys.exit("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_learner_and_its_config_can_be_imported_from_the_package() -> None:
    named = {path.rpartition(":")[2] for each in ALGORITHMS.values() for path in (each.path, each.settings)}
    assert named <= set(imitate.__all__)


def test_dir_lists_what_can_be_imported() -> None:
    assert set(imitate.__all__) <= set(dir(imitate))
    for name in imitate.__all__:
        assert getattr(imitate, name) is not None, name


@cache
def imports_of(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Found without a look into expressions, which hold none and are most of the nodes."""
    found: list[ast.Import | ast.ImportFrom] = []
    nodes: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        nodes += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
    return found


FLOORS = (
    ("errors", "own_code", "terminal"),
    ("files", "hub"),
    ("toml",),
    ("configs",),
    ("envs",),
    ("datasets",),
    ("nn",),
    ("experts",),
    ("rl", "media"),
    ("imitators",),
    ("aggrevated",),
    ("algorithms",),
    ("training",),
    ("compare", "reproduce", "export", "tune"),
    ("improvement",),
    ("commands",),
    ("cli",),
    ("__main__",),
)
"""From the ground up. A module may import from its own floor and from those below."""


def test_no_import_runs_upward() -> None:
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    sources = {folder: (ROOT / folder).rglob("*.py") for folder in ("datasets", "experts")}
    sources |= {path.stem: [path] for path in (ROOT / "imitate").glob("*.py") if path.stem != "__init__"}
    folders = [path for path in (ROOT / "imitate").iterdir() if path.is_dir() and path.name != "__pycache__"]
    sources |= {folder.name: folder.rglob("*.py") for folder in folders}
    assert set(sources) == set(floor), "a module or folder that the floors do not name"
    for place, paths in sources.items():
        for path in paths:
            for node in imports_of(path):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("imitate."):
                    imported = [node.module.split(".")[1]]
                elif isinstance(node, ast.ImportFrom) and node.module == "imitate":
                    imported = [alias.name for alias in node.names]
                elif isinstance(node, ast.Import):
                    whole = [alias.name.split(".") for alias in node.names]
                    imported = [parts[1] for parts in whole if parts[0] == "imitate" and len(parts) > 1]
                else:
                    continue
                for name in imported:
                    assert floor[name] <= floor[place], (
                        f"{path.relative_to(ROOT)} imports {name}, which is above it"
                    )


def imports() -> dict[str, set[str]]:
    """The imports of our modules among themselves, for types alone too."""
    paths = {"imitate": ROOT / "imitate"} | {
        f"imitate.{name}": ROOT / name for name in ("datasets", "experts")
    }
    modules = {}
    for above, folder in paths.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            modules[".".join((above, *parts)).removesuffix(".__init__")] = path
    found: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for node in imports_of(path):
            if isinstance(node, ast.ImportFrom) and not node.level:
                below = {f"{node.module}.{alias.name}" for alias in node.names} & modules.keys()
                found[name] |= below or {str(node.module)} & modules.keys()
            elif isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names} & modules.keys()
    return {name: needed - {name} for name, needed in found.items()}


def test_no_modules_import_each_other() -> None:
    """CycleError names the circle."""
    TopologicalSorter(imports()).prepare()


def test_the_readme_names_files_that_exist() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for path in re.findall(r"\]\(((?!https?:)[^)#]+)\)", text):
        assert (ROOT / path).exists(), path


def test_bundled_experts_are_small() -> None:
    weights = list((ROOT / "experts" / "bundled").glob("*/policy.safetensors"))
    assert len(weights) >= 6
    assert all(path.stat().st_size < 4 << 20 for path in weights)
    assert not os.path.lexists(ROOT / "shared")
