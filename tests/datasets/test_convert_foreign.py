"""Data sets as D4RL, robomimic, `imitation` and LeRobot write them, and plain arrays."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest
from converting import PICTURES, UNIT, d4rl, minari, recording, same, write

from imitate.datasets import DemoReader, InputError
from imitate.datasets.convert import convert
from imitate.datasets.convert.lerobot_layout import features_of_space
from imitate.datasets.convert.lerobot_stats import Stats
from imitate.envs.fields import as_fields

UNKNOWN = "Nowhere-v0 is not installed here (MODULE:Nowhere-v0 would name one of yours)"
GUESSED = f"{UNKNOWN}: its spaces are as wide as the data"


def test_d4rl_without_final_observations(tmp_path: Path) -> None:
    """A terminated episode repeats its last observation, which nothing looks at; a cut one loses its last step."""
    source = d4rl(tmp_path / "a.hdf5")
    converted = convert(source, tmp_path / "b.h5", env_id="Nowhere-v0")
    assert converted.notes == [
        "the last observation of a terminated episode is repeated, as the one after it is not stored",
        "the last step of a cut episode is dropped, as the observation after it is not stored",
        GUESSED,
    ]
    with DemoReader(tmp_path / "b.h5") as reader:
        first, second = reader
        assert first.obs.tolist() == [[0, 1], [2, 3], [4, 5], [4, 5]]
        assert (first.terminated, first.truncated, first.rewards.tolist()) == (True, False, [0, 1, 2])
        assert second.obs.tolist() == [[6, 7], [8, 9], [10, 11]]
        assert (second.terminated, second.truncated, second.rewards.tolist()) == (False, True, [3, 4])


def test_in_d4rl_terminal_wins_over_timeout(tmp_path: Path) -> None:
    both = np.array([0, 0, 1, 0, 0, 0], bool)
    following = np.arange(2, 14, dtype=np.float32).reshape(6, 2)
    source = d4rl(tmp_path / "a.hdf5", terminals=both, timeouts=both, next_observations=following)
    converted = convert(source, tmp_path / "b.h5", env_id="Nowhere-v0")
    assert converted.notes == [
        "steps are both terminal and timed out: terminal wins",
        "the rows after the last end are an episode that was cut",
        GUESSED,
    ]
    with DemoReader(tmp_path / "b.h5") as reader:
        assert [(t.terminated, t.truncated) for t in reader] == [(True, False), (False, True)]
        assert reader[0].obs[-1].tolist() == [6, 7]


NAN_FLAGS = np.array([0.0, np.nan, 1.0, 0.0, 0.0, 1.0])


def of_steps(path: Path) -> None:
    np.savez(path, obs=np.ones((6, 1)), actions=np.zeros(6, int), terminals=NAN_FLAGS)


def of_episodes(path: Path) -> None:
    np.savez(path, obs=np.ones((6, 1)), actions=np.zeros(6, int), lengths=[3, 3], timeouts=NAN_FLAGS[:2])


def of_groups(path: Path) -> None:
    with h5py.File(minari(path) / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0/truncations"]
        file["episode_0/truncations"] = NAN_FLAGS[:2]


def of_attributes(path: Path) -> None:
    with h5py.File(robomimic(path), "a") as file:
        file["data/demo_0"].attrs["terminated"] = np.nan


@pytest.mark.parametrize(
    ("name", "make", "flag", "env_id"),
    [
        ("a.npz", of_steps, "terminals", "Nowhere-v0"),
        ("a.npz", of_episodes, "timeouts", "Nowhere-v0"),
        ("a.hdf5", lambda path: d4rl(path, terminals=NAN_FLAGS), "/terminals", "Nowhere-v0"),
        ("a", of_groups, "truncations", None),
        ("a.hdf5", of_attributes, "terminated", None),
    ],
)
def test_a_flag_that_is_no_number_is_one_line(
    name: str, make: Callable[[Path], None], flag: str, env_id: str | None, tmp_path: Path
) -> None:
    """It counted as set, and cut an episode in two."""
    make(tmp_path / name)
    with pytest.raises(
        InputError, match=rf"{name}.*{flag} hold NaN or infinity, wanted 0 or 1 for each step"
    ):
        convert(tmp_path / name, tmp_path / "b.h5", env_id=env_id)
    assert not (tmp_path / "b.h5").exists()


def robomimic(path: Path, **changes: Any) -> Path:
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps(
            {"env_name": "Lift", "type": 1, "env_kwargs": {"robots": ["Panda"]}}
        )
        for number in (0, 10, 2):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = 3
            arrays = {
                "actions": np.full((3, 2), number / 10),
                "rewards": np.array([0.0, 0.0, 1.0]),
                "dones": np.array([0, 0, 1]),
                "obs/b": np.arange(3.0)[:, None],
                "obs/a": np.arange(6.0).reshape(3, 2),
                "obs/camera": np.zeros((3, 8, 8, 3), np.uint8),
                "next_obs/b": np.arange(1.0, 4.0)[:, None],
                "next_obs/a": np.arange(2.0, 8.0).reshape(3, 2),
                "next_obs/camera": np.ones((3, 8, 8, 3), np.uint8),
            } | changes
            for name, rows in arrays.items():
                if rows is not None:
                    demo[name] = rows
    return path


VECTORS: dict[str, Any] = {"obs/camera": None, "next_obs/camera": None}
"""Changes that leave robomimic's files without pictures."""


