"""The examples run, learn, and are short."""

from __future__ import annotations

import ast
import importlib
import os
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import imitate.compare
from imitate.compare import Comparison, compare
from imitate.rl import ppo

EXAMPLES = Path(__file__).parent.parent / "examples"


def compare_little(wanted: Comparison, out: Path) -> Path:
    """The example's comparison with little training and few episodes."""
    little = {"bc": {"max_epochs": 1}, "dagger": {"updates_per_iteration": 5, "final_updates": 5}}
    return compare(replace(wanted, hyperparameters=little, episodes=2, curve_episodes=1), out, workers=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("02_dagger.py", [], r"learner 500\.0, expert 500\.0"),
        ("04_balancing_plate.py", [], r"learner 2000\.0, expert 2000\.0"),
        ("08_changed_dynamics.py", [], r"airl  returns -[5-9]\.\d\nlogit returns -[1-9]\d\."),
        ("03_compare.py", ["CartPole-v1", "1000", "1"], r"open .*report\.html"),
        ("07_use_a_policy.py", [], r"NumpyPolicy .*\n.* Stable-Baselines3 measures 500\.0"),
        ("06_robot_arm.py", [], r"DAgger: return -[12]\."),
        ("05_mistakes.py", [], r"right +returns 500.0"),
    ],
)
def test_example(
    name: str,
    arguments: list[str],
    wanted: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As `__main__`, which workers import, in a process that has imported torch already."""
    path = EXAMPLES / name
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path), *arguments])
    monkeypatch.setattr(imitate.compare, "compare", compare_little)
    monkeypatch.setattr(ppo, "ppo_loss", ppo.ppo_loss)  # which an example replaces
    runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    assert re.search(wanted, said), said


def test_an_example_in_an_interpreter_of_its_own(tmp_path: Path) -> None:
    path = EXAMPLES / "01_record_and_clone.py"
    command = [sys.executable, str(path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert re.search(r"clone 500\.0, expert 500\.0", done.stdout), done.stdout


def test_an_example_is_short() -> None:
    lengths = {path.name: len(path.read_text("utf-8").splitlines()) for path in EXAMPLES.glob("0*.py")}
    assert len(lengths) == 8
    assert max(lengths.values()) <= 60, lengths


def test_scripts_import_what_is_there() -> None:
    """Scripts of benchmarks/ take hours and examples minutes: a name that has moved shows here at once."""
    root = EXAMPLES.parent
    scripts = [*root.glob("examples/*.py"), *root.glob("benchmarks/**/*.py")]
    assert len(scripts) > 10
    for script in scripts:
        for node in ast.walk(ast.parse(script.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "imitate":
                module = importlib.import_module(str(node.module))
                missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                assert not missing, f"{script.relative_to(root)}: {node.module} has no {missing}"
