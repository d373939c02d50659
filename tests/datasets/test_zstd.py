"""Pictures compressed with Zstandard, whose filter is a plugin of HDF5."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from counting import Cycling, info_of, stacked_envs
from forked import run
from gymnasium import spaces
from recordings import assert_same, one_line
from structured import Knower
from test_structured_demos import record

from imitate.cli import main
from imitate.datasets import (
    DemoInfo,
    DemoReader,
    DemoWriter,
    InputError,
    Trajectory,
    edit,
    episodes,
    validate,
)
from imitate.datasets.convert import convert
from imitate.datasets.storage.zstd import ZSTD, register

BOX = spaces.Box(0, 255, (48, 48), np.uint8)
INFO = DemoInfo("Frames-v0", BOX, spaces.Discrete(2), compression="zstd")
FRAMES = np.random.default_rng(0).integers(0, 256, (12, 48, 48), np.uint8)
FRAMES[1:, 8:] = FRAMES[0, 8:]  # only a part of the picture changes


def episode(steps: int = 11, seed: int = 0) -> Trajectory:
    zeros = np.zeros(steps, np.int64), np.ones(steps, np.float32)
    return Trajectory(FRAMES[: steps + 1], *zeros, False, True, info={"seed": seed})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with DemoWriter(tmp_path / "a.h5", INFO) as writer:
        for seed in range(20):
            writer.append(episode(1 + seed % 11, seed))
    return tmp_path / "a.h5"


def filters(path: Path) -> dict[str, str]:
    with h5py.File(path) as file:
        assert (file["obs"].id.get_create_plist().get_filter(0)[0]) == ZSTD
        return {name: dataset.attrs["compression"] for name, dataset in file.items()}


def test_pictures_alone_are_compressed_and_come_back(path: Path) -> None:
    assert filters(path) == {"obs": "zstd 3", "actions": "none", "rewards": "none", "episodes": "none"}
    assert validate(path) == []
    with DemoReader(path) as reader:
        assert reader.info == INFO
        for seed, read in enumerate(reader):
            assert_same(read, episode(1 + seed % 11, seed))


def test_files_made_from_it_and_resumed_ones_keep_it(path: Path, tmp_path: Path) -> None:
    edit.split(path, tmp_path / "b.h5", tmp_path / "c.h5", holdout=0.4)
    edit.merge([tmp_path / "b.h5", tmp_path / "c.h5"], tmp_path / "d.h5")
    with DemoWriter.resume(tmp_path / "d.h5") as writer:
        writer.append(episode(3, 20))
        assert len(writer.reader()) == 21
    assert filters(tmp_path / "d.h5")["obs"] == "zstd 3"
    assert validate(tmp_path / "d.h5") == []


def test_a_killed_recording_is_read(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from test_zstd import INFO, episode
from imitate.datasets import DemoWriter
writer = DemoWriter(sys.argv[1], INFO)
for seed in range(9):
    writer.append(episode(11, seed))
writer.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
    run(script, str(tmp_path / "a.h5"))
    assert validate(tmp_path / "a.h5") == []
    with DemoReader(tmp_path / "a.h5") as reader:
        assert_same(reader[8], episode(11, 8))


def test_still_pictures_shrink_by_more_than_gzip_can(tmp_path: Path) -> None:
    still = np.zeros((61, 480, 640, 3), np.uint8)
    info = replace(INFO, observation_space=spaces.Box(0, 255, (480, 640, 3), np.uint8))
    with DemoWriter(tmp_path / "a.h5", info) as writer:
        for seed in range(3):
            zeros = np.zeros(60, np.int64), np.zeros(60, np.float32)
            writer.append(Trajectory(still, *zeros, False, True, info={"seed": seed}))
    with DemoReader(tmp_path / "a.h5") as reader:
        assert reader.num_steps == 180
        assert 1100 * (tmp_path / "a.h5").stat().st_size < 183 * 480 * 640 * 3
        assert not reader[2].obs.any()


def test_a_dict_with_a_picture_and_stacked_frames(tmp_path: Path) -> None:
    record(tmp_path / "a.h5", "ToldByPicture-v0", Knower(), compression="zstd").close()
    assert filters(tmp_path / "a.h5")["obs"] == "zstd 3"
    envs = stacked_envs(2, period=40)
    with DemoWriter(tmp_path / "b.h5", info_of(envs, frame_stack=4, compression="zstd")) as writer:
        for one in episodes(Cycling(), envs, range(10), frame_stack=4):
            writer.append(one)
    assert validate(tmp_path / "a.h5") == validate(tmp_path / "b.h5") == []


def test_states_are_not_compressed(tmp_path: Path) -> None:
    assert main(["collect", "random", "--env", "CartPole-v1", "--episodes", "2", "--compression", "zstd",
                 "--out", str(tmp_path / "a.h5")]) == 0  # fmt: skip
    with h5py.File(tmp_path / "a.h5") as file:
        assert {dataset.attrs["compression"] for dataset in file.values()} == {"none"}
        assert file.attrs["compression"] == "zstd"


def test_a_conversion_changes_the_filter(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    convert(path, tmp_path / "b.h5", compression="gzip")
    assert (
        main(["data", "convert", str(tmp_path / "b.h5"), str(tmp_path / "c.h5"), "--compression", "zstd"])
        == 0
    )
    assert filters(tmp_path / "c.h5")["obs"] == "zstd 3"
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["obs"].compression == "gzip"
    with DemoReader(tmp_path / "b.h5") as before, DemoReader(tmp_path / "c.h5") as after:
        assert_same(before[7], after[7])
    assert main(["data", "convert", str(path), str(tmp_path / "d.npz"), "--compression", "zstd"]) == 2
    assert "npz has its own compression: leave --compression out" in capsys.readouterr().err


def test_without_the_plugin_one_line_names_the_extra(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    with pytest.raises(InputError, match=r'zstd need hdf5plugin: pip install .*"\.\[zstd\]"') as error:
        DemoReader(path)
    assert str(path) in one_line(error)
    with pytest.raises(InputError, match=r'pip install .*"\.\[zstd\]"'):
        DemoWriter(tmp_path / "b.h5", INFO)
    assert [file.name for file in tmp_path.iterdir()] == ["a.h5"]


def test_without_the_plugin_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    out = str(tmp_path / "a.h5")
    assert main(["collect", "CartPole-v1", "--episodes", "1", "--compression", "zstd", "--out", out]) == 2
    assert capsys.readouterr().err.startswith(f"imitate: {out}: pictures compressed with zstd need ")


def test_a_conversion_without_the_plugin_names_its_file(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert(path, tmp_path / "b.h5", compression="gzip")
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    with pytest.raises(InputError) as error:
        convert(tmp_path / "b.h5", tmp_path / "c.h5", compression="zstd")
    assert str(error.value).startswith(f"{tmp_path / 'c.h5'}: pictures compressed with zstd need ")


def test_no_other_filter_is_registered(path: Path) -> None:
    script = """