def test_robomimics_demonstrations_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    convert(robomimic(tmp_path / "a.hdf5", **VECTORS), tmp_path / "b.h5")
    with DemoReader(tmp_path / "b.h5") as reader:
        assert [episode.actions[0, 0] for episode in reader] == [0.0, 0.2, 1.0]
        assert reader.info.env_id == "Lift"
        assert reader[0].obs.tolist() == [[0, 1, 0], [2, 3, 1], [4, 5, 2], [6, 7, 3]]  # a, then b
    convert(robomimic(tmp_path / "c.hdf5"), tmp_path / "c.h5", obs_keys=["camera"])
    with DemoReader(tmp_path / "c.h5") as reader:
        assert reader[0].obs.shape == (4, 8, 8, 3)
        assert reader[0].obs[-1].min() == 1


@pytest.mark.parametrize("labelled", [False, True])
def test_each_array_of_our_d4rl_file_has_a_row_for_each_step(labelled: bool, tmp_path: Path) -> None:
    """D4RL's `sequence_dataset` takes a row of every array at every step."""
    source = write(tmp_path / "a.h5", UNIT, recording(UNIT, labelled=labelled))
    convert(source, tmp_path / "b.hdf5", format="d4rl")
    rows: dict[str, tuple[int, ...]] = {}
    with h5py.File(tmp_path / "b.hdf5") as file:
        file.visititems(
            lambda name, found: rows.update({name: found.shape}) if isinstance(found, h5py.Dataset) else None
        )
    assert {"observations", "actions", "rewards", "terminals", "timeouts"} <= rows.keys()
    assert {shape[0] for shape in rows.values()} == {12}


def test_a_mask_of_robomimic_chooses_demonstrations(tmp_path: Path) -> None:
    with h5py.File(robomimic(tmp_path / "a.hdf5", **VECTORS), "a") as file:
        file["mask/train"] = np.array([b"demo_10", b"demo_2"])
        file["mask/named"] = np.array([b"demo_0"])
        file["mask/gone"] = np.array([b"demo_7"])
    notes = convert(tmp_path / "a.hdf5", tmp_path / "all.npz").notes
    assert "parts are not kept apart: gone, named, train (`data convert --mask` takes one)" in notes
    for mask, actions in (("train", [0.2, 1.0]), ("named", [0.0])):
        convert(tmp_path / "a.hdf5", tmp_path / f"{mask}.h5", mask=mask)
        with DemoReader(tmp_path / f"{mask}.h5") as reader:
            assert [episode.actions[0, 0] for episode in reader] == actions
    for mask, said in (("gone", "no group /data/demo_7"), ("trian", "did you mean 'train'")):
        with pytest.raises(InputError, match=said):
            convert(tmp_path / "a.hdf5", tmp_path / "no.h5", mask=mask)
    with h5py.File(tmp_path / "a.hdf5", "a") as file:
        file["mask/numbers"] = ["demo_0"]  # each of a size of its own, which nothing bounds
    with pytest.raises(InputError, match="wanted names"):
        convert(tmp_path / "a.hdf5", tmp_path / "no.h5")


def test_robomimic_actions_outside_of_its_range_are_refused_by_name(tmp_path: Path) -> None:
    robomimic(tmp_path / "a.hdf5", actions=np.full((3, 2), 1.5))
    with pytest.raises(InputError, match=r"demo_0: its actions leave \[-1, 1\]: .*--clip"):
        convert(tmp_path / "a.hdf5", tmp_path / "b.h5")
    assert not (tmp_path / "b.h5").exists()
    assert "actions are clipped to the action space" in str(
        convert(tmp_path / "a.hdf5", tmp_path / "b.h5", clip=True).notes
    )
    with DemoReader(tmp_path / "b.h5") as reader:
        assert (reader[0].actions == 1).all()


