"""Kills at random moments lose nothing that was on disk, and `--resume` ends with the same episodes, bit for bit."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import h5py
import pytest
from forked import run
from recordings import INFO, trajectory

from imitate.datasets import DemoReader, DemoWriter

CAMPAIGN = "import sys; from crashes import main; main(*sys.argv[1:])"


def campaign(folder: Path, kills: int, count: int, kind: str) -> None:
    done = run(CAMPAIGN, str(folder), str(kills), str(count), kind)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert done.stdout.count("kill ") > 0
    assert "failed" not in done.stdout


def test_a_few_kills(tmp_path: Path) -> None:
    """Of a recording of pictures; one of vectors is killed in test_collect_resumed.py."""
    campaign(tmp_path, 3, 100, "pixels")


def test_a_writer_that_was_killed_as_it_began_leaves_a_file_to_go_on_with(tmp_path: Path) -> None:
    """Between HDF5's modes for writing and for readers beside the writer, which takes milliseconds."""
    path = tmp_path / "killed.h5"
    if (child := os.fork()) == 0:
        h5py.File.swmr_mode = property(fset=lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        DemoWriter(path, INFO)
    os.waitpid(child, 0)
    with DemoReader(path) as killed:
        assert len(killed) == 0
    with DemoWriter.resume(path) as writer:
        writer.append(trajectory())
    with DemoReader(path) as resumed:
        assert len(resumed) == 1


@pytest.mark.attack
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["vectors", "pixels"])
def test_fifty_kills(tmp_path: Path, kind: str) -> None:
    campaign(tmp_path, 50, 1_500, kind)
