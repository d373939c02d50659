"""Data sets as Minari writes them: Dict and Tuple spaces, flat parts, images in JPEG."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest
import structured  # noqa: F401 registers environments with Dict observations
from converting import UNIT, minari, recording, same, write
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from PIL import Image

from imitate.datasets import DemoInfo, DemoReader, DemoWriter, InputError, Trajectory
from imitate.datasets.convert import arrow, convert
from imitate.datasets.convert.minari_spaces import is_image, space_of
from imitate.envs.fields import as_fields, in_rows
from imitate.envs.make import make_env


def test_minaris_dict_stays_one(tmp_path: Path) -> None:
    convert(minari(tmp_path / "a"), tmp_path / "b.h5")
    with DemoReader(tmp_path / "b.h5") as reader:
        assert reader.info.observation_space == spaces.Dict(
            a=spaces.Discrete(3), b=spaces.Box(-1, 1, (2,), np.float32)
        )
        assert reader[1].obs["a"].tolist() == [0, 1, 2]
        assert reader[1].obs["b"].tolist() == [[0.5, 0.5]] * 3


def test_settings_of_the_environment_that_the_data_state_count(tmp_path: Path) -> None:
    """The caller's are added to them."""
    convert(
        minari(tmp_path / "a", algorithm_name="an expert"),
        tmp_path / "b.h5",
        env_kwargs={"size": 4, "more": 1},
    )
    with DemoReader(tmp_path / "b.h5") as reader:
        assert reader.info.env_kwargs == {"size": 3, "more": 1}
        assert reader.info.expert == "an expert"


@pytest.mark.parametrize(
    "change", [{"b": np.zeros((2, 2))}, {"b": np.zeros((3, 1))}, {"a": np.zeros((1, 3))}]
)
def test_parts_of_minaris_dict_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    source = minari(tmp_path / "a")
    with h5py.File(source / "data" / "main_data.hdf5", "a") as file:
        for name, rows in change.items():
            del file[f"episode_1/observations/{name}"]
            file[f"episode_1/observations/{name}"] = rows
    with pytest.raises(InputError, match="observations"):
        convert(source, tmp_path / "b.h5")
    assert not (tmp_path / "b.h5").exists()


