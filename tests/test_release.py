"""The files around the package: workflows, pins, and what is built for an index."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from imitate.commands.table import COMMANDS

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text("utf-8").splitlines()
    pairs = [line.split(" ")[0].split("==") for line in lines if line and not line.startswith("#")]
    return {package.lower().replace("_", "-"): version for package, version in pairs}


def commands(workflow: Path) -> Iterator[str]:
    jobs = yaml.safe_load(workflow.read_text("utf-8"))["jobs"]
    for job in jobs.values():
        if "uses" in job:  # another workflow
            assert (ROOT / job["uses"]).is_file()
        for step in job.get("steps", []):
            assert ("run" in step) != ("uses" in step), step
            yield from step.get("run", "").splitlines()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_what_workflows_call_exists(workflow: Path) -> None:
    named = list(commands(workflow))
    assert named
    for command in named:
        for path in re.findall(r"(?:^|\s)((?:\.ci|tests)/[\w/.]+)", command):
            assert (ROOT / path).exists(), path
        for extra in re.findall(r"-e ['\"]\.\[([\w,]+)\]", command):
            assert set(extra.split(",")) <= set(PROJECT["optional-dependencies"])
        for subcommand in re.findall(r"\bimitate (\w+)", command):
            assert subcommand in COMMANDS


def test_linux_runs_the_readmes_test_command() -> None:
    """With Python 3.11 through .ci/run, which takes it from there."""
    _, _, readme = (ROOT / "README.md").read_text("utf-8").partition("<!-- test command -->\n```bash\n")
    install, tests = readme.partition("\n")[0].split(" && ")[-2:]
    named = list(commands(ROOT / ".github" / "workflows" / "ci.yml"))
    assert {".ci/run", install, tests} <= set(named)


def test_other_files_for_contributors() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == PROJECT["version"]
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
        assert path.stem == "config" or {"name", "description", "body"} <= form.keys()
    (ruff,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert ruff["rev"] == f"v{pins('constraints.txt')['ruff']}"


def test_the_lowest_versions_are_the_bounds() -> None:
    lowest, least = pins("constraints-lowest.txt"), {}
    extras = [PROJECT["optional-dependencies"][name] for name in ("export", "formats", "tune", "zstd")]
    for requirement in sum(extras, PROJECT["dependencies"]):
        name, bound = re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)$", requirement).groups()  # type: ignore[union-attr]
        least[name] = bound
    assert lowest.keys() == least.keys()
    for name, bound in least.items():
        if name != "torch":  # constraints-lowest.txt says why
            assert re.sub(r"(\.0)+$", "", lowest[name]) == re.sub(r"(\.0)+$", "", bound), name


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.skipif(find_spec("build") is None or find_spec("twine") is None, reason="needs build and twine")
def test_what_is_built_installs_alone(tmp_path: Path) -> None:
    """The wheel is built from the sdist, so this holds what the build needs."""
    subprocess.run([sys.executable, "-m", "build", "-o", str(tmp_path / "dist"), str(ROOT)], check=True)
    (wheel,), (sdist,) = (tmp_path / "dist").glob("*.whl"), (tmp_path / "dist").glob("*.tar.gz")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)], check=True)
    with tarfile.open(sdist) as files:
        folders = {name.split("/")[1] for name in files.getnames() if name.count("/") > 1}
    assert folders == {"experts", "datasets", "imitate", "imitate_rl.egg-info"}
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "alone")], check=True)
    installed = tmp_path / "alone" / ("Scripts" if sys.platform == "win32" else "bin")
    pip = [str(installed / "pip"), "install", "-q", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    subprocess.run(pip, check=True, cwd=tmp_path)
    for command in ("quickstart --help", "doctor", "collect CartPole-v1 --episodes 2 --out demos.h5"):
        subprocess.run([str(installed / "imitate"), *command.split()], check=True, cwd=tmp_path)
    script = (
        "import imitate; assert 'alone' in imitate.__file__; imitate.BC, imitate.load_expert('CartPole-v1')"
    )
    subprocess.run([str(installed / "python"), "-c", script], check=True, cwd=tmp_path)
