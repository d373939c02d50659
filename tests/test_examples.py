"""The examples run, learn, and are short."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("01_record_and_clone.py", [], r"clone 500\.0, expert 500\.0"),
        ("02_dagger.py", [], r"learner 500\.0, expert 500\.0"),
        ("04_balancing_plate.py", [], r"learner 2000\.0, expert 2000\.0"),
        ("03_compare.py", ["CartPole-v1", "3000", "1"], r"open .*report\.html"),
        pytest.param("06_robot_arm.py", [], r"DAgger: return -[12]\.", marks=pytest.mark.slow),
        pytest.param("05_mistakes.py", [], r"right +returns 500.0", marks=pytest.mark.slow),
    ],
)
def test_example(name: str, arguments: list[str], wanted: str, tmp_path: Path) -> None:
    path = EXAMPLES / name
    assert len(path.read_text().splitlines()) <= 60
    done = subprocess.run(
        [sys.executable, str(path), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert re.search(wanted, done.stdout), done.stdout


def test_scripts_import_what_is_there() -> None:
    """Scripts of benchmarks/ take hours and examples minutes: a name that has moved shows here at once."""
    root = EXAMPLES.parent
    scripts = [*root.glob("examples/*.py"), *root.glob("benchmarks/**/*.py")]
    assert len(scripts) > 10
    for script in scripts:
        for node in ast.walk(ast.parse(script.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "imitate":
                module = importlib.import_module(str(node.module))
                missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                assert not missing, f"{script.relative_to(root)}: {node.module} has no {missing}"
