"""LeRobot's data sets with several cameras and a state, which are Dict observations here."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from converting import PICTURES, UNIT, recording, same, write
from gymnasium import spaces

from imitate.datasets import DemoReader, InputError, Trajectory
from imitate.datasets.convert import convert, video_files
from imitate.envs.fields import from_parts

pytest.importorskip("av")
pytest.importorskip("pyarrow")

PICTURE = spaces.Box(0, 255, (16, 32, 3), np.uint8)
SPACE = spaces.Dict(
    images=spaces.Dict(top=PICTURE, wrist=PICTURE),
    state=spaces.Box(-np.inf, np.inf, (2,), np.float32),
    grip=spaces.Discrete(3),
)
INFO = replace(UNIT, observation_space=SPACE)


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)

    def episode(steps: int, terminated: bool) -> Trajectory:
        rows = steps + 1
        parts = {
            "images/top": rng.integers(0, 256, (rows, 16, 32, 3)).astype(np.uint8),
            "images/wrist": rng.integers(0, 256, (rows, 16, 32, 3)).astype(np.uint8),
            "state": rng.standard_normal((rows, 2)).astype(np.float32),
            "grip": rng.integers(0, 3, rows),
        }
        acted = rng.uniform(-1, 1, (steps, 2)).astype(np.float32)
        rewards = rng.standard_normal(steps).astype(np.float32)
        seed = {"seed": steps}
        obs = from_parts(INFO.observation_space, parts, rows)  # type: ignore[arg-type]
        return Trajectory(obs, acted, rewards, terminated=terminated, truncated=not terminated, info=seed)

    path = tmp_path_factory.mktemp("cameras") / "a.h5"
    return write(path, INFO, [episode(4, True), episode(1, False), episode(6, False)])


@pytest.fixture(scope="module")
def written(demos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lerobot") / "b"
    convert(demos, out, format="lerobot")
    return out


def test_cameras_and_state_come_back(demos: Path, written: Path, tmp_path: Path) -> None:
    assert {path.name for path in (written / "videos").iterdir()} == {
        "observation.images.images.top",
        "observation.images.images.wrist",
    }
    convert(written, tmp_path / "c.h5")
    same(demos, tmp_path / "c.h5")


def test_chosen_parts_of_anothers_data_set_are_a_dict(demos: Path, written: Path, tmp_path: Path) -> None:
    keys = ["observation.images.images.top", "observation.images.images.wrist", "observation.state"]
    convert(written, tmp_path / "c.h5", env_id="Unit-v0", obs_keys=keys)
    with DemoReader(tmp_path / "c.h5") as taken, DemoReader(demos) as whole:
        assert list(taken.info.observation_space) == ["images.images.top", "images.images.wrist", "state"]  # type: ignore[call-overload]
        assert np.array_equal(taken[0].obs["images.images.top"][:4], whole[0].obs["images"]["top"][:4])
        assert np.array_equal(
            taken[0].obs["state"][:4], whole[0].obs["state"][:4]
        )  # its final one is not stored


def test_without_keys_anothers_data_set_gives_everything(written: Path, tmp_path: Path) -> None:
    for name in ("imitate.json", "imitate_final.parquet"):
        (written / "meta" / name).rename(tmp_path / name)
    try:
        found = convert(written, tmp_path / "c.h5", env_id="Unit-v0")
    finally:
        for name in ("imitate.json", "imitate_final.parquet"):
            (tmp_path / name).rename(written / "meta" / name)
    with DemoReader(tmp_path / "c.h5") as reader:
        shapes = {name: part.shape for name, part in reader.info.observation_space.items()}  # type: ignore[attr-defined]
    assert shapes == {
        "grip": (1,),
        "images.images.top": (16, 32, 3),
        "images.images.wrist": (16, 32, 3),
        "state": (2,),
    }
    assert not any(note.startswith("observations") for note in found.notes)


def test_a_part_of_our_own_data_set_is_of_the_same_environment(written: Path, tmp_path: Path) -> None:
    convert(written, tmp_path / "c.h5", obs_keys=["observation.state"])
    with DemoReader(tmp_path / "c.h5") as reader:
        info = reader.info
    assert (info.env_id, info.env_kwargs, info.action_space) == (
        UNIT.env_id,
        UNIT.env_kwargs,
        UNIT.action_space,
    )
    assert info.observation_space.shape == (2,)


def test_a_damaged_final_observation_is_one_line(demos: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    convert(demos, tmp_path / "b", format="lerobot")
    path = tmp_path / "b" / "meta" / "imitate_final.parquet"
    table = parquet.read_table(path)
    short = [row[:-1] for row in table["observation"].to_pylist()]
    parquet.write_table(table.set_column(1, "observation", [short]), path)
    with pytest.raises(InputError, match=r"a final observation has \d+ bytes, wanted"):
        convert(tmp_path / "b", tmp_path / "c.h5")


def test_episodes_of_one_video_have_their_own_frames(tmp_path: Path) -> None:
    """LeRobot stores several in one video. Here meta/episodes lists the last first, and lacks that of index 1."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    lengths = (4, 2, 3, 1, 7)
    played = recording(PICTURES, lengths=lengths)
    convert(write(tmp_path / "a.h5", PICTURES, played), tmp_path / "b", format="lerobot", fps=30)
    for name in ("imitate.json", "imitate_final.parquet"):
        (tmp_path / "b" / "meta" / name).unlink()
    folder = tmp_path / "b" / "videos" / "observation.image" / "chunk-000"
    for file in folder.iterdir():
        file.unlink()
    with video_files.writing(folder / "file-000.mp4", (32, 34, 3), 30) as film:
        for episode in played:
            film(episode.obs[:-1])
    (file,) = (tmp_path / "b" / "meta" / "episodes").rglob("*.parquet")
    rows = parquet.read_table(file).to_pylist()
    # As LeRobot adds them up: 4 / 30 + 2 / 30 + 3 / 30 is more than 9 / 30, by the last bit.
    begins = accumulate((steps / 30 for steps in lengths), initial=0.0)
    for row, begin in zip(rows, begins, strict=False):
        row["videos/observation.image/file_index"] = 0
        row["videos/observation.image/from_timestamp"] = begin
    parquet.write_table(pa.Table.from_pylist([rows[index] for index in (4, 3, 2, 0)]), file)
    convert(tmp_path / "b", tmp_path / "c.h5", env_id="Unit-v0")
    with DemoReader(tmp_path / "c.h5") as reader:
        # The last steps of cut episodes are dropped, and the episode of one step with them.
        for one, index in zip(reader, (0, 2, 4), strict=True):
            assert np.array_equal(one.obs[: lengths[index]], played[index].obs[:-1])
            assert np.array_equal(one.actions, played[index].actions[: len(one)])


