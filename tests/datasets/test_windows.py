"""Recordings work as on Windows, which has no `os.pread` and neither renames nor removes an open file."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from recordings import assert_same, trajectory

from imitate.datasets import DemoInfo, DemoReader, DemoWriter, Trajectory
from imitate.datasets.edit import drawn
from imitate.datasets.storage import writer as writer_module
from imitate.datasets.storage.savepoint import recover, savepoint_of

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="finds this process's open files there"
)


def _is_open(path: Any) -> bool:
    descriptors = Path("/proc/self/fd")
    # Another thread's file may be closed between the listing and the look; it is none of ours.
    links = (descriptors / each for each in os.listdir(descriptors))  # noqa: PTH208
    return os.path.realpath(path) in {os.path.realpath(each) for each in links}


def _refused(call: Callable[..., None]) -> Callable[..., None]:
    def refusing(path: Any, *others: Any, **options: Any) -> None:
        # A lock's file is removed while it is locked, except on Windows, as the code asks `os.name`.
        if "dir_fd" not in options and not os.fspath(path).endswith(".lock"):
            for each in (path, *others):
                if _is_open(each):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(each))
        call(path, *others, **options)

    return refusing


@pytest.fixture(autouse=True)
def _like_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pread")
    monkeypatch.setattr(writer_module, "_RENAMES_OPEN_FILES", False)
    for name in ("replace", "rename", "unlink"):
        monkeypatch.setattr(os, name, _refused(getattr(os, name)))


PICTURES = DemoInfo("Made-v0", gym.spaces.Box(0, 255, (8, 8), np.uint8), gym.spaces.Discrete(4))


def pictures(seed: int) -> Trajectory:
    obs = np.random.default_rng(seed).integers(0, 256, (10, 8, 8), np.uint8)
    return trajectory(9, seed, obs=obs)


def written(path: Path) -> Path:
    with DemoWriter(path, PICTURES) as writer:
        writer.append(pictures(0))
        writer.append(pictures(1))
    return path


@pytest.mark.parametrize("kept", [0, 2])
def test_a_recording_is_resumed(tmp_path: Path, kept: int) -> None:
    path = written(tmp_path / "demos.h5")
    with DemoWriter.resume(path, episodes=kept) as writer:
        writer.append(pictures(9))
        assert len(writer.reader()) == kept + 1
    with DemoReader(path) as demos:
        assert len(demos) == kept + 1
        assert_same(demos[kept], pictures(9))
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_savepoint_of_a_resumed_recording_restores_it(tmp_path: Path) -> None:
    path = written(tmp_path / "demos.h5")
    with DemoWriter.resume(path) as writer:
        writer.append(pictures(9))
        writer.sync()
        saved = savepoint_of(path).read_bytes()
    savepoint_of(path).write_bytes(saved)
    assert recover(path) == 3
    with DemoReader(path) as demos:
        assert_same(demos[2], pictures(9))


def test_drawn_pairs_are_read_from_a_file_that_cannot_be_removed(tmp_path: Path) -> None:
    with DemoReader(written(tmp_path / "demos.h5")) as demos, drawn(demos, 4, seed=0) as pairs:
        assert pairs.transitions().obs.shape == (4, 8, 8)
