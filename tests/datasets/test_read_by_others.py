"""Columns of converted data sets that only other programs read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from converting import PICTURES, UNIT, recording, write

from imitate.datasets.convert import convert

LENGTHS = (4, 1, 7)
STEPS = [0, 1, 2, 3, 0, 0, 1, 2, 3, 4, 5, 6]
LAST = [step in (3, 4, 11) for step in range(12)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "a.h5", UNIT, recording(UNIT, lengths=LENGTHS))


def following() -> Any:
    """The observation after each of the twelve steps."""
    return np.concatenate([episode.obs[1:] for episode in recording(UNIT, lengths=LENGTHS)])


def test_each_row_of_d4rl_has_the_observation_after_it(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "b.hdf5", format="d4rl")
    with h5py.File(tmp_path / "b.hdf5") as file:
        assert np.array_equal(file["next_observations"], following())
        assert file["infos/seed"][:].tolist() == [100] * 4 + [101] + [102] * 7


def test_an_end_of_d4rl_is_terminal_or_timed_out(tmp_path: Path) -> None:
    """D4RL's readers take a step with both for a cut one, and lose its termination."""
    played = [replace(episode, terminated=True, truncated=True) for episode in recording(UNIT)]
    convert(write(tmp_path / "a.h5", UNIT, played), tmp_path / "b.hdf5", format="d4rl")
    with h5py.File(tmp_path / "b.hdf5") as file:
        assert file["terminals"][:].tolist() == LAST
        assert not file["timeouts"][:].any()


def test_each_row_of_robomimic_has_the_observation_after_it(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Episodes are written in pieces of two steps."""
    monkeypatch.setattr("imitate.datasets.storage.reader.PIECE_BYTES", 100)
    convert(source, tmp_path / "b.hdf5", format="robomimic")
    with h5py.File(tmp_path / "b.hdf5") as file:
        demos = [file[f"data/demo_{number}"] for number in range(3)]
        assert np.array_equal(np.concatenate([demo["next_obs/flat"] for demo in demos]), following())
        assert np.concatenate([demo["dones"] for demo in demos]).tolist() == LAST
        assert [demo.attrs["num_samples"] for demo in demos] == [4, 1, 7]
        assert file["data"].attrs["total"] == 12


@pytest.mark.parametrize("layout", ["minari", "minari-arrow"])
def test_minari_counts_episodes_and_steps(
    layout: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Episodes are written in pieces of two steps."""
    monkeypatch.setattr("imitate.datasets.storage.reader.PIECE_BYTES", 100)
    convert(source, tmp_path / "b", format=layout)
    data = tmp_path / "b" / "data"
    metadata = json.loads((data / "metadata.json").read_text("utf-8"))
    assert (metadata["total_episodes"], metadata["total_steps"]) == (3, 12)
    assert metadata["algorithm_name"] == UNIT.expert
    if layout == "minari":
        with h5py.File(data / "main_data.hdf5") as file:
            said: list[Any] = [dict(file[f"episode_{number}"].attrs) for number in range(3)]
    else:
        said = [json.loads((data / str(number) / "metadata.json").read_text("utf-8")) for number in range(3)]
    assert said == [
        {"id": number, "total_steps": steps, "seed": 100 + number} for number, steps in enumerate(LENGTHS)
    ]


def test_imitations_rows_have_an_info_for_each_step(source: Path, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    convert(source, tmp_path / "b", format="imitation")
    with pa.memory_map(str(tmp_path / "b" / "data-00000-of-00001.arrow")) as file:
        rows = pa.ipc.open_stream(file).read_all().to_pylist()
    assert [row["infos"] for row in rows] == [["{}"] * steps for steps in LENGTHS]
    features = json.loads((tmp_path / "b" / "dataset_info.json").read_text("utf-8"))["features"]
    numbers = {"dtype": "float32", "_type": "Value"}
    assert features["rews"] == {"feature": numbers, "_type": "Sequence"}
    assert features["terminal"] == {"dtype": "bool", "_type": "Value"}


def test_lerobot_counts_steps_in_the_episode_and_over_all(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    info = replace(UNIT, has_texts=True, fps=10.0)
    told = [{"task": "push"}, {}, {"task": "push"}]
    played = [replace(one, info=text) for one, text in zip(recording(info), told, strict=True)]
    convert(write(tmp_path / "a.h5", info, played), tmp_path / "b", format="lerobot")
    (file,) = (tmp_path / "b" / "data").rglob("*.parquet")
    steps = parquet.read_table(file).to_pydict()
    assert steps["frame_index"] == STEPS
    assert steps["index"] == list(range(12))
    assert steps["episode_index"] == [0] * 4 + [1] + [2] * 7
    assert steps["timestamp"] == pytest.approx([step / 10 for step in STEPS])
    assert steps["next.done"] == LAST
    assert steps["task_index"] == [0] * 4 + [1] + [0] * 7
    tasks = parquet.read_table(tmp_path / "b" / "meta" / "tasks.parquet").to_pydict()
    assert tasks == {"task_index": [0, 1], "__index_level_0__": ["push", "Unit-v0"]}
    (file,) = (tmp_path / "b" / "meta" / "episodes").rglob("*.parquet")
    episodes = parquet.read_table(file).to_pydict()
    assert episodes["dataset_from_index"] == [0, 4, 5]
    assert episodes["dataset_to_index"] == [4, 5, 12]
    assert episodes["data/file_index"] == [0, 0, 0]
    assert episodes["stats/next.reward/max"] == [[max(one.rewards)] for one in played]
    assert episodes["stats/action/count"] == [[4], [1], [7]]
    document = json.loads((tmp_path / "b" / "meta" / "info.json").read_text("utf-8"))
    assert (document["total_episodes"], document["total_frames"], document["total_tasks"]) == (3, 12, 2)
    assert document["splits"] == {"train": "0:3"}


def test_lerobots_videos_end_after_their_last_frame(tmp_path: Path) -> None:
    pytest.importorskip("av")
    parquet = pytest.importorskip("pyarrow.parquet")
    source = write(tmp_path / "a.h5", PICTURES, recording(PICTURES, lengths=LENGTHS))
    convert(source, tmp_path / "b", format="lerobot", fps=10)
    (file,) = (tmp_path / "b" / "meta" / "episodes").rglob("*.parquet")
    episodes = parquet.read_table(file).to_pydict()
    assert episodes["videos/observation.image/file_index"] == [0, 1, 2]
    assert episodes["videos/observation.image/from_timestamp"] == [0, 0, 0]
    assert episodes["videos/observation.image/to_timestamp"] == pytest.approx([0.4, 0.1, 0.7])
