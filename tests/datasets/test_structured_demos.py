"""Recordings of Dict observations and of actions of several parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from gymnasium import spaces
from structured import Knower

from imitate.datasets import DemoInfo, DemoReader, DemoWriter, InputError, Trajectory, edit, validate
from imitate.datasets.collect import collect
from imitate.datasets.convert import FORMATS, convert
from imitate.datasets.noise import ActionNoise, dart
from imitate.datasets.play import RandomPolicy
from imitate.datasets.replay import replay
from imitate.datasets.trajectory import parts_of, tensor_of, tensors_of
from imitate.envs import make_vec
from imitate.envs.fields import as_fields
from imitate.nn.fields import fields_of


def record(path: Path, env_id: str, expert: Any, episodes: int = 6, **options: Any) -> DemoReader:
    envs = make_vec(env_id, 4)
    info = DemoInfo(env_id, envs.single_observation_space, envs.single_action_space, seed=0, **options)
    return collect(expert, envs, path, info, episodes=episodes)


@pytest.mark.parametrize("env_id", ["Told-multi-v0", "Told-tuple-v0", "Told-binary-v0", "ToldByPicture-v0"])
def test_what_is_recorded_is_valid_and_replays(tmp_path: Path, env_id: str) -> None:
    kind = env_id.split("-")[1]
    with record(tmp_path / "a.h5", env_id, Knower("binary" if kind == "binary" else "multi")) as demos:
        assert demos.returns.tolist() == [10.0 if kind == "binary" else 20.0] * 6
        assert all(difference is None for difference in replay(demos))
    assert validate(tmp_path / "a.h5") == []


def test_the_file_has_a_field_for_each_part_and_compresses_pictures(tmp_path: Path) -> None:
    record(tmp_path / "a.h5", "ToldByPicture-v0", Knower()).close()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["obs"]["camera"].shape == (66, 36, 36, 1)
        assert file["obs"]["goal"].dtype == np.float64
        assert file["obs"].compression == "gzip"
        assert "each part" in file["obs"].attrs["description"]


def test_the_first_difference_of_a_replay_is_in_a_field(tmp_path: Path) -> None:
    record(tmp_path / "a.h5", "Told-multi-v0", Knower(), 1).close()
    with h5py.File(tmp_path / "a.h5", "a") as file:
        rows = file["obs"][:]
        rows["goal"][4] += 0.5
        file["obs"][:] = rows
    with DemoReader(tmp_path / "a.h5") as demos:
        (found,) = replay(demos)
    assert str(found) == "episode 0: obs differs after the action of step 3, by 0.5"


@pytest.mark.parametrize(("field", "value"), [("goal", np.nan), ("hand", 9)])
def test_bad_values_in_a_field_are_found(tmp_path: Path, field: str, value: float) -> None:
    record(tmp_path / "a.h5", "Told-multi-v0", Knower(), 1).close()
    with h5py.File(tmp_path / "a.h5", "a") as file:
        rows = file["obs"][:]
        (rows[field]["digit"] if field == "hand" else rows[field])[4] = value
        file["obs"][:] = rows
    (problem,) = validate(tmp_path / "a.h5")
    assert ("NaN" if field == "goal" else "1 obs are outside") in problem


def test_actions_outside_of_their_space_are_refused(tmp_path: Path) -> None:
    with record(tmp_path / "a.h5", "Told-multi-v0", Knower(), 1) as demos:
        episode, info = demos[0], demos.info
    wrong = replace(episode, actions=episode.actions + np.array([3, 0]))
    with DemoWriter(tmp_path / "b.h5", info) as writer, pytest.raises(InputError, match="leave the space"):
        writer.append(wrong)


def test_the_part_of_another_type_is_named(tmp_path: Path) -> None:
    space = as_fields(spaces.Dict(far=spaces.Box(-1, 1, (2,)), near=spaces.Dict(x=spaces.Box(-1, 1, (1,)))))
    info = DemoInfo("Nowhere-v0", space, spaces.Discrete(2))
    obs: dict[str, Any] = {"far": np.zeros((3, 2), np.float32), "near": {"x": np.zeros((3, 1))}}
    rest: Any = np.zeros(2, np.int64), np.zeros(2), True, False
    with DemoWriter(tmp_path / "a.h5", info) as writer:
        with pytest.raises(
            InputError, match=r"^'x' of 'near' of obs are float64 \(1,\), the space is Box.*convert"
        ):
            writer.append(Trajectory(obs, *rest))
        with pytest.raises(InputError, match=r"^obs have the parts far, the space has far, near"):
            writer.append(Trajectory({"far": obs["far"]}, *rest))


def test_batches_are_bytes_of_rows_that_come_apart_again(tmp_path: Path) -> None:
    with record(tmp_path / "a.h5", "Told-multi-v0", Knower()) as demos:
        space = demos.info.observation_space
        rng = np.random.default_rng(0)
        for limit in (1 << 30, 20_000):  # kept, and streamed
            (batch,) = demos.minibatches(60, rng, memory_limit=limit)
            obs, labels = batch
            assert obs.shape == (60, space.dtype.itemsize)  # type: ignore[union-attr]
            parts = fields_of(space, obs)
            assert set(parts) == {"goal", "hand/bits", "hand/digit", "noise"}
            assert (parts["goal"][:, 0] == labels[:, 0] - 5).all()
            assert (parts["hand/digit"] == labels[:, 1] + 1).all()
        flat = demos.transitions()
        np.testing.assert_array_equal(
            fields_of(space, flat.next_obs)["noise"].numpy(),
            np.concatenate([episode.obs["noise"][1:] for episode in demos]),
        )


def test_batches_give_dicts_of_tensors(tmp_path: Path) -> None:
    with record(tmp_path / "a.h5", "Told-multi-v0", Knower()) as demos:
        whole = np.concatenate([episode.obs[:-1] for episode in demos])
        fields = ("obs", "labels", "next_obs", "terminated")
        for limit in (1 << 30, 20_000):  # kept, and streamed
            rng = np.random.default_rng(0)
            batches = list(demos.batches(7, rng, fields=fields, memory_limit=limit))
            assert [len(labels) for _, labels, *_ in batches] == [7] * 8 + [4]
            assert {
                name: (value.shape, value.dtype) for name, value in batches[0][0].items() if name != "hand"
            } == {
                "goal": ((7, 1), torch.float64),
                "noise": ((7, 2, 3), torch.float32),
            }
            for obs, labels, next_obs, _ in batches:
                assert obs.keys() == next_obs.keys() == {"goal", "hand", "noise"}
                assert (obs["goal"][:, 0] == labels[:, 0] - 5).all()
                assert (obs["hand"]["digit"] == labels[:, 1] + 1).all()
                assert obs["hand"]["bits"].shape == (len(labels), *whole["hand"]["bits"].shape[1:])
            noise = torch.cat([obs["noise"] for obs, *_ in batches]).numpy()
            assert sorted(map(np.ndarray.tobytes, noise)) == sorted(map(np.ndarray.tobytes, whole["noise"]))


def test_a_dict_of_one_part_is_a_dict_too() -> None:
    rows = np.zeros(3, [("a", np.float32, (2,))])
    rows["a"] = np.arange(6).reshape(3, 2)
    assert {name: part.tolist() for name, part in parts_of(tensor_of(rows), rows.dtype).items()} == {
        "a": [[0, 1], [2, 3], [4, 5]]
    }


def test_tensors_of_rows_that_are_not_side_by_side() -> None:
    rows = np.zeros((4, 3), [("a", np.float64), ("b", np.uint8, (2,))])
    rows["b"] = np.arange(24).reshape(4, 3, 2)
    assert tensor_of(rows[:, 1]).shape == (4, 10)
    assert tensor_of(rows[:, 1])[:, 8:].tolist() == rows["b"][:, 1].tolist()


def test_tensors_of_a_single_row_whose_size_is_no_multiple_of_a_parts() -> None:
    """A row has 9 bytes, which torch takes for no stride of 4-byte numbers."""
    rows = np.zeros(1, [("pos", np.float32, (2,)), ("touch", np.int8, (1,))])
    rows["pos"], rows["touch"] = [0.5, 1.5], 1
    assert {name: part.tolist() for name, part in tensors_of(rows).items()} == {
        "pos": [[0.5, 1.5]],
        "touch": [[1]],
    }


@pytest.mark.parametrize("names", [("/cam/pos", "x"), ("a/", "x"), (".", "x"), ("a", "a/b"), ("a//b", "x")])
def test_names_that_hdf5_takes_for_other_places_are_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    """LeRobot's and Arrow's columns may have them."""
    space = spaces.Dict({name: spaces.Box(-1, 1, (2,)) for name in names})
    with DemoWriter(tmp_path / "a.h5", DemoInfo("Own-v0", space, spaces.Box(-1, 1, (1,)))) as writer:
        obs = {name: np.full((3, 2), place, np.float32) for place, name in enumerate(names)}
        writer.append(Trajectory(obs, np.zeros((2, 1), np.float32), np.ones(2, np.float32), True, False))
    for format in ("minari", "robomimic"):
        with pytest.raises(InputError, match=f"the part '{names[0]}' of the observations has a name"):
            convert(tmp_path / "a.h5", tmp_path / "out", format=format)
        assert not (tmp_path / "out").exists()
    for format in ("minari-arrow", "lerobot"):
        convert(tmp_path / "a.h5", tmp_path / format, format=format)
        convert(tmp_path / format, tmp_path / f"{format}.h5")
        with DemoReader(tmp_path / f"{format}.h5") as reader:
            assert len(reader[0]) == 2


def test_files_are_merged_and_split_by_episode(tmp_path: Path) -> None:
    with record(tmp_path / "a.h5", "Told-tuple-v0", Knower()) as demos:
        wanted = sorted(episode.obs.tobytes() for episode in demos)
    edit.split(tmp_path / "a.h5", tmp_path / "b.h5", tmp_path / "c.h5", holdout=0.3)
    edit.merge([tmp_path / "b.h5", tmp_path / "c.h5", tmp_path / "b.h5"], tmp_path / "d.h5")
    edit.subsample(tmp_path / "d.h5", tmp_path / "e.h5", pairs=7)
    with DemoReader(tmp_path / "d.h5") as demos:
        assert sorted(episode.obs.tobytes() for episode in demos) == wanted
    with DemoReader(tmp_path / "e.h5") as demos:
        assert (len(demos), demos.num_steps) == (7, 7)


def same(ours: list[Trajectory], theirs: list[Trajectory]) -> bool:
    return [(t.obs.tobytes(), t.actions.tobytes(), t.rewards.tobytes()) for t in ours] == [
        (t.obs.tobytes(), t.actions.tobytes(), t.rewards.tobytes()) for t in theirs
    ]


@pytest.mark.parametrize("format", ["minari", "minari-arrow"])
@pytest.mark.parametrize("env_id", ["Told-multi-v0", "Told-binary-v0", "ToldByPicture-v0"])
def test_minari_and_back_loses_nothing(tmp_path: Path, format: str, env_id: str) -> None:
    record(tmp_path / "a.h5", env_id, Knower("binary" if "binary" in env_id else "multi")).close()
    assert convert(tmp_path / "a.h5", tmp_path / "b", format=format).notes == []
    assert convert(tmp_path / "b", tmp_path / "c.h5").notes == []
    with DemoReader(tmp_path / "a.h5") as before, DemoReader(tmp_path / "c.h5") as after:
        assert same(list(before), list(after))
        assert after.info == before.info


def test_formats_of_one_array_refuse_dicts_by_name(tmp_path: Path) -> None:
    record(tmp_path / "a.h5", "Told-multi-v0", Knower(), 1).close()
    for format in set(FORMATS) - {"minari", "minari-arrow", "lerobot", "robomimic", "imitate"}:
        with pytest.raises(InputError, match=f"^{format} holds no Dict observations: use --format minari"):
            convert(tmp_path / "a.h5", tmp_path / "b", format=format)
        assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("source", ["a.h5", "minari"])
def test_parts_of_a_dict_go_where_one_array_is_held(tmp_path: Path, source: str) -> None:
    record(tmp_path / "a.h5", "Told-multi-v0", Knower(), 1).close()
    convert(tmp_path / "a.h5", tmp_path / "minari", format="minari")
    done = convert(tmp_path / source, tmp_path / "b.npz", obs_keys=["noise", "goal"])
    assert done.notes == ["observations 'hand' are left out"]
    convert(tmp_path / "b.npz", tmp_path / "b.h5")
    with DemoReader(tmp_path / "a.h5") as before, DemoReader(tmp_path / "b.h5") as after:
        whole, flat = before[0].obs, after[0].obs
    assert flat.tolist() == np.concatenate([whole["noise"].reshape(11, 6), whole["goal"]], axis=1).tolist()
    with pytest.raises(InputError, match="no observation 'wrong'; there are goal, hand, noise"):
        convert(tmp_path / source, tmp_path / "c.h5", obs_keys=["wrong"])
    with pytest.raises(InputError, match="the observations of npz have no keys: leave --obs-keys out"):
        convert(tmp_path / "b.npz", tmp_path / "c.h5", obs_keys=["goal"])


def test_noise_and_random_actions_have_all_parts() -> None:
    for space in (spaces.MultiDiscrete([3, 4], start=[5, 0]), spaces.MultiBinary(3)):
        drawn = RandomPolicy(space).act(np.zeros(1000))
        assert all(space.contains(action.astype(space.dtype)) for action in drawn)
        noise = ActionNoise("random:0.5", space, 2)
        noise.begin(0, 1), noise.begin(1, 2)
        disturbed = [noise(drawn[:2].astype(space.dtype)) for _ in range(100)]
        assert all(space.contains(action) for pair in disturbed for action in pair)
        assert 0.2 < np.mean([(pair == drawn[:2]).all(1) for pair in disturbed]) < 0.8


def test_dart_counts_an_action_as_wrong_if_any_part_is() -> None:
    """Half are wrong. A uniform one of 12 is right by chance once in 12 times."""
    space = spaces.MultiDiscrete([3, 4])
    labels = np.zeros((8, 2), np.int64)
    acted = labels.copy()
    acted[:4, 1] = 1

    class Acting:
        def act(self, obs: Any, *, deterministic: bool = True) -> Any:  # noqa: ARG002
            return acted

    assert dart(Acting(), np.zeros((8, 1)), labels, space) == f"random:{0.5 * 12 / 11:.6g}"