class Planted:
    """Runs when it is unpickled."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("planted"),))


def test_old_files_of_imitation_are_read_without_the_pickles_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    infos = np.array([Planted()] * 5, object)
    with zipfile.ZipFile("a.npz", "w") as archive:
        arrays = {"obs": np.arange(7.0)[:, None], "acts": np.arange(5) % 2, "indices": np.array([2])}
        for name, array in (
            arrays | {"terminal": np.array([True, False]), "rews": np.ones(5), "infos": infos}
        ).items():
            data = io.BytesIO()
            np.lib.format.write_array(data, array, allow_pickle=True)
            archive.writestr(f"{name}.npy", data.getvalue())
    convert("a.npz", "b.h5", env_id="Nowhere-v0")
    assert not Path("planted").exists()
    with DemoReader("b.h5") as reader:
        assert [episode.obs[:, 0].tolist() for episode in reader] == [[0, 1, 2], [3, 4, 5, 6]]
        assert [episode.actions.tolist() for episode in reader] == [[0, 1], [0, 1, 0]]
        assert reader.table["terminated"].tolist() == [True, False]


@pytest.mark.parametrize("layout", ["arrow", "parquet"])
def test_trajectories_of_imitation_may_be_in_one_batch_or_in_several_files(
    layout: str, tmp_path: Path
) -> None:
    """`datasets` saves many in a batch, and the hub has several files; ours has a batch for each."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    source, folder = write(tmp_path / "a.h5", UNIT, recording(UNIT)), tmp_path / "b"
    convert(source, folder, format="imitation")
    (file,) = folder.glob("*.arrow")
    table = pa.ipc.open_stream(file.read_bytes()).read_all().combine_chunks()
    if layout == "arrow":
        with pa.OSFile(str(file), "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
    else:
        (folder / "data").mkdir()
        parquet.write_table(table[:2], folder / "data" / "train-00000-of-00002.parquet")
        parquet.write_table(table[2:], folder / "data" / "train-00001-of-00002.parquet")
    convert(folder, tmp_path / "c.h5")
    same(source, tmp_path / "c.h5")


def test_columns_of_one_and_actions_that_are_true_or_false(tmp_path: Path) -> None:
    numbers, actions = {"lengths": np.array([[2]]), "seeds": np.array([[7]])}, np.array([True, False])
    np.savez(tmp_path / "a.npz", obs=np.zeros((3, 1)), actions=actions, **numbers)
    convert(tmp_path / "a.npz", tmp_path / "b.h5", env_id="Nowhere-v0")
    with DemoReader(tmp_path / "b.h5") as reader:
        assert reader.info.action_space == gym.spaces.Discrete(2)
        assert (reader[0].actions.tolist(), reader[0].info["seed"]) == ([1, 0], 7)


def test_old_observations_of_imitation_alone(tmp_path: Path) -> None:
    """Episodes of two and of three steps: `indices` has the second one's first, `terminal` a flag for each."""
    obs, indices, terminal = np.arange(7.0).repeat(4).reshape(7, 4), np.array([2]), np.array([True, False])
    np.savez(tmp_path / "a.npz", obs=obs, indices=indices, terminal=terminal)
    convert(tmp_path / "a.npz", tmp_path / "b.h5", env_id="CartPole-v1", actions=False)
    with DemoReader(tmp_path / "b.h5") as reader:
        assert [episode.obs[:, 0].tolist() for episode in reader] == [[0, 1, 2], [3, 4, 5, 6]]


@pytest.mark.parametrize("name", ["lerobot", "minari", "minari-arrow"])
def test_labels_of_another_writer_are_left_out(name: str, tmp_path: Path) -> None:
    """Ours has such a name for its own labels; what others mean by it is not known."""
    write(tmp_path / "a.h5", UNIT, recording(UNIT, labelled=True))
    convert(tmp_path / "a.h5", tmp_path / "b", format=name)
    if name == "lerobot":
        (tmp_path / "b" / "meta" / "imitate.json").unlink()
    else:
        metadata = tmp_path / "b" / "data" / "metadata.json"
        metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"imitate": None}))
    notes = convert(tmp_path / "b", tmp_path / "c.h5", env_id="Unit-v0").notes
    assert any("'expert_action" in note and "left out" in note for note in notes)
    with DemoReader(tmp_path / "c.h5") as reader:
        assert not reader.has_expert_actions


