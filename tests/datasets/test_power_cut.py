"""A power cut at any moment of a recording loses no episode that was synced.

The disk may have written any of the sectors that changed since the last fsync, each as it was at any moment since then.
"""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest
import safetensors.numpy
from counting import Cycling, info_of, stacked_envs
from forked import run
from recordings import INFO, assert_same, trajectory

from imitate.cli import main
from imitate.datasets import (
    DemoInfo,
    DemoReader,
    DemoWriter,
    InputError,
    Trajectory,
    episodes,
    validate,
)
from imitate.datasets.storage import contain, savepoint
from imitate.datasets.storage.savepoint import lost_power, recover, savepoint_of
from imitate.files import Lock

SECTOR = 512
EPISODES = 30


class Disk:
    """Watches a recording and cuts the power of copies of it.

    cuts   (image of the file, its savepoint or None, episodes that must not be lost)
    """

    def __init__(self, path: Path, rng: np.random.Generator, every: int) -> None:
        self.path, self.rng, self.every = path, rng, every
        self.versions: list[bytes] = [b""]  # of the file, since it was last synced
        self.savepoints: list[bytes | None] = [None]  # since the folder was last synced
        self.whole: set[bytes] = set()  # contents of other files that were synced
        self.cuts: list[tuple[bytes, bytes | None, int]] = []
        self.moments = 0
        self.writer: DemoWriter | None = None

    def look(self) -> None:
        """A moment: what is there now may reach the disk or not."""
        if not self.path.exists():
            return
        for history, path in ((self.versions, self.path), (self.savepoints, savepoint_of(self.path))):
            now = path.read_bytes() if path.exists() else None
            if now is not None and path != self.path and now not in self.whole:
                now = now[: len(now) // 2]  # renamed before it was synced
            if history[-1] != now:
                history.append(now)  # type: ignore[arg-type]
        if self.versions[-1] in self.whole:  # it was synced before it got its name
            self.versions = self.versions[-1:]
        self.moments += 1
        if self.moments % self.every == 0 and self.writer is not None:
            saved = self.savepoints[int(self.rng.integers(len(self.savepoints)))]
            self.cuts.append((self.torn(), saved, self.writer.synced))

    def synced(self, handle: int) -> None:
        self.look()
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            self.savepoints = self.savepoints[-1:]
        elif self.path.exists() and status.st_ino == self.path.stat().st_ino:
            self.versions = self.versions[-1:]
        else:
            inodes = {path.stat().st_ino: path for path in self.path.parent.iterdir()}
            self.whole.add(inodes[status.st_ino].read_bytes())

    def torn(self) -> bytes:
        """Each sector as it was at some moment since the last sync."""
        sizes = [len(version) for version in self.versions]
        size = int(self.rng.integers(min(sizes), max(sizes) + 1))
        count = -(-size // SECTOR)
        old = self.rng.random()
        later = self.rng.integers(len(self.versions), size=count)
        chosen = np.where(self.rng.random(count) < old, 0, later)
        image = np.zeros((count, SECTOR), np.uint8)
        for number, version in enumerate(self.versions):
            padded = version[:size].ljust(count * SECTOR, b"\0")
            sectors = np.frombuffer(padded, np.uint8).reshape(count, SECTOR)
            image[chosen == number] = sectors[chosen == number]
        return image.tobytes()[:size]


@pytest.fixture(params=[16, pytest.param(5, marks=pytest.mark.attack)])
def watched(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Disk]:
    """A disk that is told of everything that the writer does. Its cuts are of a machine that was started again."""
    disk = Disk(tmp_path / "demos.h5", np.random.default_rng(0), every=request.param)

    def then_look(owner: Any, name: str) -> None:
        does: Callable[..., Any] = getattr(owner, name)

        def wrapped(*args: Any, **more: Any) -> Any:
            done = does(*args, **more)
            disk.look()
            return done

        monkeypatch.setattr(owner, name, wrapped)

    for owner, name in (
        (h5py.Dataset, "flush"),
        (h5py.Dataset, "resize"),
        (h5py.Dataset, "__setitem__"),
        (h5py.File, "close"),
        (Path, "replace"),
        (Path, "unlink"),
    ):
        then_look(owner, name)
    monkeypatch.setattr(os, "fsync", disk.synced)
    monkeypatch.setattr(savepoint, "BOOT", tmp_path / "boot")
    savepoint.BOOT.write_text("one")
    yield disk
    monkeypatch.undo()


def record(disk: Disk, info: DemoInfo, trajectories: list[Trajectory]) -> None:
    with DemoWriter(disk.path, info) as writer:
        os.link(disk.path, disk.path.with_name("kept"))  # the inode outlives the restored files
        disk.writer = writer
        for number, one in enumerate(trajectories):
            writer.append(one)
            if number % 3 == 0:
                writer.flush()
            if number % 7 == 0:
                writer.sync()
        disk.look()


def vectors() -> tuple[DemoInfo, list[Trajectory]]:
    return INFO, [trajectory(1 + 37 * seed % 200, seed) for seed in range(EPISODES)]


def pixels() -> tuple[DemoInfo, list[Trajectory]]:
    envs = stacked_envs(2, period=40)
    return info_of(envs, frame_stack=4), list(episodes(Cycling(), envs, range(EPISODES), frame_stack=4))


def still() -> tuple[DemoInfo, list[Trajectory]]:
    """Frames that hardly change the size of their compressed chunk, so that HDF5 overwrites it in place."""
    info = DemoInfo("Still-v0", gym.spaces.Box(0, 255, (16, 16), np.uint8), gym.spaces.Discrete(2))
    noise = np.random.default_rng(0).integers(0, 256, (5, 16, 16), np.uint8)
    shown = [noise] + [np.full((2, 16, 16), 7, np.uint8)] * 40
    zeros = [(np.zeros(len(obs) - 1, np.int64), np.zeros(len(obs) - 1, np.float32)) for obs in shown]
    seeds = [{"seed": seed} for seed in range(len(shown))]
    return info, [
        Trajectory(obs, *rest, True, False, info=seed)
        for obs, rest, seed in zip(shown, zeros, seeds, strict=True)
    ]


@pytest.mark.parametrize("made", [vectors, pytest.param(pixels, marks=pytest.mark.slow), still])
def test_nothing_that_was_synced_is_lost(
    watched: Disk, made: Callable[[], tuple[DemoInfo, list[Trajectory]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    info, trajectories = made()
    record(watched, info, trajectories)
    cuts, path = watched.cuts, watched.path
    assert len(cuts) > 165 // watched.every
    monkeypatch.undo()
    forks = contain.FORKS
    monkeypatch.setattr(contain, "FORKS", False)
    monkeypatch.setattr(savepoint, "BOOT", path.with_name("boot"))
    savepoint.BOOT.write_text("two")
    harmed = 0
    for number, (image, saved, announced) in enumerate(cuts):
        path.unlink()
        os.link(path.with_name("kept"), path)
        path.write_bytes(image)
        if number % 3 == 0:
            with monkeypatch.context() as patch:
                patch.setattr(contain, "FORKS", forks)  # HDF5 may look for ever
                patch.setattr(contain, "SECONDS", 1.0)
                harmed += not readable(path, trajectories)
        if saved is None:  # before the recording, or after it was closed
            assert announced in (0, len(trajectories))
            assert announced == 0 or readable(path, trajectories)
            continue
        savepoint_of(path).write_bytes(saved)
        assert lost_power(path)
        assert recover(path) >= announced
        assert readable(path, trajectories)
        assert not savepoint_of(path).exists()
    assert harmed > 0, "the cuts are harmless: what do they test?"


def readable(path: Path, trajectories: list[Trajectory]) -> bool:
    """True if the file opens and holds the first of the trajectories, all of them sound."""
    try:
        with DemoReader(path) as reader:
            for read, true in zip(reader, trajectories, strict=False):
                assert_same(read, true)
    except (InputError, AssertionError):
        return False
    return True


def cut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """20 episodes that were synced, 10 that were flushed, and a machine that was started again."""
    path = folder / "demos.h5"
    if (child := os.fork()) == 0:
        writer = DemoWriter(path, INFO)
        for seed in range(30):
            writer.append(trajectory(50, seed))
            if seed == 19:
                writer.fail(31)
                writer.sync()
        writer.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with DemoReader(path) as reader:  # a kill alone loses nothing that was flushed
        assert len(reader) == 30
    monkeypatch.setattr(savepoint, "BOOT", folder / "boot")
    savepoint.BOOT.write_text("another")
    return path


def test_repair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = cut(tmp_path, monkeypatch)
    assert main(["data", "info", str(path)]) == 2
    assert f"imitate data repair {path}" in capsys.readouterr().err
    path.write_bytes(path.read_bytes()[:100] + bytes(400) + path.read_bytes()[500:])  # HDF5 can't open this
    assert main(["data", "repair", str(path)]) == 0
    assert "restored 20 episodes" in capsys.readouterr().out
    assert validate(path) == []
    with DemoReader(path) as reader:
        assert (reader.info, reader.failed_seeds) == (INFO, [31])
        assert_same(reader[19], trajectory(50, 19))
    assert main(["data", "repair", str(path)]) == 2
    assert "nothing to restore" in capsys.readouterr().err


def test_a_file_whose_writer_was_only_killed_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It holds more than was synced last."""
    path = tmp_path / "demos.h5"
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from recordings import INFO, trajectory; from imitate.datasets import DemoWriter\n"
        "writer = DemoWriter('demos.h5', INFO)\n"
        "for number in range(3): writer.append(trajectory(5)); writer.flush()\n"
        "os._exit(9)"
    )
    assert run(code, str(Path(__file__).parent), cwd=tmp_path).returncode == 9
    assert savepoint_of(path).exists()
    before = path.read_bytes()
    assert main(["data", "repair", str(path)]) == 2
    assert "is whole, its writer was only killed" in capsys.readouterr().err
    assert path.read_bytes() == before
    with DemoReader(path) as reader:
        assert len(reader) == 3


def test_resume_repairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cut(tmp_path, monkeypatch)
    with DemoWriter.resume(path) as writer:
        assert len(writer) == writer.synced == 20
        writer.append(trajectory(50, 20))
    with DemoReader(path) as reader:
        assert len(reader) == 21
    assert {file.name for file in tmp_path.iterdir()} == {"demos.h5", "boot"}


def test_a_savepoint_whose_file_is_gone_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cut(tmp_path, monkeypatch)
    path.unlink()
    with pytest.raises(InputError, match="no file of demonstrations at"):
        DemoWriter.resume(path)
    savepoint.go_on(path)


@pytest.mark.parametrize("resume", [savepoint.go_on, lambda path: DemoWriter.resume(path).close()])
def test_another_process_may_repair_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: Callable[[Path], None]
) -> None:
    path = cut(tmp_path, monkeypatch)
    with monkeypatch.context() as patched:

        def locked_second(name: Path) -> Lock:
            patched.undo()
            assert recover(name) == 20  # by the other process
            return savepoint.locked(name)

        patched.setattr(savepoint, "locked", locked_second)
        patched.setattr("imitate.datasets.storage.writer.locked", locked_second)
        resume(path)
    with DemoReader(path) as reader:
        assert len(reader) == 20


def saved(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays of a savepoint, and its other facts."""
    with safetensors.safe_open(savepoint_of(path), framework="np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda facts: facts | {"inode": "1"}, "another file"),
        (lambda facts: facts | {"rows": '{"obs": 1}'}, "can't be read"),
        (lambda facts: facts | {"rows": facts["rows"].replace("1000", "90000")}, "does not describe"),
        (lambda _: {}, "can't be read"),
    ],
)
def test_a_savepoint_of_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, message: str
) -> None:
    path = cut(tmp_path, monkeypatch)
    arrays, facts = saved(path)
    savepoint_of(path).write_bytes(safetensors.numpy.save(arrays, change(facts)))
    before = path.read_bytes()
    with pytest.raises(InputError, match=message):
        recover(path)
    assert path.read_bytes() == before
    savepoint_of(path).write_bytes(b"nonsense")
    with pytest.raises(InputError, match="savepoint can't be read"):
        DemoReader(path)


def test_a_savepoint_cannot_reach_beyond_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cut(tmp_path, monkeypatch)
    arrays, facts = saved(path)
    arrays["obs"][0, 0] = 1 << 40
    savepoint_of(path).write_bytes(safetensors.numpy.save(arrays, facts))
    with pytest.raises(InputError, match="ends before chunk 0 of /obs"):
        recover(path)
    arrays["obs"][0, 0], arrays["episodes"][0, 0] = (
        9000,
        0,
    )  # a file that took the place, and the inode, of the first
    savepoint_of(path).write_bytes(safetensors.numpy.save(arrays, facts))
    with pytest.raises(InputError, match="is not in"):
        recover(path)
    assert path.exists()
