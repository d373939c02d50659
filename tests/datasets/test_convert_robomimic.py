"""robomimic's files with several kinds of observations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from converting import UNIT, same, write
from gymnasium import spaces
from test_convert_foreign import VECTORS, robomimic

from imitate.datasets import DemoReader, InputError, Trajectory
from imitate.datasets.convert import convert
from imitate.envs.fields import in_rows


def test_cameras_and_state_of_robomimic_are_a_dict_both_ways(tmp_path: Path) -> None:
    wrist = np.full((3, 8, 8, 3), 7, np.uint8)
    source = robomimic(tmp_path / "a.hdf5", **{"obs/wrist": wrist, "next_obs/wrist": wrist})
    assert (
        convert(source, tmp_path / "b.h5", obs_keys=["camera", "a", "wrist"])
        .notes[0]
        .startswith("observations 'b' are left out")
    )
    with DemoReader(tmp_path / "b.h5") as reader:
        shapes = {name: part.shape for name, part in reader.info.observation_space.items()}  # type: ignore[attr-defined]
        assert shapes == {"a": (2,), "camera": (8, 8, 3), "wrist": (8, 8, 3)}
        assert reader[0].obs["a"].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
        assert (reader[0].obs["camera"].reshape(4, -1).max(1)).tolist() == [0, 0, 0, 1]
        assert reader[0].obs["wrist"].min() == 7
    convert(tmp_path / "b.h5", tmp_path / "c.hdf5", format="robomimic")
    with h5py.File(tmp_path / "c.hdf5") as file:
        assert set(file["data/demo_0/obs"]) == {"a", "camera", "wrist"}
    convert(tmp_path / "c.hdf5", tmp_path / "d.h5")
    same(tmp_path / "b.h5", tmp_path / "d.h5")


def test_all_observations_are_taken_also_those_in_groups(tmp_path: Path) -> None:
    """Vectors alone are one array, as before."""
    left, seen = np.full((3, 8, 8, 3), 7, np.uint8), np.array([False, True, True])
    more = {"obs/cams/left": left, "next_obs/cams/left": left, "obs/seen": seen, "next_obs/seen": seen}
    source = robomimic(tmp_path / "a.hdf5", **more)
    done = convert(source, tmp_path / "b.h5")
    assert not any("left out" in note for note in done.notes)
    with DemoReader(tmp_path / "b.h5") as reader:
        shapes = {name: part.shape for name, part in reader.info.observation_space.items()}  # type: ignore[attr-defined]
        assert shapes == {"a": (2,), "b": (1,), "camera": (8, 8, 3), "cams/left": (8, 8, 3), "seen": ()}
        assert reader[0].obs["cams/left"].min() == 7
        assert reader[0].obs["seen"].tolist() == [False, True, True, True]
    with pytest.raises(InputError, match="no observation 'cams'; there are a, b, camera, cams/left, seen"):
        convert(source, tmp_path / "c.h5", obs_keys=["cams"])
    with pytest.raises(InputError, match=r"npz holds no Dict observations: .* with --obs-keys"):
        convert(source, tmp_path / "c.npz")


def test_nested_dicts_of_robomimic_come_back(tmp_path: Path) -> None:
    space = spaces.Dict(hand=spaces.Dict(digit=spaces.Discrete(3)), far=spaces.Box(-1, 1, (2,), np.float64))
    info = replace(UNIT, observation_space=space)
    obs = in_rows(info.observation_space, {"hand": {"digit": [0, 2, 1]}, "far": np.eye(3, 2)}, (3,))
    acted = np.full((2, 2), 0.5, np.float32)
    episode = Trajectory(obs, acted, np.ones(2, np.float32), terminated=True, truncated=False)
    convert(write(tmp_path / "a.h5", info, [episode]), tmp_path / "b.hdf5", format="robomimic")
    with h5py.File(tmp_path / "b.hdf5") as file:
        assert file["data/demo_0/obs/hand/digit"][:].tolist() == [0, 2]
    convert(tmp_path / "b.hdf5", tmp_path / "c.h5")
    same(tmp_path / "a.h5", tmp_path / "c.h5")
    convert(tmp_path / "b.hdf5", tmp_path / "d.h5", obs_keys=["far"])
    with DemoReader(tmp_path / "d.h5") as reader:
        assert reader[0].obs.tolist() == np.eye(3, 2).tolist()


def test_parts_of_robomimics_dict_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    source = robomimic(tmp_path / "a.hdf5")
    with h5py.File(source, "a") as file:
        del file["data/demo_2/obs/camera"]
        file["data/demo_2/obs/camera"] = np.zeros((3, 4, 4, 3), np.uint8)
    with pytest.raises(InputError, match="'camera' has shape"):
        convert(source, tmp_path / "b.h5", obs_keys=["camera", "a"])
    assert not (tmp_path / "b.h5").exists()


def test_observations_are_as_precise_as_the_most_precise_demonstration(tmp_path: Path) -> None:
    """The first one's are float32, in which 0.1 is another number."""
    source = robomimic(tmp_path / "a.hdf5", **VECTORS)
    with h5py.File(source, "a") as file:
        for name in ("obs/a", "obs/b", "next_obs/a", "next_obs/b"):
            rows = file[f"data/demo_0/{name}"][:]
            del file[f"data/demo_0/{name}"]
            file[f"data/demo_0/{name}"] = rows.astype(np.float32)
        file["data/demo_2/obs/b"][0] = 0.1
    convert(source, tmp_path / "b.h5")
    with DemoReader(tmp_path / "b.h5") as reader:
        assert reader.info.observation_space.dtype == np.float64
        assert reader[1].obs[0].tolist() == [0, 1, 0.1]


