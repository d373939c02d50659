"""Files of demonstrations that are damaged, or none at all: one line that says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest
from attacks import as_old
from recordings import BOX, INFO, one_line, trajectory

from imitate.datasets import DemoInfo, DemoReader, DemoWriter, InputError, episode_seeds, validate

pytestmark = pytest.mark.forks


def test_files_that_are_none(tmp_path: Path) -> None:
    absent, text, foreign, folder = (
        tmp_path / name for name in ("absent.h5", "text.h5", "foreign.h5", "folder")
    )
    text.write_text("not HDF5")
    folder.mkdir()
    with h5py.File(foreign, "w") as file:
        file["data"] = [1, 2]
    for path in (absent, folder):
        with pytest.raises(InputError) as error:
            DemoReader(path)
        assert "no file of demonstrations" in one_line(error)
    with pytest.raises(InputError) as error:
        DemoReader(text)
    assert "not a whole HDF5 file" in one_line(error)
    assert "demos.h5` reads other formats" in one_line(error)
    with pytest.raises(InputError) as error:
        DemoReader(foreign)
    assert "not a file of demonstrations" in one_line(error)
    assert "`imitate data convert` reads other projects'" in one_line(error)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6, 0.9, 0.999])
def test_truncated_files(tmp_path: Path, share: float) -> None:
    path = tmp_path / "demos.h5"
    with DemoWriter(path, INFO) as writer:
        for seed in range(100):
            writer.append(trajectory(200, seed))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InputError) as error:
        DemoReader(path)
    assert "not a whole HDF5 file" in one_line(error)


def test_other_schema(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    with DemoWriter(path, INFO) as writer:
        writer.append(trajectory())
    with h5py.File(path, "r+") as file:
        file.attrs["schema_version"] = 99
    with pytest.raises(InputError, match="has schema 99, this release reads 1 and 2: upgrade"):
        DemoReader(path)


def _set(file: h5py.File, column: str, row: int, value: Any) -> None:
    file[column][row] = value


def _set_table(file: h5py.File, field: str, row: int, value: Any) -> None:
    table = file["episodes"][:]
    table[field][row] = value
    file["episodes"][:] = table


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: _set(f, "rewards", 0, 99), "episode 0: its rewards add up"),
        (lambda f: _set(f, "obs", 7, np.nan), "episode 1: obs of"),
        (lambda f: _set(f, "actions", 1, 4), "episode 0: 1 actions are outside"),
        (lambda f: _set_table(f, "terminated", 0, False), "episode 0: it is neither"),
        (lambda f: _set_table(f, "seed", 1, 7), "seed 7 is not one of collection 5"),
    ],
)
def test_validate_names_what_is_wrong(tmp_path: Path, damage: Any, message: str) -> None:
    path = tmp_path / "demos.h5"
    seeds = episode_seeds(5)
    with DemoWriter(path, DemoInfo("Made-v0", BOX, gym.spaces.Discrete(4), seed=5)) as writer:
        for _ in range(2):
            one = trajectory(5, 0, info={"seed": next(seeds)})
            writer.append(one)
    assert validate(path) == []
    with h5py.File(path, "r+") as file:
        damage(file)
    (problem,) = validate(path)
    assert problem.startswith(message)


@pytest.mark.parametrize(
    ("field", "value"), [("start", 9), ("obs_start", 9), ("length", 9), ("return", 1e308), ("return", np.nan)]
)
def test_inconsistent_table(tmp_path: Path, field: str, value: float) -> None:
    """Two returns of 1e308 and -1e308 are too far apart for any bins, and their squares are infinite."""
    path = tmp_path / "demos.h5"
    with DemoWriter(path, INFO) as writer:
        writer.append(trajectory(5, 0))
        writer.append(trajectory(5, 1))
    with h5py.File(path, "r+") as file:
        _set_table(file, field, 1, value)
    with pytest.raises(InputError) as error:
        validate(path)
    one_line(error)


@pytest.mark.parametrize("rows", [1, 8])
def test_labels_of_some_steps_are_not_those_of_all(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "demos.h5"
    with DemoWriter(path, INFO, expert_actions=True) as writer:
        writer.append(trajectory(5))
        writer.append(trajectory(5))
    with h5py.File(path, "r+") as file:
        file["expert_actions"].resize(rows, axis=0)
    with pytest.raises(InputError, match=r"more steps than are stored|fewer are stored"):
        DemoReader(path)


def test_a_chunk_beyond_the_end_is_refused_when_it_is_read(tmp_path: Path) -> None:
    """HDF5's old format has no checksums: the place of a chunk is changed to where the file has no data."""
    with DemoWriter(tmp_path / "new.h5", INFO) as writer:
        writer.append(trajectory(200))
    as_old(tmp_path / "new.h5", path := tmp_path / "old.h5")
    with h5py.File(path) as file:
        place = file["obs"].id.get_chunk_info(1).byte_offset
    data, size = path.read_bytes(), path.stat().st_size
    assert data.count(place.to_bytes(8, "little")) == 1
    path.write_bytes(data.replace(place.to_bytes(8, "little"), size.to_bytes(8, "little")))
    with pytest.raises(InputError) as error, DemoReader(path) as reader:
        reader.transitions()
    assert "old.h5" in one_line(error)


def test_chunks_that_hold_more_than_the_file_are_refused(tmp_path: Path) -> None:
    """The size of a compressed chunk is changed, in the old format, to more than the file has."""
    with DemoWriter(tmp_path / "new.h5", INFO) as writer:
        writer.append(trajectory(200))
    path = tmp_path / "old.h5"
    with h5py.File(tmp_path / "new.h5") as new, h5py.File(path, "w", libver="earliest") as old:
        old.attrs.update(new.attrs)
        for name, dataset in new.items():
            packed = 1 if name == "obs" else None
            old.create_dataset(name, data=dataset[:], chunks=(1, *dataset.shape[1:]), compression=packed)
            old[name].attrs.update(dataset.attrs)
        chunk = old["obs"].id.get_chunk_info(0)
    entry = chunk.size.to_bytes(4, "little") + bytes(4 + 8 * 3) + chunk.byte_offset.to_bytes(8, "little")
    data = path.read_bytes()
    assert data.count(entry) == 1
    path.write_bytes(data.replace(entry, (1 << 30).to_bytes(4, "little") + entry[4:]))
    with pytest.raises(InputError, match=r"'obs' goes beyond its end"):
        DemoReader(path)