import sys, h5py
from imitate.datasets import DemoReader
with DemoReader(sys.argv[1]) as reader:
    reader[0]
print([number for number in range(32001, 32100) if h5py.h5z.filter_avail(number)])
"""
    assert run(script, str(path)).stdout.strip() == f"[{ZSTD}]"


def test_another_compression_is_refused(path: Path) -> None:
    with pytest.raises(InputError, match="compressed with 'lz9': use gzip or zstd"):
        replace(INFO, compression="lz9")
    with h5py.File(path, "a") as file:
        file.attrs["compression"] = "lz9"
    with pytest.raises(InputError, match="compressed with 'lz9'"):
        DemoReader(path)


def _unsaid(file: h5py.File) -> None:
    file.attrs["compression"] = "gzip"


def _rewards(file: h5py.File) -> None:
    rows = file["rewards"][:]
    del file["rewards"]
    file.create_dataset("rewards", data=rows, maxshape=(None,), chunks=(64,), compression=ZSTD)


def _claim(claimed: bytes) -> Callable[[h5py.File], None]:
    """A chunk whose header claims another size. Those of the recording take 8 bytes for it."""

    def change(file: h5py.File) -> None:
        mask, chunk = file["obs"].id.read_direct_chunk((0, 0, 0))
        assert chunk[:4] == b"\x28\xb5\x2f\xfd"
        descriptor = chunk[4] & 0b00111111 | 0b11000000
        header = chunk[:4] + bytes([descriptor]) + (b"" if chunk[4] & 0b00100000 else chunk[5:6]) + claimed
        file["obs"].id.write_direct_chunk((0, 0, 0), header + bytes(32), mask)

    return change


def _no_frame(file: h5py.File) -> None:
    file["obs"].id.write_direct_chunk((0, 0, 0), b"nonsense" * 4, 0)


def _unchecked(file: h5py.File) -> None:
    rows = file["obs"][:]
    del file["obs"]
    file.create_dataset(
        "obs", data=rows, maxshape=(None, *rows.shape[1:]), chunks=(64, 48, 48), compression=ZSTD
    )


def _unpacked(file: h5py.File) -> None:
    file["obs"].id.write_direct_chunk((0, 0, 0), bytes(9), 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_unsaid, "'obs' is compressed with filters .3, 32015.; use gzip, or none"),
        (_rewards, "'rewards' is compressed with filters .32015.; use gzip, or none"),
        (
            _claim((1 << 40).to_bytes(8, "little")),
            "'obs' has a chunk that claims 1099511627776 bytes, wanted 147456",
        ),
        (_claim(bytes(8)), "'obs' has a chunk that claims 0 bytes"),
        (_no_frame, "'obs' has a chunk that claims None bytes"),
        (_unchecked, "'obs' has filters .32015., wanted zstd and then HDF5's checksum"),
        (_unpacked, "'obs' has a chunk that claims None bytes"),
    ],
)
def test_what_claims_another_size_or_filter_is_refused(
    path: Path, change: Callable[[h5py.File], None], message: str
) -> None:
    with h5py.File(path, "a") as file:
        change(file)
    with pytest.raises(InputError, match=message) as error:
        DemoReader(path)
    one_line(error)


def test_a_damaged_frame_is_one_line(path: Path) -> None:
    """The plugin says nothing; HDF5's checksum does."""
    with h5py.File(path, "a") as file:
        mask, chunk = file["obs"].id.read_direct_chunk((0, 0, 0))
        file["obs"].id.write_direct_chunk((0, 0, 0), chunk[:18] + bytes(len(chunk) - 18), mask)
    with DemoReader(path) as reader, pytest.raises(InputError, match="obs can't be read") as error:
        reader[0]
    one_line(error)


def test_foreign_files_with_it_are_refused(tmp_path: Path) -> None:
    register(tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for name in ("observations", "actions", "rewards", "terminals"):
            file.create_dataset(name, data=np.zeros((9, 1)), chunks=(9, 1), compression=ZSTD)
    with pytest.raises(InputError, match=r"compressed with filters \[32015\]; use gzip"):
        convert(tmp_path / "a.hdf5", tmp_path / "b.h5", env_id="CartPole-v1")
