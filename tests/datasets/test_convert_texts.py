"""Data that belong to whole episodes: tasks, masks, the simulator's states and model, and frames a second."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from converting import UNIT, recording, same, write
from gymnasium import spaces
from test_convert_foreign import VECTORS, robomimic

from imitate.cli import main
from imitate.datasets import DemoReader, DemoWriter, InputError, Trajectory, edit, validate
from imitate.datasets.convert import convert

ENV_ARGS = {"env_name": "Lift", "type": 1, "env_kwargs": {"robots": ["Panda"]}}
TEXTS = replace(UNIT, has_texts=True, fps=20.0)
MODEL = "<mujoco>" + "x" * 70_000 + "</mujoco>"  # more than an attribute of a fixed size holds


@pytest.fixture
def lift(tmp_path: Path) -> Path:
    """Demonstrations 0, 2 and 10 of robosuite, with states; two have a task, two the same model, and one no mask."""
    path = robomimic(tmp_path / "lift.hdf5", **VECTORS)
    with h5py.File(path, "a") as file:
        for number, model, task in (
            (0, MODEL, "lift the cube"),
            (2, MODEL, ""),
            (10, "<mujoco/>", "lift it"),
        ):
            demo = file[f"data/demo_{number}"]
            demo["states"] = np.arange(12.0).reshape(3, 4) + number
            demo.attrs["model_file"] = model
            demo.attrs["ep_meta"] = json.dumps({"lang": task, "layout_id": 3})
        file["mask/train"] = np.array([b"demo_10", b"demo_2"])
        file["mask/20_percent"] = np.array([b"demo_10"])
    return path


def texts(path: Path) -> list[dict[str, Any]]:
    known = ("task", "masks", "model_file", "env_args")
    with DemoReader(path) as reader:
        return [{name: text for name, text in one.info.items() if name in known} for one in reader]


def with_texts() -> list[Trajectory]:
    told: list[dict[str, Any]] = [
        {"task": "push", "masks": ("train", "b")},
        {},
        {"task": "pull é", "masks": ("b",)},
    ]
    return [replace(one, info={**one.info, **text}) for one, text in zip(recording(UNIT), told, strict=True)]


def test_robomimics_masks_states_models_and_tasks_go_there_and_back(
    lift: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = convert(lift, tmp_path / "a.h5")
    assert not any("parts" in note or "state" in note for note in done.notes)
    held = texts(tmp_path / "a.h5")
    assert [one.get("task") for one in held] == ["lift the cube", None, "lift it"]
    assert [one.get("masks") for one in held] == [None, ("train",), ("20_percent", "train")]
    assert [one["model_file"] for one in held] == [MODEL, MODEL, "<mujoco/>"]
    assert [json.loads(one["env_args"]) for one in held] == [ENV_ARGS] * 3
    with DemoReader(tmp_path / "a.h5") as reader:
        assert [one.states[0].tolist() for one in reader if one.states is not None] == [
            [n, n + 1.0, n + 2.0, n + 3.0] for n in (0, 2, 10)
        ]
        assert {name: numbers.tolist() for name, numbers in reader.masks().items()} == {
            "20_percent": [2],
            "train": [1, 2],
        }
        ((obs,),) = reader.batches(100, np.random.default_rng(0), fields=["obs"])
        assert len(obs) == 9
    assert validate(tmp_path / "a.h5") == []
    assert main(["data", "info", str(tmp_path / "a.h5")]) == 0
    assert "tasks              lift it (1), lift the cube (1)\n" in capsys.readouterr().out

    assert convert(tmp_path / "a.h5", tmp_path / "b.hdf5", format="robomimic").notes == []
    with h5py.File(tmp_path / "b.hdf5") as file, h5py.File(lift) as was:
        for new, old in (("demo_0", "demo_0"), ("demo_1", "demo_2"), ("demo_2", "demo_10")):
            assert np.array_equal(file[f"data/{new}/states"], was[f"data/{old}/states"])
            assert file[f"data/{new}"].attrs["model_file"] == was[f"data/{old}"].attrs["model_file"]
        assert json.loads(file["data"].attrs["env_args"]) == ENV_ARGS
        assert json.loads(file["data/demo_2"].attrs["ep_meta"])["lang"] == "lift it"
        assert file["mask/train"][:].tolist() == [b"demo_1", b"demo_2"]
        assert file["mask/20_percent"][:].tolist() == [b"demo_2"]
    convert(tmp_path / "b.hdf5", tmp_path / "c.h5")
    same(tmp_path / "a.h5", tmp_path / "c.h5")
    assert texts(tmp_path / "c.h5") == held


def test_a_mask_of_our_own_file_is_taken(lift: Path, tmp_path: Path) -> None:
    convert(lift, tmp_path / "a.h5")
    convert(tmp_path / "a.h5", tmp_path / "b.npz", mask="train")
    convert(tmp_path / "b.npz", tmp_path / "b.h5")
    with DemoReader(tmp_path / "b.h5") as reader:
        assert [episode.actions[0, 0] for episode in reader] == [0.2, 1.0]
        assert reader.info.seed is None
    with pytest.raises(InputError, match="has no part 'trian'; did you mean 'train'"):
        convert(tmp_path / "a.h5", tmp_path / "c.h5", mask="trian")


def test_a_text_that_hdf5_cannot_hold_is_one_line(tmp_path: Path) -> None:
    episodes = [replace(one, info={"model_file": "<a\0>"}) for one in recording(UNIT)]
    path = write(tmp_path / "a.h5", TEXTS, episodes)
    with pytest.raises(InputError, match="model_file holds a NUL"):
        convert(path, tmp_path / "b.hdf5", format="robomimic")


def test_episodes_of_different_env_args_are_not_one_file_of_robomimic(tmp_path: Path) -> None:
    told = [{"env_args": '{"type": 1}'}, {}, {"env_args": '{"type": 3}'}]
    episodes = [replace(one, info=info) for one, info in zip(recording(UNIT), told, strict=True)]
    path = write(tmp_path / "a.h5", TEXTS, episodes)
    with pytest.raises(
        InputError, match="episode 2 has other env_args than one before it, a file of robomimic"
    ):
        convert(path, tmp_path / "b.hdf5", format="robomimic")
    assert not (tmp_path / "b.hdf5").exists()


def test_what_a_format_cannot_hold_is_said(lift: Path, tmp_path: Path) -> None:
    notes = convert(lift, tmp_path / "a.npz").notes
    assert "texts of tasks are left out (2)" in notes
    assert "states of the simulator are left out (3)" in notes
    assert "models of the simulator are left out (3)" in notes
    assert "parts are not kept apart: 20_percent, train (`data convert --mask` takes one)" in notes
    convert(tmp_path / "a.npz", tmp_path / "a.h5")
    assert texts(tmp_path / "a.h5") == [{}] * 3


def test_states_of_different_sizes_are_left_out(lift: Path, tmp_path: Path) -> None:
    with h5py.File(lift, "a") as file:
        del file["data/demo_2/states"]
        file["data/demo_2/states"] = np.zeros((3, 5))
    notes = convert(lift, tmp_path / "a.h5").notes
    assert any(note.startswith("states of the simulator are left out, since not all") for note in notes)
    with DemoReader(tmp_path / "a.h5") as reader:
        assert reader[0].states is None


def test_texts_survive_whatever_is_done_with_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", TEXTS, with_texts())
    wanted = [{"task": "push", "masks": ("train", "b")}, {}, {"task": "pull é", "masks": ("b",)}]
    assert texts(path) == wanted
    with h5py.File(path) as file:
        assert bytes(file["texts"][:]).decode() == "pushtrain\nbpull éb"
    edit.split(path, tmp_path / "b.h5", tmp_path / "c.h5", holdout=0.4)
    edit.concat([tmp_path / "b.h5", tmp_path / "c.h5", path], tmp_path / "d.h5")
    with DemoWriter.resume(tmp_path / "d.h5") as writer:
        writer.append_pieces(iter([replace(with_texts()[2], terminated=False, truncated=True)]))
        assert writer.reader()[6].info["task"] == "pull é"
    assert texts(tmp_path / "d.h5")[3:] == [*wanted, wanted[2]]
    with DemoReader([path, tmp_path / "d.h5"]) as reader:
        assert reader[-1].info["task"] == "pull é"
        assert reader.masks()["train"][0] == 0
        assert len(reader.masks()["train"]) == 3
    edit.subsample(path, tmp_path / "e.h5", every=4)
    assert [one.get("task") for one in texts(tmp_path / "e.h5")] == ["push", None, "pull é", "pull é"]


def test_states_survive_being_cut_into_pieces(tmp_path: Path) -> None:
    info = replace(UNIT, state_size=2)
    episodes = [
        replace(one, states=np.arange(2.0 * len(one)).reshape(-1, 2))
        for one in recording(UNIT, lengths=(4, 9))
    ]
    path = write(tmp_path / "a.h5", info, episodes)
    edit.subsample(path, tmp_path / "b.h5", every=3)
    with DemoReader(tmp_path / "b.h5") as reader:
        assert [one.states.tolist() for one in reader if one.states is not None] == [
            [[2.0 * step, 2.0 * step + 1]] for step in (0, 3, 0, 3, 6)
        ]
    with DemoWriter(tmp_path / "c.h5", info) as writer:
        for wrong in (None, np.zeros((4, 3)), np.zeros((4, 2), np.float32)):
            with pytest.raises(InputError, match=r"states are .*, wanted float64 \(2,\)"):
                writer.append(replace(episodes[0], states=wrong))
    with pytest.raises(InputError, match=r"needs states of shape \(4, S\), got \(3, 2\)"):
        replace(episodes[0], states=np.zeros((3, 2)))


@pytest.mark.parametrize("place", [(0, 1 << 40), (1 << 40, 3), (-2, 3), (0, -1), (17, 9)])
def test_texts_outside_of_the_file_are_refused(place: tuple[int, int], tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", TEXTS, with_texts())
    with h5py.File(path, "a") as file:
        tags = file["tags"][:]
        tags["masks"][0] = place
        file["tags"][:] = tags
    with DemoReader(path) as reader:
        for read in (lambda: reader[0], reader.masks, lambda: list(reader.pieces(0))):
            with pytest.raises(InputError, match="is not in the file's"):
                read()
        assert reader[2].info["task"] == "pull é"
    assert "is not in the file's" in validate(path)[0]


def test_texts_that_overlap_are_refused(tmp_path: Path) -> None:
    """Else a small file could name the same bytes again and again, and fill the memory with texts."""
    path = write(tmp_path / "a.h5", TEXTS, with_texts())
    with h5py.File(path, "a") as file:
        tags, length = file["tags"][:], len(file["texts"])
        tags["masks"][:3] = [(0, length), (0, length - 1), (1, length - 1)]
        file["tags"][:] = tags
    with DemoReader(path) as reader, pytest.raises(InputError, match="its texts overlap"):
        reader.masks()


def test_texts_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    """In the file they are packed to a thousandth."""
    tasks = [letter * (3 << 20) for letter in "abc"]
    episodes = [replace(one, info={"task": task}) for one, task in zip(with_texts(), tasks, strict=True)]
    path = write(tmp_path / "a.h5", TEXTS, episodes)
    with DemoReader(path) as reader, pytest.raises(InputError, match="take 9437184 bytes, over the limit"):
        reader.tasks()
    assert main(["data", "info", str(path)]) == 2


@pytest.mark.parametrize("name", ["tags", "texts", "states"])
def test_a_file_that_lacks_what_it_says_it_has_is_refused(name: str, tmp_path: Path) -> None:
    info = replace(TEXTS, state_size=1)
    episodes = [replace(one, states=np.zeros((len(one), 1))) for one in recording(UNIT)]
    path = write(tmp_path / "a.h5", info, episodes)
    with h5py.File(path, "a") as file:
        del file[name]
    with pytest.raises(InputError, match=f"lacks the dataset '{name}'"):
        DemoReader(path)


def test_lerobots_tasks_and_rate_go_there_and_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = write(tmp_path / "a.h5", TEXTS, with_texts())
    notes = convert(path, tmp_path / "b", format="lerobot").notes
    assert notes == ["parts are not kept apart: b, train (`data convert --mask` takes one)"]
    document = json.loads((tmp_path / "b/meta/info.json").read_text("utf-8"))
    assert (document["fps"], document["total_tasks"]) == (20, 3)
    tasks = parquet.read_table(tmp_path / "b/meta/tasks.parquet").to_pydict()
    assert tasks == {"task_index": [0, 1, 2], "__index_level_0__": ["push", "Unit-v0", "pull é"]}
    rows = parquet.read_table(tmp_path / "b/data/chunk-000/file-000.parquet").to_pydict()
    assert rows["task_index"] == [0] * 4 + [1] + [2] * 7
    assert rows["timestamp"][1] == pytest.approx(1 / 20)
    convert(tmp_path / "b", tmp_path / "c.h5")
    assert texts(tmp_path / "c.h5") == [{"task": "push"}, {}, {"task": "pull é"}]

    (tmp_path / "b/meta/imitate.json").unlink()  # now it is another's
    assert not any(
        note.startswith("left out")
        for note in convert(tmp_path / "b", tmp_path / "d.h5", env_id="X-v0").notes
    )
    assert texts(tmp_path / "d.h5") == [
        {"task": "push"},
        {"task": "pull é"},
    ]  # one step is too few without its end
    with DemoReader(tmp_path / "d.h5") as reader:
        assert reader.info.fps == 20
    command = ["data", "convert", str(tmp_path / "d.h5"), str(tmp_path / "e"), "--format", "lerobot"]
    assert main([*command, "--fps", "12.5"]) == 2
    assert "whole, these are 12.5: say another --fps" in capsys.readouterr().err
    assert main([*command, "--fps", "10"]) == 0
    assert json.loads((tmp_path / "e/meta/info.json").read_text("utf-8"))["fps"] == 10


def test_several_tasks_of_an_episode_are_said(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    convert(write(tmp_path / "a.h5", TEXTS, with_texts()), tmp_path / "b", format="lerobot")
    place = tmp_path / "b/meta/episodes/chunk-000/file-000.parquet"
    table = parquet.read_table(place)
    column = table.schema.names.index("tasks")
    for tasks, said in ((["push", "pull"], "the first is kept"), ([], None)):
        parquet.write_table(table.set_column(column, "tasks", [[tasks, ["x"], ["x"]]]), place)
        notes = convert(tmp_path / "b", tmp_path / f"{len(tasks)}.h5").notes
        assert any("several tasks" in note for note in notes) == bool(said)
        assert texts(tmp_path / f"{len(tasks)}.h5")[0] == ({"task": "push"} if tasks else {})
    parquet.write_table(table.set_column(column, "tasks", [[1, 2, 3]]), place)
    with pytest.raises(InputError, match="wanted lists of texts"):
        convert(tmp_path / "b", tmp_path / "c.h5")


def test_pngs_of_lerobot_are_lossless_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    picture = spaces.Box(0, 255, (17, 33, 3), np.uint8)  # odd sides are no matter
    info = replace(UNIT, observation_space=picture, seed=None)
    path = write(tmp_path / "a.h5", info, recording(info))
    assert (
        main(["data", "convert", str(path), str(tmp_path / "b"), "--format", "lerobot", "--codec", "png"])
        == 0
    )
    feature = json.loads((tmp_path / "b/meta/info.json").read_text("utf-8"))["features"]["observation.image"]
    assert feature == {"dtype": "image", "shape": [17, 33, 3], "names": ["height", "width", "channels"]}
    assert not (tmp_path / "b/videos").exists()
    rows = parquet.read_table(tmp_path / "b/data/chunk-000/file-000.parquet")["observation.image"].to_pylist()
    assert all(row["bytes"].startswith(b"\x89PNG") and row["path"] is None for row in rows)
    convert(tmp_path / "b", tmp_path / "c.h5")
    same(path, tmp_path / "c.h5")
    assert main(["data", "convert", str(path), str(tmp_path / "d.npz"), "--codec", "png"]) == 2
    assert "npz has no videos: leave --codec out" in capsys.readouterr().err
    assert main(["data", "convert", str(path), str(tmp_path / "d.csv"), "--fps", "3"]) == 2
    assert "csv has no place for steps a second: leave --fps out" in capsys.readouterr().err


@pytest.mark.parametrize(("rate", "fps"), [(20, 20.0), (-1, 0.0), (1e300, 0.0), ("20", 0.0), (None, 0.0)])
def test_robosuites_control_frequency_is_the_frames_a_second(rate: Any, fps: float, lift: Path) -> None:
    with h5py.File(lift, "a") as file:
        arguments = {**ENV_ARGS, "env_kwargs": {"control_freq": rate}}
        file["data"].attrs["env_args"] = json.dumps(arguments)
    convert(lift, lift.with_name("a.h5"), obs_keys=["a"])
    with DemoReader(lift.with_name("a.h5")) as reader:
        assert reader.info.fps == fps


def test_a_text_that_is_too_long_costs_its_own_episode_only(tmp_path: Path) -> None:
    first, second, third = with_texts()
    second.info["task"] = "x" * (1 << 24) + "y"
    with DemoWriter(tmp_path / "a.h5", TEXTS) as writer:
        writer._next_flush = np.inf  # the first one waits in memory
        writer.append(first)
        with pytest.raises(InputError, match="the task of an episode has 16777217 bytes, over the limit of"):
            writer.append(second)
        writer.append(third)
    assert [one["task"] for one in texts(tmp_path / "a.h5")] == ["push", "pull é"]


def test_seeds_that_failed_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with DemoWriter(path, TEXTS) as writer:
        for one in with_texts():
            writer.append(one)
        writer.fail(7)
    convert(path, tmp_path / "b.h5", fps=5)
    convert(path, tmp_path / "c.h5", mask="b")
    for name, seeds in (
        ("b", [7]),
        ("c", []),
    ):  # a part is no collection, of which an episode could be missing
        with DemoReader(tmp_path / f"{name}.h5") as reader:
            assert reader.failed_seeds == seeds