def test_demonstrations_of_robomimic_itself_count_as_truncated(tmp_path: Path) -> None:
    convert(robomimic(tmp_path / "a.hdf5", **VECTORS), tmp_path / "b.h5")
    with DemoReader(tmp_path / "b.h5") as reader:
        assert [(one.terminated, one.truncated) for one in reader] == [(False, True)] * 3


@pytest.mark.parametrize("bound", [-1.0, 1.0])
def test_actions_are_checked_at_both_bounds(bound: float, tmp_path: Path) -> None:
    actions = np.full((3, 2), bound)
    convert(robomimic(tmp_path / "a.hdf5", actions=actions, **VECTORS), tmp_path / "a.h5")
    actions[1, 1] *= 1.5
    robomimic(tmp_path / "b.hdf5", actions=actions, **VECTORS)
    with pytest.raises(InputError, match=r"demo_0: its actions leave \[-1, 1\]"):
        convert(tmp_path / "b.hdf5", tmp_path / "b.h5")
    convert(tmp_path / "b.hdf5", tmp_path / "b.h5", clip=True)
    with DemoReader(tmp_path / "a.h5") as within, DemoReader(tmp_path / "b.h5") as clipped:
        np.testing.assert_array_equal(clipped[0].actions, within[0].actions)


@pytest.mark.parametrize(
    ("stored", "wanted"), [("f4", "float32"), ("f8", "float64"), ("f2", "float16"), ("i8", "float32")]
)
def test_floats_keep_their_type_and_whole_numbers_become_floats(
    stored: str, wanted: str, tmp_path: Path
) -> None:
    convert(robomimic(tmp_path / "a.hdf5", actions=np.ones((3, 2), stored), **VECTORS), tmp_path / "b.h5")
    with DemoReader(tmp_path / "b.h5") as demos:
        assert demos.info.action_space == spaces.Box(-1.0, 1.0, (2,), np.dtype(wanted).type)
        assert demos[0].actions.dtype == wanted


def test_big_endian_vectors_beside_pictures(tmp_path: Path) -> None:
    rows = np.arange(6, dtype=">f4").reshape(3, 2)
    source = robomimic(tmp_path / "a.hdf5", **{"obs/vec": rows, "next_obs/vec": rows})
    convert(source, tmp_path / "b.h5", obs_keys=["camera", "vec"])
    with DemoReader(tmp_path / "b.h5") as reader:
        assert reader[0].obs["vec"].tolist() == [[0, 1], [2, 3], [4, 5], [4, 5]]
