"""Kills at random moments lose nothing that was on disk, and `--resume` ends with the same episodes, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def campaign(folder: Path, kills: int, count: int, kind: str) -> None:
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here), str(here.parent)])}
    command = [sys.executable, str(here / "crashes.py"), str(folder), str(kills), str(count), kind]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert done.stdout.count("kill ") > 0
    assert "failed" not in done.stdout


@pytest.mark.parametrize("kind", ["vectors", "pixels"])
def test_a_few_kills(tmp_path: Path, kind: str) -> None:
    campaign(tmp_path, 3, 300, kind)


@pytest.mark.attack
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["vectors", "pixels"])
def test_fifty_kills(tmp_path: Path, kind: str) -> None:
    campaign(tmp_path, 50, 1_500, kind)
