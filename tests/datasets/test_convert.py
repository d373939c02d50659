"""Conversion between the formats of imitation learning, in both directions, and of what others wrote."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

from imitate.bc import BC, BCConfig
from imitate.cli import main
from imitate.datasets import DemoInfo, DemoReader, DemoWriter, InputError, Trajectory
from imitate.datasets.convert import FORMATS, arrow, convert, format_of

UNIT = DemoInfo(
    "Unit-v0",
    spaces.Box(-np.inf, np.inf, (3,), np.float64),
    spaces.Box(-1.0, 1.0, (2,), np.float32),
    env_kwargs={"gravity": -5},
    expert="zoo:ppo/Unit-v0",
    expert_sha256="ab" * 32,
    expert_return=12.5,
    seed=3,
)
DISCRETE = replace(UNIT, env_id="CartPole-v1", env_kwargs={}, action_space=spaces.Discrete(3, start=1))
SINGLE = replace(
    UNIT,
    observation_space=spaces.Box(-np.inf, np.inf, (1,), np.float64),
    action_space=spaces.Box(-1.0, 1.0, (1,), np.float32),
)
PICTURES = replace(UNIT, observation_space=spaces.Box(0, 255, (32, 34, 3), np.uint8))
STACKS = replace(UNIT, observation_space=spaces.Box(0, 255, (2, 36, 36), np.uint8), frame_stack=2)


def recording(
    info: DemoInfo, *, labelled: bool = False, lengths: tuple[int, ...] = (4, 1, 7)
) -> list[Trajectory]:
    """Episodes of random numbers; the first is terminated, the others truncated."""
    rng = np.random.default_rng(0)
    shape = info.observation_space.shape or ()

    def actions(steps: int) -> Any:
        if isinstance(info.action_space, spaces.Discrete):
            return rng.integers(1, 4, steps)
        return rng.uniform(-1, 1, (steps, *(info.action_space.shape or ()))).astype(np.float32)

    played = []
    for number, steps in enumerate(lengths):
        if info.observation_space.dtype == np.uint8:
            frames = rng.integers(0, 256, (steps + 2, *shape)).astype(np.uint8)
            stacked = np.stack([frames[:-1, 0], frames[1:, 0]], 1)
            obs = stacked if info.frame_stack == 2 else frames[1:]
        else:
            obs = rng.standard_normal((steps + 1, *shape))
        labels = actions(steps) if labelled else None
        rewards = rng.standard_normal(steps).astype(np.float32)
        seed = {"seed": 100 + number}
        played.append(
            Trajectory(
                obs, actions(steps), rewards, number == 0, number != 0, info=seed, expert_actions=labels
            )
        )
    return played


def write(path: Path, info: DemoInfo, episodes: list[Trajectory]) -> Path:
    with DemoWriter(path, info, expert_actions=episodes[0].expert_actions is not None) as writer:
        for episode in episodes:
            writer.append(episode)
    return path


def same(one: Path, other: Path) -> None:
    with DemoReader(one) as a, DemoReader(other) as b:
        assert a.info == b.info
        assert (a.table == b.table).all()
        for x, y in zip(a, b, strict=True):
            for name in ("obs", "actions", "rewards", "labels"):
                was, now = getattr(x, name), getattr(y, name)
                assert was.dtype == now.dtype
                assert was.tobytes() == now.tobytes(), name


KINDS = {"unit": UNIT, "single": SINGLE, "discrete": DISCRETE, "pictures": PICTURES, "stacks": STACKS}
LOSSLESS = [
    (name, kind, labelled)
    for name in FORMATS
    for kind in KINDS
    for labelled in (kind == "unit", False)
    # What these can't hold is tested one by one below.
    if name not in ("imitate", "csv")
    and (name, kind) not in (("lerobot", "stacks"), ("robomimic", "discrete"))
    and not (name == "imitation" and labelled)
]


@pytest.mark.parametrize(("name", "kind", "labelled"), sorted(set(LOSSLESS)))
def test_there_and_back_again_is_the_same(name: str, kind: str, labelled: bool, tmp_path: Path) -> None:
    info = KINDS[kind]
    source = write(tmp_path / "a.h5", info, recording(info, labelled=labelled))
    out = tmp_path / ("b" if FORMATS[name].FOLDER else "b.npz" if name == "npz" else "b.hdf5")
    there = convert(source, out, format=name)
    assert (there.episodes, there.steps) == (3, 12)
    assert format_of(out) == name.removesuffix("-arrow")
    convert(out, tmp_path / "c.h5")
    same(source, tmp_path / "c.h5")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", out.name, "c.h5"]


def test_a_csv_keeps_all_numbers_but_not_where_they_come_from(tmp_path: Path) -> None:
    played = recording(DISCRETE, labelled=True)
    source = write(tmp_path / "a.h5", DISCRETE, played)
    lost = convert(source, tmp_path / "b.csv").notes
    assert lost == ["the environment, the expert and its return are not in a CSV"]
    lines = (tmp_path / "b.csv").read_text().splitlines()
    assert lines[0] == "episode,seed,obs_0,obs_1,obs_2,action,expert_action,reward,terminated,truncated"
    assert lines[5].startswith("0,100,")  # the final observation of the first episode, of 4 steps
    assert lines[5].endswith(",,,,,")
    assert len(lines) == 1 + 12 + 3
    convert(tmp_path / "b.csv", tmp_path / "c.h5", env_id="Nowhere-v0")
    with DemoReader(tmp_path / "c.h5") as reader:
        assert reader.info.env_id == "Nowhere-v0"
        for was, now in zip(played, reader, strict=True):
            assert (was.obs == now.obs).all()
            assert (was.labels == now.labels).all()
            assert (was.terminated, was.truncated) == (now.terminated, now.truncated)


def test_conversion_goes_between_two_foreign_formats(tmp_path: Path) -> None:
    source = write(tmp_path / "a.h5", UNIT, recording(UNIT))
    for out, name in (
        ("b", "minari"),
        ("c.hdf5", "robomimic"),
        ("d", "lerobot"),
        ("e.hdf5", "d4rl"),
        ("f.h5", "imitate"),
    ):
        convert(source, tmp_path / out, format=name)
        source = tmp_path / out
    same(tmp_path / "a.h5", source)


def test_a_dry_run_says_what_would_be_lost_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "a.h5", UNIT, recording(UNIT, labelled=True))
    command = ["data", "convert", str(source), str(tmp_path / "b"), "--format", "imitation", "--dry-run"]
    assert main(command) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "would write 3 episodes, 12 steps of Unit-v0 from imitate to imitation",
        "  clean labels are lost: `acts` are the noisy actions that were executed",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


@pytest.mark.parametrize(
    ("info", "name", "said"),
    [
        (DISCRETE, "robomimic", "actions are continuous"),
        (replace(UNIT, action_space=spaces.Box(-2.0, 2.0, (2,), np.float32)), "robomimic", r"in \[-1, 1\]"),
        (STACKS, "lerobot", "single frames"),
        (PICTURES, "csv", "flat observations"),
        (UNIT, "nothing", "no format 'nothing'"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(info: DemoInfo, name: str, said: str, tmp_path: Path) -> None:
    source = write(tmp_path / "a.h5", info, recording(info))
    with pytest.raises(InputError, match=said):
        convert(source, tmp_path / "b", format=name)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def d4rl(path: Path, **columns: Any) -> Path:
    """Two episodes of three steps: the first ends by itself, the second by a timeout."""
    flags = np.zeros((2, 6), bool)
    flags[0, 2] = flags[1, 5] = True
    default = {
        "observations": np.arange(12, dtype=np.float32).reshape(6, 2),
        "actions": np.linspace(-1, 1, 6, dtype=np.float32)[:, None],
        "rewards": np.arange(6, dtype=np.float32),
        "terminals": flags[0],
        "timeouts": flags[1],
    }
    with h5py.File(path, "w") as file:
        for name, rows in (default | columns).items():
            if rows is not None:
                file[name] = rows
    return path


def test_d4rl_without_final_observations(tmp_path: Path) -> None:
    """A terminated episode repeats its last observation, which nothing looks at; a cut one loses its last step."""
    source = d4rl(tmp_path / "a.hdf5")
    converted = convert(source, tmp_path / "b.h5", env_id="Nowhere-v0")
    assert converted.notes == [
        "the last observation of a terminated episode is repeated, as the one after it is not stored",
        "the last step of a cut episode is dropped, as the observation after it is not stored",
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
    ]
    with DemoReader(tmp_path / "b.h5") as reader:
        assert [(t.terminated, t.truncated) for t in reader] == [(True, False), (False, True)]
        assert reader[0].obs[-1].tolist() == [6, 7]


def minari(path: Path, **changes: Any) -> Path:
    """Two episodes as Minari 0.5 writes them, with Dict observations."""
    parts = {
        "b": {"type": "Box", "dtype": "float32", "shape": [2], "low": [-1.0, -1.0], "high": [1.0, 1.0]},
        "a": {"type": "Discrete", "dtype": "int64", "start": 0, "n": 3},
    }
    metadata = {
        "total_episodes": 2,
        "total_steps": 4,
        "data_format": "hdf5",
        "jpeg_encoding": True,
        "observation_space": json.dumps({"type": "Dict", "subspaces": parts}),
        "action_space": json.dumps({"type": "Discrete", "dtype": "int64", "start": 0, "n": 2}),
        "env_spec": json.dumps({"id": "Goal-v3", "entry_point": "os:system", "kwargs": {"size": 3}}),
        "dataset_id": "goal/test-v0",
        "minari_version": "0.5.4",
    } | changes
    (path / "data").mkdir(parents=True)
    (path / "data" / "metadata.json").write_text(json.dumps(metadata))
    with h5py.File(path / "data" / "main_data.hdf5", "w") as file:
        for number in range(2):
            group = file.create_group(f"episode_{number}")
            group["observations/b"] = np.full((3, 2), number / 2, np.float32)
            group["observations/a"] = np.array([0, 1, 2])
            group["actions"] = np.array([0, 1])
            group["rewards"] = np.array([0.5, 1.0])
            group["terminations"] = np.array([False, number == 0])
            group["truncations"] = np.array([False, number == 1])
            group["infos/success"] = np.array([0, 0, 1])
    return path


def test_minaris_dict_stays_one(tmp_path: Path) -> None:
    convert(minari(tmp_path / "a"), tmp_path / "b.h5")
    with DemoReader(tmp_path / "b.h5") as reader:
        assert reader.info.observation_space == spaces.Dict(
            a=spaces.Discrete(3), b=spaces.Box(-1, 1, (2,), np.float32)
        )
        assert reader[1].obs["a"].tolist() == [0, 1, 2]
        assert reader[1].obs["b"].tolist() == [[0.5, 0.5]] * 3


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


def test_flat_parts_of_minaris_dict_are_joined_as_gymnasium_flattens_them(tmp_path: Path) -> None:
    converted = convert(minari(tmp_path / "a"), tmp_path / "b.h5", obs_keys=["b", "a"])
    assert converted.notes == ["infos 'success' are left out (2)"]
    with DemoReader(tmp_path / "b.h5") as reader:
        assert (reader.info.env_id, dict(reader.info.env_kwargs)) == ("Goal-v3", {"size": 3})
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
                demo[name] = rows
    return path


def test_robomimics_demonstrations_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    convert(robomimic(tmp_path / "a.hdf5"), tmp_path / "b.h5")
    with DemoReader(tmp_path / "b.h5") as reader:
        assert [episode.actions[0, 0] for episode in reader] == [0.0, 0.2, 1.0]
        assert reader.info.env_id == "Lift"
        assert reader[0].obs.tolist() == [[0, 1, 0], [2, 3, 1], [4, 5, 2], [6, 7, 3]]  # a, then b
    convert(tmp_path / "a.hdf5", tmp_path / "c.h5", obs_keys=["camera"])
    with DemoReader(tmp_path / "c.h5") as reader:
        assert reader[0].obs.shape == (4, 8, 8, 3)
        assert reader[0].obs[-1].min() == 1


def test_a_mask_of_robomimic_chooses_demonstrations(tmp_path: Path) -> None:
    with h5py.File(robomimic(tmp_path / "a.hdf5"), "a") as file:
        file["mask/train"] = np.array([b"demo_10", b"demo_2"])
        file["mask/named"] = np.array([b"demo_0"])
        file["mask/gone"] = np.array([b"demo_7"])
    notes = convert(tmp_path / "a.hdf5", tmp_path / "all.h5").notes
    assert "parts are not kept apart: gone, named, train (--mask takes one)" in notes
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
    with pytest.raises(InputError, match=r"demo_0: its actions leave \[-1, 1\]"):
        convert(tmp_path / "a.hdf5", tmp_path / "b.h5")
    assert not (tmp_path / "b.h5").exists()


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


def test_bc_of_a_converted_minari_recording_is_byte_for_byte_that_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert (
        main(
            [
                "collect",
                "CartPole-v1",
                "--episodes",
                "3",
                "--noise",
                "random:0.5",
                "--out",
                str(tmp_path / "a.h5"),
            ]
        )
        == 0
    )
    assert main(["data", "convert", str(tmp_path / "a.h5"), "minari:test/cartpole-v0"]) == 0
    options = ["--env", "CartPole-v1", "--max-epochs", "3", "--device", "cpu"]
    for demos, out in ((str(tmp_path / "a.h5"), "ours"), ("minari:test/cartpole-v0", "theirs")):
        assert main(["train", "bc", "--demos", demos, "--out", str(tmp_path / out), *options]) == 0
    files = [
        next((tmp_path / out / "policy").glob("*.safetensors")).read_bytes() for out in ("ours", "theirs")
    ]
    assert files[0] == files[1]
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert config["demos"] == "minari:test/cartpole-v0"


def test_data_of_another_environment_are_refused_in_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    minari(tmp_path / "a")
    command = [
        "train",
        "bc",
        "--env",
        "CartPole-v1",
        "--demos",
        str(tmp_path / "a"),
        "--out",
        str(tmp_path / "run"),
    ]
    assert main(command) == 2
    assert "the data are of Goal-v3, not of CartPole-v1" in capsys.readouterr().err
    assert not list((tmp_path / "cache").rglob("*.h5"))


def test_bc_learns_from_what_was_converted(tmp_path: Path) -> None:
    convert(d4rl(tmp_path / "a.hdf5"), tmp_path / "b.h5", env_id="Nowhere-v0")
    with DemoReader(tmp_path / "b.h5") as demos:
        assert BC(BCConfig(max_epochs=1, holdout=0), demos=demos, seed=0).step()["loss"] >= 0


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


def test_lerobots_statistics_are_those_of_the_steps(tmp_path: Path) -> None:
    """Over 12 steps of three episodes; pictures are in [0, 1], a figure a channel."""
    played = recording(UNIT)
    convert(write(tmp_path / "a.h5", UNIT, played), tmp_path / "b", format="lerobot")
    stats = json.loads((tmp_path / "b" / "meta" / "stats.json").read_text())
    state = np.concatenate([episode.obs[:-1] for episode in played])
    wanted = {"min": state.min(0), "max": state.max(0), "mean": state.mean(0), "std": state.std(0)}
    wanted |= {"q50": np.quantile(state, 0.5, axis=0), "q99": np.quantile(state, 0.99, axis=0), "count": [12]}
    for name, values in wanted.items():
        np.testing.assert_allclose(stats["observation.state"][name], values, err_msg=name)
    pictures = recording(PICTURES)
    convert(write(tmp_path / "c.h5", PICTURES, pictures), tmp_path / "d", format="lerobot")
    stats = json.loads((tmp_path / "d" / "meta" / "stats.json").read_text())["observation.image"]
    pixels = np.concatenate([episode.obs[:-1] for episode in pictures]) / 255
    np.testing.assert_allclose(stats["mean"], pixels.mean((0, 1, 2)).reshape(3, 1, 1))
    assert np.shape(stats["q01"]) == (3, 1, 1)
