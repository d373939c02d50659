"""A full disk while other projects' formats are written."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from forked import run
from gymnasium import spaces

from imitate.datasets import DemoInfo, DemoWriter, Trajectory

MEGABYTE = 1 << 20
SCRIPT = """
import resource, signal, sys
from imitate.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of 4.2 MB, which can't be compressed."""
    path = tmp_path_factory.mktemp("noise") / "noise.h5"
    rng = np.random.default_rng(0)
    info = DemoInfo("Noise-v0", spaces.Box(0, 255, (64, 64, 3), np.uint8), spaces.Box(-1, 1, (2,)))
    with DemoWriter(path, info) as writer:
        for _ in range(7):
            obs = rng.integers(0, 256, (50, 64, 64, 3)).astype(np.uint8)
            actions = rng.uniform(-1, 1, (49, 2)).astype(np.float32)
            writer.append(Trajectory(obs, actions, np.zeros(49, np.float32), False, True))
    return path


@pytest.mark.parametrize(
    ("format", "limit"),
    [
        *product(["robomimic", "d4rl", "minari"], [0.1, 1, 9, 12]),
        ("lerobot", 0.1),
        ("lerobot --codec png", 1),
    ],
)
def test_a_full_disk_is_one_line_and_leaves_nothing(
    noise: Path, tmp_path: Path, format: str, limit: float
) -> None:
    """A limit on the size of files stands in for the disk. HDF5 crashes if it can't write what it closes."""
    out = tmp_path / "out.hdf5"
    command = ["data", "convert", str(noise), str(out), "--format", *format.split()]
    done = run(SCRIPT, str(int(limit * MEGABYTE)), *command)
    (line,) = done.stderr.splitlines()
    assert line == f"imitate: can't use {out}: File too large; make room, or write to another disk"
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["convert"], ["merge", "--out"]], ids=["convert", "merge"])
def test_a_file_of_ours_that_is_not_written_keeps_no_episodes(
    noise: Path, tmp_path: Path, command: list[str]
) -> None:
    out = tmp_path / "out.h5"
    done = run(SCRIPT, str(3 * MEGABYTE), "data", command[0], str(noise), *command[1:], str(out))
    assert done.stderr == f"imitate: {out} can't be written: File too large\n"
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
