"""Episodes that are longer than what is held of them at a time: the same in every format, in bounded memory."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from converting import DISCRETE, PICTURES, STACKS, UNIT, minari, recording, same, write

from imitate.datasets import DemoReader, DemoWriter, edit, validate
from imitate.datasets.convert import FORMATS, convert
from imitate.datasets.convert.minari import _checked
from imitate.errors import InputError

LONG = (37, 1, 64)


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps of pictures, some ten of numbers."""
    for module in ("convert.pieces", "storage.reader"):
        monkeypatch.setattr(f"imitate.datasets.{module}.PIECE_BYTES", 7000)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "imitate"])
def test_long_episodes_go_there_and_back_again(name: str, tmp_path: Path) -> None:
    info, labelled = (PICTURES, False) if name in ("minari", "lerobot") else (UNIT, name != "imitation")
    lengths = LONG if info is PICTURES else (370, 1, 640)
    source = write(tmp_path / "a.h5", info, recording(info, labelled=labelled, lengths=lengths))
    out = tmp_path / ("b" if FORMATS[name].folder else {"npz": "b.npz", "csv": "b.csv"}.get(name, "b.hdf5"))
    convert(source, out, format=name)
    convert(out, tmp_path / "c.h5", env_id=info.env_id)
    with DemoReader(source) as was, DemoReader(tmp_path / "c.h5") as now:
        assert (was.table == now.table).all()
        for one, other in zip(was, now, strict=True):
            assert (one.obs == other.obs).all()
            for executed, now_executed in ((one.actions, other.actions), (one.labels, other.labels)):
                assert (executed == now_executed.astype(executed.dtype)).all()
    if name != "csv":
        same(source, tmp_path / "c.h5")


@pytest.mark.parametrize("name", ["minari", "lerobot"])
def test_labels_of_long_episodes_come_back(name: str, tmp_path: Path) -> None:
    source = write(tmp_path / "a.h5", UNIT, recording(UNIT, labelled=True, lengths=(370, 1, 640)))
    convert(source, tmp_path / "b", format=name)
    convert(tmp_path / "b", tmp_path / "c.h5")
    same(source, tmp_path / "c.h5")


def test_each_line_of_a_csv_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six lines of eight fields at a time."""
    monkeypatch.setattr("imitate.datasets.convert.csv_files._FIELDS", 50)
    played = recording(UNIT, lengths=(6, 1, 7, 20))
    convert(write(tmp_path / "a.h5", UNIT, played), tmp_path / "b.csv")
    convert(tmp_path / "b.csv", tmp_path / "c.h5", env_id="Unit-v0")
    with DemoReader(tmp_path / "c.h5") as demos:
        for was, now in zip(played, demos, strict=True):
            assert (was.obs == now.obs).all()
            assert (was.rewards == now.rewards).all()


def test_long_episodes_without_final_observations_lose_one_step(tmp_path: Path) -> None:
    """The step that is dropped, or the row that is repeated, is that of the episode and not of a piece."""
    steps = 3000
    ends = np.isin(np.arange(steps), (1999, 2999))
    flags = {"terminals": ends & (np.arange(steps) == 1999), "timeouts": ends & (np.arange(steps) == 2999)}
    obs = np.arange(2.0 * steps).reshape(steps, 2)
    np.savez(tmp_path / "a.npz", observations=obs, actions=np.arange(steps) % 2, **flags)
    notes = convert(tmp_path / "a.npz", tmp_path / "b.h5", env_id="Nowhere-v0").notes
    assert (
        "the last observation of a terminated episode is repeated, as the one after it is not stored" in notes
    )
    with DemoReader(tmp_path / "b.h5") as demos:
        assert demos.lengths.tolist() == [2000, 999]
        assert (demos[0].obs == np.concatenate([obs[:2000], obs[1999:2000]])).all()
        assert (demos[1].obs == obs[2000:3000]).all()
        assert demos.table["terminated"].tolist() == [True, False]


def test_flags_of_ends_are_read_in_blocks(tmp_path: Path) -> None:
    """437 flags at a time. An episode begins with each block, and others end within one."""
    lengths, steps = [437, 1, 436, 126], np.arange(1000)
    last = np.cumsum(lengths) - 1
    begins = np.isin(steps, [0, *(last[:-1] + 1)])
    terminals = np.isin(steps, last[[0, 2, 3]])
    rows = {"obs": steps[:, None], "next_obs": steps[:, None] + 1, "actions": steps % 2}
    for name, ends in (
        ("starts", {"episode_starts": begins, "terminals": terminals}),
        ("lengths", {"lengths": lengths, "terminals": terminals}),
        ("flags", {"terminals": terminals, "timeouts": steps == last[1]}),
    ):
        np.savez(tmp_path / f"{name}.npz", **rows, **ends)  # type: ignore[arg-type]
        convert(tmp_path / f"{name}.npz", tmp_path / f"{name}.h5", env_id="Nowhere-v0")
        with DemoReader(tmp_path / f"{name}.h5") as demos:
            assert demos.lengths.tolist() == lengths
            assert demos.table["terminated"].tolist() == [True, False, True, True]
            for each, end in zip(demos, last.tolist(), strict=True):
                assert each.obs[:, 0].tolist() == list(range(end + 1 - len(each), end + 2))
                assert each.actions.tolist() == [int(step) % 2 for step in each.obs[:-1, 0]]


def test_a_flag_within_a_long_episode_of_minari_is_refused(tmp_path: Path) -> None:
    source = minari(tmp_path / "a")
    with h5py.File(source / "data" / "main_data.hdf5", "a") as file:
        file["episode_1/terminations"][0] = True
    with pytest.raises(InputError, match="episode 1: its flags are not those of one episode"):
        convert(source, tmp_path / "b.h5")


def test_the_last_piece_of_an_episode_may_hold_the_final_observation_alone() -> None:
    """So it is in Minari's Arrow files, if the steps fill whole batches of records."""

    def rows(*ends: bool) -> dict[str, Any]:
        flags = np.array(ends, bool)
        none = np.zeros_like(flags)
        return {"actions": none, "rewards": np.zeros(len(ends)), "terminated": flags, "truncated": none}

    assert len(list(_checked([rows(False, True), rows()]))) == 2
    for wrong in ([rows(False, True), rows(False)], [rows(True, False)], [rows(True), rows(True)]):
        with pytest.raises(InputError, match="its flags are not those of one episode"):
            list(_checked(wrong))


