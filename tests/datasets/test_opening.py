"""Opening demonstrations: damaged and hostile files are refused, sound ones are read as before."""

from __future__ import annotations

import gc
import os
import resource
import shutil
import signal
import time
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from attacks import KILLED
from forked import Script, run
from recordings import INFO, one_line, trajectory

from imitate.cli import main
from imitate.datasets import DemoReader, DemoWriter, InputError
from imitate.datasets.storage import contain
from imitate.datasets.storage.contain import contained
from imitate.datasets.storage.opening import paths_of
from imitate.envs.seeds import episode_seeds

pytestmark = pytest.mark.forks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two episodes of five steps."""
    with DemoWriter(tmp_path / "demos.h5", INFO) as writer:
        writer.append(trajectory(5, 0))
        writer.append(trajectory(5, 1))
    return tmp_path / "demos.h5"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_pattern_may_go_through_all_folders_below(tmp_path: Path) -> None:
    files = [tmp_path / "a.h5", tmp_path / "x" / "b.h5", tmp_path / "x" / "y" / "c.h5"]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.touch()
    assert paths_of(str(tmp_path / "**" / "*.h5")) == files


def test_garbage_of_the_parent_is_not_collected_in_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder of the parent would wait there for its threads, which the child does not have."""
    monkeypatch.setattr(contain, "SECONDS", 1.0)
    parent = os.getpid()

    class Decoder:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            if os.getpid() != parent:
                time.sleep(60)

    Decoder()
    contained(lambda: bool(gc.collect()) and None, "demos.h5")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_crash_a_hang_and_greed_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contain, "SECONDS", 0.51)

    def loop() -> None:
        while True:
            pass

    for check, message in (
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "demos.h5 crashes the library that opens it"),
        (lambda: time.sleep(60), "demos.h5 can't be opened within 1 s"),
        (loop, "demos.h5 can't be opened within 1 s"),
        (lambda: np.ones(1 << 28), "it would take more than 384 MiB"),
        (lambda: (_ for _ in ()).throw(InputError("mine")), "mine"),
    ):
        with pytest.raises(InputError, match=message) as error:
            contained(check, "demos.h5")
        one_line(error)
    contained(lambda: None, "demos.h5")
    contained(
        lambda: time.sleep(0.7), "demos.h5"
    )  # as on a busy machine: it waited, and took no processor time


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_folder_may_have_more_files_than_select_takes_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1_200:
        pytest.skip("this machine allows no 1,200 open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1_200), hard))
    with ExitStack() as stack:
        for _ in range(1_040):
            stack.enter_context(Path(os.devnull).open("rb"))
        contained(lambda: None, "demos.h5")
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_an_interrupt_while_a_file_is_opened_stays_one() -> None:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            contained(lambda: time.sleep(60), "demos.h5")
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_file_is_checked_once_until_it_changes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check is a fork, and one conversion opens a file up to four times."""
    forks, fork = [], os.fork
    monkeypatch.setattr(os, "fork", lambda: forks.append(path) or fork())
    time.sleep(0.03)  # so that a change has a later time, whatever the file system's clock
    for _ in range(3):
        DemoReader(path).close()
    assert len(forks) == 1
    with h5py.File(path, "r+") as file:  # of the same size
        file["episodes"][:] = np.flip(file["episodes"][:])
    for _ in range(2):
        with pytest.raises(InputError, match="lengths of episodes and their starts disagree"):
            DemoReader(path)
    assert len(forks) == 3  # what was refused is checked again


def test_a_killed_writers_file_with_a_flipped_bit_is_refused_at_once(tmp_path: Path) -> None:
    """HDF5 itself reads it again and again, for centuries."""
    killed, broken = tmp_path / "killed.h5", tmp_path / "broken.h5"
    run(KILLED, str(killed))
    data = bytearray(killed.read_bytes())
    with DemoReader(killed) as reader:
        assert len(reader) == 30
    with h5py.File(killed, libver="latest", swmr=True) as file:
        header = h5py.h5o.get_info(file["obs"].id).addr
    data[header + 20] ^= 1
    broken.write_bytes(data)
    begin = os.times()
    with pytest.raises(InputError, match=r"broken\.h5: "):
        DemoReader(broken)
    spent = os.times()
    assert spent.user - begin.user + spent.children_user - begin.children_user < contain.SECONDS / 2


@pytest.mark.parametrize(
    ("name", "row", "value", "message"),
    [
        ("actions", 7, 4, r"1 actions are outside Discrete.* in .*demos\.h5"),
        ("actions", 7, -1, r"1 actions are outside Discrete.* in .*demos\.h5"),
        ("obs", 8, np.inf, r"obs of .*demos\.h5 hold NaN or infinity"),
    ],
)
def test_values_are_checked_as_they_are_read(
    path: Path, name: str, row: int, value: Any, message: str
) -> None:
    """The wrong value is in the second episode of the first file. An action without an output was an IndexError in
    `train bc`. A second epoch must not take what the first could not read for read."""
    sound = shutil.copy(path, path.with_name("sound.h5"))
    with h5py.File(path, "r+") as file:
        file[name][row] = value
    with DemoReader([path, sound]) as reader:
        assert len(reader[0]) == 5
        with pytest.raises(InputError, match=message):
            reader[1]
        for _ in range(2):
            with pytest.raises(InputError, match=message):
                next(reader.batches(4, np.random.default_rng(0)))
        with pytest.raises(InputError, match=message):
            reader.transitions()


def test_files_from_before_the_normalisation_was_told(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file.attrs["normalisation_sha256"]
    with DemoReader(path) as reader:
        assert reader.info == INFO


CREATED = """
import os, signal, sys, h5py
from recordings import INFO
from imitate.datasets import DemoWriter
place = sys.argv[2]
def kill(*args, **kwargs): os.kill(os.getpid(), signal.SIGKILL)
if place == "during":
    h5py.File.create_dataset = kill
writer = DemoWriter(sys.argv[1], INFO)
kill()
"""


@pytest.mark.parametrize("place", ["during", "after"])
def test_a_kill_while_a_file_is_created(tmp_path: Path, place: str) -> None:
    """It left 48 bytes that could be neither resumed nor recorded anew."""
    path = tmp_path / "demos.h5"
    assert run(CREATED, str(path), place).returncode == -signal.SIGKILL
    with DemoWriter(path, INFO) if place == "during" else DemoWriter.resume(path) as writer:
        writer.append(trajectory(5, 0))
    with DemoReader(path) as reader:
        assert len(reader) == 1


WRITING = """
import sys
from recordings import INFO, trajectory
from imitate.datasets import DemoWriter
writer = DemoWriter(sys.argv[1], INFO)
for seed in range(300):
    writer.append(trajectory(20, seed))
    writer.flush()
    print(seed, flush=True)
"""


def test_a_file_is_read_while_it_is_written(tmp_path: Path) -> None:
    """At any moment the episodes that are listed are there."""
    path = tmp_path / "demos.h5"
    with Script(WRITING, str(path)) as writer:
        writer.stdout.readline()
        while writer.poll() is None:
            with DemoReader(path) as reader:
                assert len(list(reader)) == len(reader) > 0
            writer.stdout.readline()


@pytest.mark.parametrize("command", ["info", "validate", "plot", "replay"])
def test_a_folder_of_another_project_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "info.json").write_text("{}")
    words = ["data", command, str(tmp_path), *(["--out", "a.png"] if command == "plot" else [])]
    assert main(words) == 2
    convert = f"`imitate data convert {tmp_path} demos.h5` reads LeRobot's and Minari's"
    assert capsys.readouterr().err == f"imitate: no file of imitate's in the folder {tmp_path}; {convert}\n"


@pytest.mark.parametrize("shards", [1, 4, 100])
def test_the_numbers_of_a_shards_seeds(shards: int) -> None:
    """A shard has each K-th seed of its collection."""
    seeds = list(islice(episode_seeds(0), 3, 3 + 40 * shards, shards))
    shard: Any = SimpleNamespace(info=SimpleNamespace(seed=0), table={"seed": np.array([*seeds, 5])})
    assert list(DemoReader.begun(shard).values()) == list(range(3, 3 + 40 * shards, shards))