@pytest.mark.parametrize("kind", ["hdf5", "arrow"])
def test_tuples_of_minari_are_places_and_their_actions_one_array(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("pyarrow")
    digit, box = {"type": "Discrete", "start": 2, "n": 3}, {"type": "Box", "low": 0.0, "high": 1.0}
    parts = [digit, {"type": "MultiBinary", "n": 2}]
    shown = [box | {"shape": [1], "dtype": "float32"}, digit]
    source = minari(
        tmp_path / "a",
        data_format=kind,
        action_space=json.dumps({"type": "Tuple", "subspaces": parts}),
        observation_space=json.dumps({"type": "Tuple", "subspaces": shown}),
        total_episodes=1,
    )
    acted = np.array([2, 4]), np.array([[0, 1], [1, 0]], np.int8)
    seen = np.array([[0.0], [0.5], [1.0]], np.float32), np.array([2, 3, 4])
    if kind == "hdf5":
        with h5py.File(source / "data" / "main_data.hdf5", "a") as file:
            group = file["episode_0"]
            del group["actions"], group["observations"]
            for name, rows in (("actions", acted), ("observations", seen)):
                for place, part in enumerate(rows):
                    group[f"{name}/_index_{place}"] = part
    else:
        (source / "data" / "main_data.hdf5").unlink()
        (source / "data" / "0").mkdir()
        (source / "data" / "0" / "metadata.json").write_text("{}")
        padded = [np.concatenate([part, part[:1]]) for part in acted]
        columns: dict[str, Any] = {
            "observations": dict(zip("01", seen, strict=True)),
            "actions": dict(zip("01", padded, strict=True)),
            "rewards": np.array([0.5, 1.0, 0.0]),
            "terminations": np.array([False, True, False]),
            "truncations": np.array([False, False, False]),
        }
        arrow.write(source / "data" / "0" / "part-0.arrow", columns)
    convert(source, tmp_path / "b.h5")
    with DemoReader(tmp_path / "b.h5") as reader:
        assert reader.info.action_space == spaces.MultiDiscrete([3, 2, 2], start=[2, 0, 0])
        assert reader[0].actions.tolist() == [[2, 0, 1], [4, 1, 0]]
        assert reader[0].obs["0"].tolist() == [[0.0], [0.5], [1.0]]
        assert reader[0].obs["1"].tolist() == [2, 3, 4]


def test_the_parts_of_an_action_are_in_the_order_of_their_places(tmp_path: Path) -> None:
    """As names, `_index_10` would come before `_index_2`."""
    digit = {"type": "Discrete", "dtype": "int64", "start": 0, "n": 12}
    space = json.dumps({"type": "Tuple", "subspaces": [digit] * 12})
    source = minari(tmp_path / "a", action_space=space, total_episodes=1)
    with h5py.File(source / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0/actions"]
        for place in range(12):
            file[f"episode_0/actions/_index_{place}"] = np.full(2, place)
    convert(source, tmp_path / "b.h5")
    with DemoReader(tmp_path / "b.h5") as reader:
        assert reader[0].actions.tolist() == [list(range(12))] * 2


def test_flat_parts_of_minaris_dict_are_joined_as_gymnasium_flattens_them(tmp_path: Path) -> None:
    converted = convert(minari(tmp_path / "a"), tmp_path / "b.h5", obs_keys=["b", "a"])
    assert converted.notes == ["infos 'success' are left out (2)"]
    with DemoReader(tmp_path / "b.h5") as reader:
        assert (reader.info.env_id, dict(reader.info.env_kwargs)) == (
            "Goal-v3",
            {"size": 3, "obs_keys": ["b", "a"]},
        )
        space = spaces.Dict([("b", spaces.Box(-1, 1, (2,), np.float32)), ("a", spaces.Discrete(3))])
        wanted = [gym.spaces.flatten(space, {"b": np.full(2, 0.5, np.float32), "a": a}) for a in range(3)]
        assert reader[1].obs.tolist() == np.array(wanted).tolist()
        assert reader[0].terminated
        assert not reader[0].truncated
    assert (
        convert(tmp_path / "a", tmp_path / "c.h5", obs_keys=["b"]).notes[0] == "observations 'a' are left out"
    )
    with DemoReader(tmp_path / "c.h5") as reader:
        assert reader[1].obs.tolist() == [[0.5, 0.5]] * 3


def test_minaris_jpeg_images_are_decoded(tmp_path: Path) -> None:
    """Their files differ in length, so that Minari stores them as lists of bytes."""
    images = np.stack([np.full((32, 32, 3), shade, np.uint8) for shade in (0, 100, 200)])
    images[1, :16] = 50
    files = []
    for image in images:
        data = io.BytesIO()
        Image.fromarray(image).save(data, format="JPEG")
        files.append(np.frombuffer(data.getvalue(), np.uint8))
    assert len({len(file) for file in files}) > 1
    bounds = {"low": np.zeros((32, 32, 3)).tolist(), "high": np.full((32, 32, 3), 255.0).tolist()}
    box = {"type": "Box", "dtype": "uint8", "shape": [32, 32, 3]} | bounds
    source = minari(tmp_path / "a", observation_space=json.dumps(box))
    with h5py.File(source / "data" / "main_data.hdf5", "a") as file:
        for episode in file.values():
            del episode["observations"]
            rows = episode.create_dataset("observations", (3,), h5py.vlen_dtype(np.uint8))
            for number, data in enumerate(files):
                rows[number] = data
    convert(source, tmp_path / "b.h5")
    with DemoReader(tmp_path / "b.h5") as reader:
        assert np.abs(reader[0].obs.astype(int) - images).max() <= 8  # JPEG is lossy at the edge
        assert (reader[0].obs[2] == 200).all()


@pytest.mark.forks
def test_many_small_arrow_files_are_tried_in_one_child_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each took one of its own, and 5,000 episodes over ten minutes. A damaged file is named as before."""
    pytest.importorskip("pyarrow")
    fork, forks = os.fork, []
    monkeypatch.setattr(os, "fork", lambda: forks.append(1) or fork())
    write(tmp_path / "a.h5", UNIT, recording(UNIT, lengths=(1,) * 30))
    convert(tmp_path / "a.h5", tmp_path / "b", format="minari-arrow")
    forks.clear()
    convert(tmp_path / "b", tmp_path / "c.h5")
    assert len(forks) == 1
    same(tmp_path / "a.h5", tmp_path / "c.h5")
    (damaged,) = (tmp_path / "b" / "data" / "20").glob("*.arrow")
    damaged.write_bytes(damaged.read_bytes()[:100])
    with pytest.raises(InputError, match=r"data/20/part-0\.arrow: ") as error:
        convert(tmp_path / "b", tmp_path / "d.h5")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "d.h5").exists()


@pytest.mark.parametrize(
    ("env_id", "env_kwargs"),
    [
        ("ALE/Pong-v5", {"repeat_action_probability": 0.0}),
        pytest.param(
            *("ALE/Pong-v5", {"repeat_action_probability": 0.0, "max_episode_steps": 7}),
            marks=pytest.mark.slow,
        ),
        ("imitate/BalancingPlate-v0", {"plate": "notebook"}),
        ("CartPole-v1", {"max_episode_steps": 7}),
        ("CartPole-v1", {"time_feature": True}),
        ("Told-tuple-v0", {}),
    ],
)
def test_gymnasium_makes_the_environment_from_its_description(
    tmp_path: Path, env_id: str, env_kwargs: dict[str, Any]
) -> None:
    """As Minari's recover_environment does."""
    env = make_env(env_id, env_kwargs)
    first, action = env.reset(seed=3)[0], env.action_space.sample()
    second, reward = env.step(action)[:2]
    rewards = np.array([reward], np.float32)
    step = Trajectory(
        np.stack([first, second]), np.array([action]), rewards, terminated=False, truncated=True
    )
    info = DemoInfo(env_id, env.observation_space, env.action_space, env_kwargs=env_kwargs)
    with DemoWriter(tmp_path / "a.h5", info) as writer:
        writer.append(step)
    notes = convert(tmp_path / "a.h5", tmp_path / "b-v0", format="minari").notes
    metadata = json.loads((tmp_path / "b-v0" / "data" / "metadata.json").read_text("utf-8"))
    needed = "recover_environment needs this package beside Minari" in notes
    assert needed == (env_id in ("ALE/Pong-v5", "imitate/BalancingPlate-v0") or "time_feature" in env_kwargs)
    recovered = gym.make(EnvSpec.from_json(metadata["env_spec"]))
    assert as_fields(recovered.observation_space) == env.observation_space
    obs, _ = recovered.reset(seed=3)
    assert np.array_equal(in_rows(env.observation_space, obs) if isinstance(obs, dict) else obs, first)
    assert env.spec is not None
    assert recovered.spec is not None
    limit = env.spec.max_episode_steps
    assert recovered.spec.max_episode_steps == limit
    if limit == 7:  # in steps of the agent, of which each takes four frames in a game
        recovered.reset(seed=3)
        assert [bool(recovered.step(action)[3]) for _ in range(limit)] == [False] * 6 + [True]


@pytest.mark.parametrize(("env_id", "named"), [("Own-v0", "MODULE:Own-v0"), ("robot:Own-v0", "robot:Own-v0")])
def test_an_environment_that_minari_cannot_recover_is_said(env_id: str, named: str, tmp_path: Path) -> None:
    write(tmp_path / "a.h5", replace(UNIT, env_id=env_id), recording(UNIT))
    (note,) = convert(tmp_path / "a.h5", tmp_path / "b-v0", format="minari").notes
    assert note.startswith("recover_environment will not work")
    assert f"(--env {named} names one of yours)" in note


@pytest.mark.parametrize(
    ("shape", "dtype", "low", "high", "is_one"),
    [
        ((32, 32), np.uint8, 0, 255, True),
        ((32, 40, 3), np.uint8, 0, 255, True),
        ((31, 32), np.uint8, 0, 255, False),
        ((32, 31, 3), np.uint8, 0, 255, False),
        ((3, 32, 32), np.uint8, 0, 255, False),  # channels first
        ((32,), np.uint8, 0, 255, False),
        ((32, 32, 3, 2), np.uint8, 0, 255, False),
        ((32, 32), np.int16, 0, 255, False),
        ((32, 32), np.uint8, 1, 255, False),
        ((32, 32), np.uint8, 0, 254, False),
    ],
)
def test_an_image_is_large_whole_and_has_its_channels_last(
    shape: tuple[int, ...], dtype: Any, low: int, high: int, is_one: bool
) -> None:
    assert is_image(spaces.Box(low, high, shape, dtype)) == is_one


def nested_space(depth: int) -> dict[str, Any]:
    """A number in this many Dicts and Tuples, in turn."""
    space: dict[str, Any] = {"type": "Discrete", "start": 0, "n": 2}
    for level in range(depth):
        space = (
            {"type": "Tuple", "subspaces": [space]}
            if level % 2
            else {"type": "Dict", "subspaces": {"a": space}}
        )
    return space


def test_spaces_of_spaces_are_read_to_a_depth() -> None:
    assert list(space_of(nested_space(2))) == ["0"]
    assert space_of(nested_space(0)) == spaces.Discrete(2)
    for damaged in (nested_space(6), {"type": "Dict"}, {"type": "Tuple", "subspaces": ["a"]}):
        with pytest.raises(InputError, match=r"not the description of a (Dict|Tuple) space"):
            space_of(damaged)
