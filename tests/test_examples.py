"""The examples run, learn, and are short."""

from __future__ import annotations

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
        ("03_compare.py", ["CartPole-v1", "12000", "1"], r"open .*report\.html"),
    ],
)
def test_example(name: str, arguments: list[str], wanted: str, tmp_path: Path) -> None:
    path = EXAMPLES / name
    assert len(path.read_text().splitlines()) <= 60
    done = subprocess.run(
        [sys.executable, str(path), *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert re.search(wanted, done.stdout), done.stdout