def test_plain_arrays_with_a_flag_a_step(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz",
        observations=np.arange(5.0)[:, None],
        actions=np.arange(5) % 2,
        terminals=np.array([0, 1, 0, 0, 0]),
        episode_starts=np.array([1, 0, 1, 0, 0]),
    )
    notes = convert(tmp_path / "a.npz", tmp_path / "b.h5", env_id="Nowhere-v0").notes
    assert notes[0] == "rewards are absent and become 0 (2)"
    with DemoReader(tmp_path / "b.h5") as reader:
        assert [episode.obs[:, 0].tolist() for episode in reader] == [[0, 1, 1], [2, 3, 4]]


def test_lerobots_statistics_are_those_of_the_steps(tmp_path: Path) -> None:
    """Over 12 steps of three episodes; pictures are in [0, 1], a figure a channel."""
    played = recording(UNIT)
    convert(write(tmp_path / "a.h5", UNIT, played), tmp_path / "b", format="lerobot")
    stats = json.loads((tmp_path / "b" / "meta" / "stats.json").read_text("utf-8"))
    state = np.concatenate([episode.obs[:-1] for episode in played])
    wanted = {"min": state.min(0), "max": state.max(0), "mean": state.mean(0), "std": state.std(0)}
    wanted |= {"q50": np.quantile(state, 0.5, axis=0), "q99": np.quantile(state, 0.99, axis=0), "count": [12]}
    for name, values in wanted.items():
        np.testing.assert_allclose(stats["observation.state"][name], values, err_msg=name)
    pictures = recording(PICTURES)
    convert(write(tmp_path / "c.h5", PICTURES, pictures), tmp_path / "d", format="lerobot")
    stats = json.loads((tmp_path / "d" / "meta" / "stats.json").read_text("utf-8"))["observation.image"]
    pixels = np.concatenate([episode.obs[:-1] for episode in pictures]) / 255
    np.testing.assert_allclose(stats["mean"], pixels.mean((0, 1, 2)).reshape(3, 1, 1))
    assert np.shape(stats["q01"]) == (3, 1, 1)


@pytest.mark.parametrize("length", [1, 20, 1_000])
def test_quantiles_are_of_all_episodes_alike(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However short the blocks are, and however often the sample is halved."""
    monkeypatch.setattr("imitate.datasets.convert.lerobot_stats._LARGEST_SAMPLE", 300)
    stats, count = Stats(), 5_000
    for start in range(0, count, length):
        stats.add(np.arange(start, start + length, dtype=np.float64)[:, None])
    assert stats.plain()["q50"] == pytest.approx([count / 2], rel=0.02)
    assert stats.plain()["q01"] == pytest.approx([count / 100], rel=0.5)


def test_parts_that_would_have_one_name_are_refused() -> None:
    box = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    nested = gym.spaces.Dict({"a": gym.spaces.Dict({"b": box}), "a.b": box})
    with pytest.raises(InputError, match="two observations have one name"):
        features_of_space(as_fields(nested))


def test_lerobots_episodes_are_matched_by_their_index(tmp_path: Path) -> None:
    """All are equally long, and meta/episodes lacks those of index 1 and 3."""
    from pyarrow import parquet

    played = recording(UNIT, lengths=(3, 3, 3, 3))
    folder = tmp_path / "b"
    convert(write(tmp_path / "a.h5", UNIT, played), folder, format="lerobot")
    for extra in ("imitate.json", "imitate_final.parquet"):
        (folder / "meta" / extra).unlink()
    (file,) = (folder / "meta" / "episodes").rglob("*.parquet")
    table = parquet.read_table(file)
    parquet.write_table(table.filter(table["episode_index"].to_numpy() % 2 == 0), file)
    converted = convert(folder, tmp_path / "c.h5", env_id="Nowhere-v0")
    assert "data of episodes that meta/episodes lacks are left out (2)" in converted.notes
    with DemoReader(tmp_path / "c.h5") as demos:
        assert [each.actions[:2].tolist() for each in demos] == [
            played[index].actions[:2].tolist() for index in (0, 2)
        ]


def test_single_numbers_are_actions_of_shape_1(tmp_path: Path) -> None:
    actions = np.linspace(-1, 1, 10)
    np.savez(tmp_path / "a.npz", obs=np.ones((12, 3)), actions=actions, lengths=[5, 5])
    for env_id in ("Nowhere-v0", "Pendulum-v1"):
        convert(tmp_path / "a.npz", tmp_path / f"{env_id}.h5", env_id=env_id)
        with DemoReader(tmp_path / f"{env_id}.h5") as demos:
            assert demos[1].actions.ravel().tolist() == pytest.approx(actions[5:].tolist())