def test_files_of_long_episodes_are_read_and_edited_in_pieces(tmp_path: Path) -> None:
    played = recording(STACKS, lengths=LONG)
    source = write(tmp_path / "a.h5", replace(STACKS, seed=None), played)
    with DemoReader(source) as demos:
        parts = list(demos.pieces(2))
        assert len(parts) > 10
        assert sum(map(len, parts)) == 64
        assert [part.truncated for part in parts] == [True] * len(parts)
        for one, following in pairwise(parts):
            assert (one.obs[-1] == following.obs[0]).all()
        assert (np.concatenate([part.actions for part in parts]) == played[2].actions).all()
    edit.concat([source, source], tmp_path / "b.h5")
    edit.merge([source, source], tmp_path / "c.h5")
    same(source, tmp_path / "c.h5")
    with DemoReader(tmp_path / "b.h5") as twice:
        assert twice.lengths.tolist() == [*LONG, *LONG]
    assert validate(tmp_path / "b.h5") == []


def test_an_episode_whose_pieces_fail_leaves_nothing(tmp_path: Path) -> None:
    first, _, last = recording(DISCRETE)

    def broken() -> object:
        yield first
        yield first
        raise OSError("gone")

    with DemoWriter(tmp_path / "a.h5", DISCRETE) as writer:
        writer.append(first)
        with pytest.raises(OSError, match="gone"):
            writer.append_pieces(broken())  # type: ignore[arg-type]
        writer.append(last)
    same(write(tmp_path / "b.h5", DISCRETE, [first, last]), tmp_path / "a.h5")


FILM = """
import sys
from pathlib import Path
import numpy as np
from gymnasium import spaces
from memory import peak_memory
from imitate.datasets import DemoInfo, DemoReader, DemoWriter, Trajectory, validate
from imitate.datasets.convert import convert

folder, steps = Path(sys.argv[1]), 1200
info = DemoInfo("Film-v0", spaces.Box(0, 255, (480, 640, 3), np.uint8), spaces.Box(-1.0, 1.0, (2,), np.float32))


def pieces():
    for start in range(0, steps, 24):
        obs = np.zeros((25, 480, 640, 3), np.uint8)
        obs[:, :8, :8] = (start + np.arange(25))[:, None, None, None] % 251
        yield Trajectory(obs, np.zeros((24, 2), np.float32), np.ones(24, np.float32), False, True)


with DemoWriter(folder / "a.h5", info) as writer:
    writer.append_pieces(pieces())
print(validate(folder / "a.h5"))
for source, out, format in (("a.h5", "b", "minari"), ("b", "c.hdf5", "d4rl"), ("c.hdf5", "d.h5", "imitate")):
    convert(folder / source, folder / out, format=format)
with DemoReader(folder / "d.h5") as reader:
    print([int(piece.obs[0, 0, 0, 0]) for piece in reader.pieces(0)][:3], reader.num_steps)
print(peak_memory() >> 20)
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_gigabyte_of_film_is_written_read_and_converted_in_bounded_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FILM, str(tmp_path)]
    paths = {"PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(command, env=os.environ | paths, capture_output=True, text=True, check=True)
    problems, read, peak = done.stdout.splitlines()
    assert (problems, read) == ("[]", "[0, 36, 72] 1200")
    assert int(peak) < 1024