@pytest.mark.parametrize("codec", ["h264", "png"])
def test_the_description_of_a_picture_may_begin_with_its_channels(codec: str, tmp_path: Path) -> None:
    """LeRobot goes by the names too."""
    write(tmp_path / "a.h5", PICTURES, recording(PICTURES, lengths=(4,)))
    convert(tmp_path / "a.h5", tmp_path / "b", format="lerobot", codec=codec)
    path = tmp_path / "b" / "meta" / "info.json"
    info = json.loads(path.read_text("utf-8"))
    picture = info["features"]["observation.image"]
    height, width, channels = picture["shape"]
    picture |= {"shape": [channels, height, width], "names": ["channels", "height", "width"]}
    path.write_text(json.dumps(info), "utf-8")
    convert(tmp_path / "b", tmp_path / "c.h5")
    same(tmp_path / "a.h5", tmp_path / "c.h5")
    path.write_text(json.dumps(info).replace(f"{height}, {width}", f"{height}, {width + 1}"), "utf-8")
    with pytest.raises(InputError, match=rf"\({height}, {width}"):
        convert(tmp_path / "b", tmp_path / "d.h5")


def test_images_of_two_cameras_are_not_mixed_up(demos: Path, tmp_path: Path) -> None:
    convert(demos, tmp_path / "b", format="lerobot", codec="png")
    convert(tmp_path / "b", tmp_path / "c.h5")
    same(demos, tmp_path / "c.h5")
    for name in ("imitate.json", "imitate_final.parquet"):
        (tmp_path / "b" / "meta" / name).unlink()
    convert(tmp_path / "b", tmp_path / "d.h5", env_id="Unit-v0")
    with DemoReader(tmp_path / "d.h5") as taken, DemoReader(demos) as whole:
        for camera in ("top", "wrist"):
            seen = taken[0].obs[f"images.images.{camera}"]
            assert seen.dtype == np.uint8
            assert np.array_equal(seen[:4], whole[0].obs["images"][camera][:4])
