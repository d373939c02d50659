"""Recordings that ended early: killed writers, interrupted flushes, full disks, and resuming."""

from __future__ import annotations

import errno
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import pytest
from forked import run
from recordings import INFO, assert_same, one_line, trajectory

from imitate.datasets import DemoReader, DemoWriter, InputError, validate
from imitate.datasets.storage.savepoint import Savepoint

KILLED = """
import os, signal, sys, time
from recordings import INFO, trajectory
from imitate.datasets import DemoWriter
writer = DemoWriter(sys.argv[1], INFO)
for seed in range(10**6):
    writer.append(trajectory(50, seed))
    if writer.flushed > 100 and len(writer) - writer.flushed > 2:
        print(writer.flushed, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("killed") / "demos.h5"
    run(KILLED, str(path))
    return path.read_bytes()


def test_a_killed_writer_loses_only_what_was_not_flushed(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    killed = run(KILLED, str(path))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    kept = int(killed.stdout)
    with DemoReader(path) as reader:
        assert len(reader) == kept > 0
        for seed, read in enumerate(reader):
            assert_same(read, trajectory(50, seed))
    assert validate(path) == []
    with DemoWriter.resume(path) as writer:
        writer.append(trajectory(50, kept))
    with DemoReader(path) as reader:
        assert len(reader) == kept + 1
        assert_same(reader[-1], trajectory(50, kept))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("share", [0.001, 0.02, 0.3, 0.7, 0.99])
def test_what_a_killed_writer_left_and_then_was_truncated(
    killed: bytes, tmp_path: Path, share: float
) -> None:
    path = tmp_path / "demos.h5"
    path.write_bytes(killed[: int(share * len(killed))])
    with pytest.raises(InputError) as error:
        DemoReader(path)
    said = one_line(error)
    assert "not a whole HDF5 file" in said or "the file is damaged" in said


def test_rows_without_an_episode_do_not_exist(tmp_path: Path) -> None:
    """A kill between the rows and the table leaves rows that nothing lists and a table row that is not on disk."""
    path = tmp_path / "demos.h5"
    with DemoWriter(path, INFO) as writer:
        writer.append(trajectory(5, 0))
    with h5py.File(path, "r+") as file:
        for name in ("obs", "actions", "rewards"):
            file[name].resize(file[name].shape[0] + 7, axis=0)
        file["episodes"].resize(2, axis=0)  # reads as zeros
    with DemoReader(path) as reader:
        assert len(reader) == 1
    with DemoWriter.resume(path) as writer:
        writer.append(trajectory(3, 1))
    with DemoReader(path) as reader:
        assert_same(reader[1], trajectory(3, 1))


def test_interrupted_flush_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "demos.h5"
    with DemoWriter(path, INFO) as writer:
        writer.append(trajectory(5, 0))
        writer.flush()
        with monkeypatch.context() as patch:
            patch.setattr(h5py.Dataset, "flush", _interrupt)
            with suppress(KeyboardInterrupt):
                writer.append(trajectory(4, 1))  # flushes too, unless the last flush was a moment ago
            with pytest.raises(KeyboardInterrupt):
                writer.flush()
    with DemoReader(path) as reader:
        assert_same(reader[0], trajectory(5, 0))
        assert_same(reader[1], trajectory(4, 1))
    assert validate(path) == []


def _interrupt(_: Any) -> None:
    raise KeyboardInterrupt


def test_resume_after_a_number_of_episodes(tmp_path: Path) -> None:
    path = tmp_path / "store.h5"
    with DemoWriter(path, INFO) as writer:
        for seed in range(5):
            writer.append(trajectory(3, seed))
    with DemoWriter.resume(path, episodes=2) as writer:
        assert len(writer) == 2
        writer.append(trajectory(3, 9))
    with DemoReader(path) as reader:
        assert reader.table["seed"].tolist() == [0, 1, 9]
    with pytest.raises(InputError, match="holds 3 episodes of the 4"):
        DemoWriter.resume(path, episodes=4)


FULL = """
import os, resource, sys
from recordings import INFO, trajectory
from imitate.datasets import DemoWriter, InputError
if sys.argv[2:] == ["portable"]:  # as on macOS and Windows
    del os.posix_fallocate
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
try:
    with DemoWriter(sys.argv[1], INFO) as writer:
        for seed in range(1000):
            writer.append(trajectory(1000, seed))
            writer.flush()
except InputError as error:
    print(error)
    sys.exit(2)
"""


@pytest.mark.parametrize("how", ["posix", "portable"])
def test_a_full_disk_is_one_line_and_keeps_what_was_recorded(tmp_path: Path, how: str) -> None:
    path = tmp_path / "demos.h5"
    full = run(FULL, str(path), how)
    assert full.returncode == 2, full.stderr
    assert full.stderr == ""
    (line,) = full.stdout.splitlines()
    kept = len(DemoReader(path))
    assert "can't be written: File too large" in line
    assert line.endswith(f"episodes kept: {kept}")
    assert kept > 50
    assert validate(path) == []


def test_no_room_at_all(tmp_path: Path) -> None:
    script = FULL.replace("3_000_000", "1000")
    full = run(script, str(tmp_path / "demos.h5"))
    assert (full.returncode, full.stderr, len(full.stdout.splitlines())) == (2, "", 1)
    assert list(tmp_path.iterdir()) == []


RESUME = """
import resource, sys
from imitate.datasets import DemoWriter, InputError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    DemoWriter.resume(sys.argv[1])
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize("room", [1_000, 1_400_000])
def test_a_full_disk_while_resuming_keeps_the_recording_and_names_it(tmp_path: Path, room: int) -> None:
    """There is room for no copy, or for a part of one."""
    path = tmp_path / "demos.h5"
    with DemoWriter(path, INFO) as writer:
        for seed in range(20):
            writer.append(trajectory(1000, seed))
    resumed = run(RESUME, str(path), str(room))
    assert resumed.stdout.splitlines() == [
        f"{path} can't be resumed, as a copy of it can't be written: File too large; episodes kept: 20"
    ]
    assert list(tmp_path.iterdir()) == [path]
    assert validate(path) == []


def test_a_copy_that_could_not_be_synced_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, save = tmp_path / "demos.h5", Savepoint.save
    with DemoWriter(path, INFO) as writer:
        writer.append(trajectory(5, 0))

    def full(savepoint: Savepoint, rows: Any) -> None:
        if rows["episodes"]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save(savepoint, rows)

    monkeypatch.setattr(Savepoint, "save", full)
    with pytest.raises(InputError, match="No space left on device; episodes kept: 1"):
        DemoWriter.resume(path)
    assert list(tmp_path.iterdir()) == [path]
