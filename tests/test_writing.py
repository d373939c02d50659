"""Leftovers of killed and failing writers, and the next writer, which finds them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import filelock
import pytest

from imitate.errors import InputError, Unwritable
from imitate.files import Lock, atomic, atomic_folder, lock, make_parent, sweep, write_json
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


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that takes no new files, also of root, for whom permissions don't hold."""
    folder = tmp_path / "closed"
    folder.mkdir()
    for owner, name in ((os, "open"), (os, "mkdir")):
        real = getattr(owner, name)

        def refuse(path: Any, *rest: Any, real: Any = real, **more: Any) -> Any:
            if Path(os.fspath(path)).parent == folder and not os.path.lexists(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
            return real(path, *rest, **more)

        monkeypatch.setattr(owner, name, refuse)
    return folder


@pytest.mark.parametrize("writer", [atomic, atomic_folder])
def test_a_closed_folder_is_said_with_the_name_that_the_caller_knows(closed: Path, writer: Any) -> None:
    path = closed / "file"
    with pytest.raises(Unwritable) as error, writer(path):
        pytest.fail("the block must not begin")
    assert str(error.value) == (
        f"{path} can't be written: its folder takes no new files (Permission denied); choose another output path, "
        "or make the folder writable"
    )
    assert isinstance(error.value, OSError)  # for callers that go on without the file
    assert isinstance(error.value, InputError)


def test_a_closed_folder_is_not_taken_for_a_busy_one(closed: Path) -> None:
    said = f"^{closed / 'run'} can't be written: its folder takes no new files"
    with pytest.raises(Unwritable, match=said), lock(closed / "run", "a training run"):
        pass
    said = f"^{closed} can't be written: its folder takes no new files"
    with pytest.raises(Unwritable, match=said), lock(closed, "a training run"):
        pass


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="/proc refuses new files in its own way")
def test_proc_is_not_busy() -> None:
    path = Path("/proc/x")
    said = f"^{path} can't be written: its folder takes no new files"
    with pytest.raises(Unwritable, match=said):
        Lock(path, "busy")
    with pytest.raises(Unwritable, match=said), atomic(path):
        pass


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "file"
    said = f"^{path} can't be written: there is no folder {path.parent}; create it first"
    with pytest.raises(Unwritable, match=said), atomic(path):
        pytest.fail("the block must not begin")


@pytest.mark.parametrize("below", ["x.json", "a/b/x.json"])
def test_a_file_in_place_of_a_folder_is_named(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_text("a file")
    path = file / below
    said = f"^{path} can't be written: {file} is a file, not a folder; choose another output path$"
    for write in (make_parent, lambda path: write_json(path, {}), lambda path: atomic(path).__enter__()):
        with pytest.raises(Unwritable, match=said):
            write(path)
    with pytest.raises(Unwritable, match=said), lock(path, "a training run"):
        pass
