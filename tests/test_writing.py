"""Leftovers of killed and failing writers, and the next writer, which finds them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import filelock
import pytest

from imitate.files import atomic, lock, sweep
from imitate.improvement.snapshots import hand_over


def killed_in(folder: Path) -> None:
    """Leave what a process leaves that is killed in `atomic_folder`."""
    temporary = folder.with_name(f".{folder.name}.1.partial")
    temporary.mkdir()
    (temporary / "half").write_text("x")


def test_a_half_written_folder_is_swept(tmp_path: Path) -> None:
    (tmp_path / ".file.1.partial").write_text("x")
    killed_in(tmp_path / "policy")
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_writers_of_the_same_file_do_not_write_into_each_other(tmp_path: Path) -> None:
    """As in two containers that share a cache, where processes have the same numbers."""
    path = tmp_path / "file"
    with atomic(path) as first:
        first.write_text("first")
        with atomic(path) as second:
            second.write_text("second")
        assert path.read_text("utf-8") == "second"
    assert path.read_text("utf-8") == "first"


def test_a_policy_stays_until_the_next_one_is_whole(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_text(name)
    hand_over(tmp_path / "first", tmp_path / "policy")
    with pytest.raises(FileNotFoundError):
        hand_over(tmp_path / "missing", tmp_path / "policy")
    assert (tmp_path / "policy" / "weights").read_text("utf-8") == "first"
    hand_over(tmp_path / "second", tmp_path / "policy")
    assert (tmp_path / "policy" / "weights").read_text("utf-8") == "second"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "policy", "second"]


def test_a_lock_is_removed_while_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a release and a removal another process would lock a file that is about to be removed."""
    there: list[bool] = []
    release = filelock.FileLock.release
    monkeypatch.setattr(
        filelock.FileLock,
        "release",
        lambda held, *given, **more: (
            there.append((tmp_path / ".lock").exists()),
            release(held, *given, **more),
        ),
    )
    with lock(tmp_path, "a test"):
        assert (tmp_path / ".lock").exists()
    assert there[0] is False


@pytest.mark.skipif(os.name == "nt", reason="Windows has no flock")
def test_a_file_system_without_locks_locks_nothing_and_keeps_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock would be the existence of a file, which a killed process on another machine leaves for ever."""
    import fcntl

    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with lock(tmp_path, "a test"), lock(tmp_path, "another test"):
        pass
    assert list(tmp_path.iterdir()) == []
