"""A recording has one writer at a time: another is refused, and loses nothing of the first."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from counting import counting_envs, info_of
from forked import run
from recordings import INFO, assert_same, one_line, trajectory

from imitate.datasets import DemoReader, DemoWriter, InputError
from imitate.datasets.storage.savepoint import recover

COLLECTS = """
import sys
from counting import Cycling, counting_envs, info_of
from imitate.datasets import InputError, collect
envs = counting_envs(1)
try:
    collect(Cycling(), envs, sys.argv[1], info_of(envs, seed=0), episodes=9, resume=True)
except InputError as error:
    print(error)
"""

KILLED_WITH_A_CHILD = """
import os, signal, sys, time
from recordings import INFO, trajectory
from imitate.datasets import DemoWriter
writer = DemoWriter(sys.argv[1], INFO)
writer.append(trajectory(50, 0))
writer.sync()
child = os.fork()
if not child:
    os.close(1)
    os.close(2)
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_second_writer_is_refused_and_the_first_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    writer = DemoWriter(path, INFO)
    for seed in range(3):
        writer.append(trajectory(50, seed))
    for again in (lambda: DemoWriter.resume(path), lambda: DemoWriter(path, INFO), lambda: recover(path)):
        with pytest.raises(InputError, match="another recording is at work on") as refused:
            again()
        assert str(path) in one_line(refused)
    writer.append(trajectory(50, 3))
    writer.close()
    with DemoWriter.resume(path) as writer, pytest.raises(InputError, match="another recording is at work"):
        DemoWriter.resume(path)
    with DemoReader(path) as reader:
        assert len(reader) == 4
        for seed, read in enumerate(reader):
            assert_same(read, trajectory(50, seed))
    assert list(tmp_path.iterdir()) == [path]


def test_another_name_of_the_file_is_no_way_around(tmp_path: Path) -> None:
    path, other = tmp_path / "demos.h5", tmp_path / "other.h5"
    with DemoWriter(path, INFO) as writer:
        writer.append(trajectory(50, 0))
        other.symlink_to(path)
        with pytest.raises(InputError, match="another recording is at work"):
            DemoWriter.resume(other)


def test_another_process_that_goes_on_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    envs = counting_envs(1)
    with DemoWriter(path, info_of(envs, seed=0)) as writer:
        writer.append(trajectory(2, 0, obs=np.zeros((3, 2), np.float32)))
        writer.flush()
        assert "another recording is at work" in run(COLLECTS, str(path)).stdout
    assert run(COLLECTS, str(path)).stdout == ""
    with DemoReader(path) as reader:
        assert len(reader) == 1 + 9  # its seed was none of the collection's


def test_a_writer_that_was_forgotten_does_not_refuse_the_next(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    forgotten = DemoWriter(path, INFO)
    forgotten.append(trajectory(50, 0))
    forgotten.flush()
    del forgotten
    with DemoWriter.resume(path) as writer:
        assert len(writer) == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_a_child_of_a_killed_writer_does_not_hold_its_lock(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    child = int(run(KILLED_WITH_A_CHILD, str(path)).stdout)
    try:
        with DemoWriter.resume(path) as writer:
            assert len(writer) == 1
    finally:
        os.kill(child, signal.SIGKILL)


def test_where_another_file_lies_now_it_is_left_alone(tmp_path: Path) -> None:
    path, other = tmp_path / "demos.h5", tmp_path / "other.h5"
    writer = DemoWriter(path, INFO)
    writer.append(trajectory(50, 0))
    writer.flush()
    other.write_bytes(b"precious")
    other.replace(path)
    with pytest.raises(InputError, match="was moved, removed or replaced"):
        writer.close()
    assert path.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [path]


def test_an_empty_writer_does_not_remove_another_file(tmp_path: Path) -> None:
    path, other = tmp_path / "demos.h5", tmp_path / "other.h5"
    with DemoWriter(path, INFO):
        other.write_bytes(b"precious")
        other.replace(path)
    assert path.read_bytes() == b"precious"


def test_a_lock_that_can_not_be_opened_is_named(tmp_path: Path) -> None:
    """As one that another user's killed writer left in a shared folder."""
    path, left = tmp_path / "demos.h5", tmp_path / ".demos.h5.lock"
    left.mkdir()
    with pytest.raises(
        InputError, match=r"can't be locked: .*; remove it if nobody records demos\.h5"
    ) as refused:
        DemoWriter(path, INFO)
    assert str(left) in one_line(refused)
