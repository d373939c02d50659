"""Names of columns in plain files, and the notes of a conversion on its guesses and losses."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import h5py
import numpy as np
import pytest
from conftest import Identity
from converting import DISCRETE, UNIT, recording, same, write
from gymnasium.envs.classic_control import CartPoleEnv
from test_convert_foreign import robomimic

from imitate.cli import main
from imitate.datasets import DemoReader, DemoWriter, InputError
from imitate.datasets.convert import convert


class Hungry(Identity):
    """Takes as many bytes as it is told to."""

    def __init__(self, size: int) -> None:
        super().__init__(continuous=True)
        self.world = np.ones(size, np.uint8)


LOG = """time,level,velocity,valve,r,end
0,1.0,0.5,0.25,1,False
1,2.0,0.5,0.5,2,True
"""
COLUMNS = ["obs=level,velocity", "action=valve", "reward=r"]


def test_columns_of_a_csv_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    out = tmp_path / "b.h5"
    command = [
        "data",
        "convert",
        str(tmp_path / "log.csv"),
        str(out),
        "--env",
        "Valve-v0",
        "--columns",
        *COLUMNS,
    ]
    assert main([*command, "terminated=end"]) == 0
    assert "column 'time' is left out" in capsys.readouterr().out
    with DemoReader(out) as demos:
        assert demos[0].obs.tolist() == [[1.0, 0.5], [2.0, 0.5], [2.0, 0.5]]
        assert demos[0].actions.tolist() == [[0.25], [0.5]]
        assert demos[0].rewards.tolist() == [1, 2]
        assert demos[0].terminated


def test_arrays_of_an_npz_are_named(tmp_path: Path) -> None:
    level, velocity = np.array([1.0, 2.0, 3.0]), np.array([[0.5], [0.6], [0.7]])
    np.savez(tmp_path / "a.npz", level=level, velocity=velocity, valve=np.array([0, 1, 0]), r=np.ones(3))
    convert(tmp_path / "a.npz", tmp_path / "b.h5", env_id="Valve-v0", columns=COLUMNS)
    with DemoReader(tmp_path / "b.h5") as demos:
        assert demos[0].obs.tolist() == [[1.0, 0.5], [2.0, 0.6], [3.0, 0.7]]
        assert demos[0].rewards.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("name", "wrong"), [("seeds", 3.7), ("seeds", np.nan), ("seeds", 2.0**63), ("lengths", 2.5)]
)
def test_a_seed_or_length_that_is_no_whole_number_is_refused(name: str, wrong: float, tmp_path: Path) -> None:
    arrays = {"obs": np.zeros((3, 4)), "actions": np.array([0, 1, 0]), "lengths": [3.0], "seeds": [7.0]}
    np.savez(tmp_path / "a.npz", **arrays | {name: [wrong]})
    with pytest.raises(InputError, match=f"{name}.npy holds .*, wanted whole numbers"):
        convert(tmp_path / "a.npz", tmp_path / "b.h5", env_id="CartPole-v1")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            ["obs=levle", "action=valve"],
            "no column 'levle'; did you mean 'level'?; it has 'time', 'level', 'velocity', ",
        ),
        (["observation=level", "action=valve"], "'observation' is unknown or twice"),
        (["level"], "names no columns"),
        (["obs=level", "action=valve", "reward=r,end"], "reward is one column"),
        (["action=valve"], "--columns obs=level,velocity action=valve"),
    ],
)
def test_columns_that_are_not_there_are_one_line(columns: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    with pytest.raises(InputError) as error:
        convert(tmp_path / "log.csv", tmp_path / "b.h5", env_id="Valve-v0", columns=columns)
    assert said in str(error.value)
    with pytest.raises(InputError, match="leave --columns out"):
        convert(robomimic(tmp_path / "a.hdf5"), tmp_path / "b.h5", columns=columns)


@pytest.mark.parametrize("name", ["a.npz", "a.csv"])
def test_dones_do_not_tell_time_limits_from_ends(name: str, tmp_path: Path) -> None:
    if name == "a.npz":
        arrays = {
            "obs": np.arange(4.0)[:, None],
            "actions": np.zeros(4, int),
            "dones": np.array([0, 1, 0, 1]),
        }
        np.savez(tmp_path / name, **arrays)
        np.savez(tmp_path / f"b{name}", **arrays, truncated=np.array([0, 0, 0, 1]))
    else:
        (tmp_path / name).write_text("episode,obs_0,action,dones\n0,0.5,1,0\n0,0.5,1,1\n")
        (tmp_path / f"b{name}").write_text("episode,obs_0,action,dones,truncated\n0,0.5,1,0,0\n0,0.5,1,1,1\n")
    said = "'dones' says when episodes end and not why: time limits count as terminations"
    notes = [
        convert(tmp_path / each, tmp_path / f"{each}.h5", env_id="X-v0").notes for each in (name, f"b{name}")
    ]
    assert [sum(note.startswith(said) for note in each) for each in notes] == [1, 0]


@pytest.mark.parametrize(
    ("flags", "columns", "wanted"),
    [
        ({"dones": 1}, [], (True, False)),
        ({"dones": 1, "truncated": 1}, [], (False, True)),
        ({"dones": 1, "truncated": 0}, [], (True, False)),
        ({"dones": 1, "terminated": 0}, [], (False, True)),
        ({"dones": 1, "terminated": 1}, [], (True, False)),
        ({"dones": 1}, ["truncated=dones"], (False, True)),
        ({"dones": 1, "limit": 1}, ["truncated=limit"], (False, True)),
        ({"dones": 1, "limit": 1}, ["terminated=dones", "truncated=limit"], (True, True)),
    ],
)
@pytest.mark.parametrize("name", ["a.npz", "a.csv"])
def test_a_time_limit_is_no_end_of_the_task(
    name: str, flags: dict[str, int], columns: list[str], wanted: tuple[bool, bool], tmp_path: Path
) -> None:
    source = tmp_path / name
    if name == "a.npz":
        ends = {flag: np.array([0, value]) for flag, value in flags.items()}
        np.savez(source, obs=np.ones((3, 1)), actions=np.zeros(2, int), lengths=np.array([2]), **ends)
    else:
        rows = [["0.5", "1", *("0" for _ in flags)], ["0.5", "1", *map(str, flags.values())]]
        last = ["0.5", "", *("" for _ in flags)]
        lines = [["obs_0", "action", *flags], *rows, last]
        source.write_text("".join(f"{','.join(line)}\n" for line in lines))
    convert(source, tmp_path / "b.h5", env_id="X-v0", columns=columns)
    with DemoReader(tmp_path / "b.h5") as demos:
        assert len(demos[0]) == 2
        assert (demos[0].terminated, demos[0].truncated) == wanted


def test_flags_end_the_episodes_of_a_csv_without_numbers(tmp_path: Path) -> None:
    """The line without an action is the final observation of the first episode."""
    lines = ["obs_0,action,done", "0.5,1,0", "1.5,0,1", "2.5,,", "3.5,1,0", "4.5,1,1", "5.5,0,0", "6.5,1,0"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    convert(tmp_path / "a.csv", tmp_path / "b.h5", env_id="X-v0")
    with DemoReader(tmp_path / "b.h5") as demos:
        assert [demo.obs.ravel().tolist() for demo in demos] == [[0.5, 1.5, 2.5], [3.5, 4.5, 4.5], [5.5, 6.5]]
        assert [demo.terminated for demo in demos] == [True, True, False]


@pytest.mark.parametrize(("rate", "wanted"), [(50, 50), (12.5, 30), (None, 30)])
def test_lerobots_rate_is_the_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float | None, wanted: int
) -> None:
    monkeypatch.setitem(CartPoleEnv.metadata, "render_fps", rate)
    info = replace(DISCRETE, has_texts=True)
    source = write(tmp_path / "a.h5", info, recording(info))
    notes = {
        50: "frames a second are 50, the render_fps of CartPole-v1 (--fps says others)",
        30: "frames a second (--fps) are not known: 30 are written",
    }
    assert convert(source, tmp_path / "b", format="lerobot").notes == [notes[wanted]]
    document = json.loads((tmp_path / "b" / "meta" / "info.json").read_text("utf-8"))
    assert (document["fps"], type(document["fps"])) == (wanted, int)
    convert(tmp_path / "b", tmp_path / "c.h5")
    same(source, tmp_path / "c.h5")
    assert convert(source, tmp_path / "d", format="lerobot", fps=20).notes == []


def test_lerobot_says_what_it_lacks_and_does_not_ask_the_environment(tmp_path: Path) -> None:
    source = write(tmp_path / "a.h5", UNIT, recording(UNIT))
    wrote = convert(source, tmp_path / "b", format="lerobot").notes
    assert wrote == [
        "frames a second (--fps) and tasks are not known: 30 and the environment's id are written"
    ]
    document = json.loads((tmp_path / "b" / "meta" / "info.json").read_text("utf-8"))
    assert document["fps"] == 30
    document["robot_type"] = "so100"
    document["features"]["action"]["names"] = ["left", "right"]
    (tmp_path / "b" / "meta" / "info.json").write_text(json.dumps(document))
    (tmp_path / "b" / "meta" / "imitate.json").unlink()
    read = convert(tmp_path / "b", tmp_path / "c.h5", env_id="Unit-v0").notes
    assert "left out: the robot type 'so100', names of features" in read


def test_imitations_terminal_is_said_to_mean_time_limits_too(tmp_path: Path) -> None:
    source = write(tmp_path / "a.h5", UNIT, recording(UNIT))
    convert(source, tmp_path / "b", format="imitation")
    (tmp_path / "b" / "imitate.json").unlink()
    notes = convert(tmp_path / "b", tmp_path / "c.h5", env_id="Unit-v0").notes
    assert any(note.startswith("`terminal` is also set at time limits") for note in notes)


def test_ids_that_minari_cannot_parse_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of them makes Minari's list of all data sets fail."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "store"))
    source = str(write(tmp_path / "a.h5", UNIT, recording(UNIT)))
    for name in ("mydata", "a/mydata-v0", "my data-v0", "x/y/", "door/human-v", "door//human-v0"):
        assert main(["data", "convert", source, f"minari:{name}"]) == 2
        assert "is no id of Minari's" in capsys.readouterr().err
    inside = str(tmp_path / "store" / "mydata")
    assert main(["data", "convert", source, inside, "--format", "minari"]) == 2
    assert not (tmp_path / "store" / "mydata").exists()
    for name in ("mydata-v0", "ab/mydata-v10", "a/b/door_human-v2"):
        assert main(["data", "convert", source, f"minari:{name}"]) == 0
        metadata = json.loads((tmp_path / "store" / name / "data" / "metadata.json").read_text("utf-8"))
        assert metadata["dataset_id"] == name
    convert(source, tmp_path / "my data.1", format="minari")
    assert (
        json.loads((tmp_path / "my data.1/data/metadata.json").read_text("utf-8"))["dataset_id"]
        == "my-data-1-v0"
    )


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["q.npz", "q.csv", "q.h5", "folder"])
def test_what_is_no_file_is_not_opened(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / name
    if name == "folder":  # a data set of `imitation`
        convert(write(tmp_path / "a.h5", UNIT, recording(UNIT)), pipe, format="imitation")
        pipe = pipe / "data-00000-of-00001.arrow"
        pipe.unlink()
    os.mkfifo(pipe)
    assert main(["data", "convert", str(tmp_path / name), str(tmp_path / "b.h5"), "--env", "Unit-v0"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.forks
def test_an_environment_that_a_file_describes_may_not_take_all_memory(tmp_path: Path) -> None:
    source = robomimic(tmp_path / "a.hdf5", actions=np.zeros((3, 1)))

    def kwargs(**kwargs: object) -> None:
        with h5py.File(source, "a") as file:
            arguments = {
                "env_name": "Hungry-v0" if "size" in kwargs else "FrozenLake-v1",
                "type": 2,
                "env_kwargs": kwargs,
            }
            file["data"].attrs["env_args"] = json.dumps(arguments)

    kwargs(desc=["F" * 150] * 150)
    with pytest.raises(InputError, match="env_kwargs that the file names: they have more than 16384"):
        convert(source, tmp_path / "b.h5")
    gym.register("Hungry-v0", entry_point=Hungry)
    kwargs(size=1 << 30)
    with pytest.raises(InputError, match="it would take more than 384 MiB"):
        convert(source, tmp_path / "b.h5", env_id="Hungry-v0")
    gym.registry.pop("Hungry-v0")


def test_a_file_that_was_cut_off_names_its_repair(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    writer = DemoWriter(path, UNIT)
    writer.append(recording(UNIT)[0])
    writer.sync()
    data = path.read_bytes()
    beside = path.with_name("a.h5.savepoint").read_bytes()
    writer.close()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=r"`imitate data repair` needs a\.h5\.savepoint"):
        DemoReader(path)
    path.with_name("a.h5.savepoint").write_bytes(beside)
    with pytest.raises(InputError, match=f"`imitate data repair {path}` restores"):
        DemoReader(path)


def test_a_folder_has_its_files_whatever_the_case_of_their_suffix(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in ("a.csv", "B.CSV"):
        (folder / name).write_text(LOG)
    convert(folder, tmp_path / "demos.h5", env_id="Valve-v0", columns=COLUMNS)
    convert(folder / "B.CSV", tmp_path / "one.h5", env_id="Valve-v0", columns=COLUMNS)
    for name, count in (("demos.h5", 2), ("one.h5", 1)):
        with DemoReader(tmp_path / name) as reader:
            assert len(reader) == count


def test_numbers_that_no_tensor_holds_are_refused(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz", obs=np.zeros((3, 2), np.longdouble), acts=np.zeros(2, np.int64), terminal=[True]
    )
    with pytest.raises(InputError, match="float128: wanted numbers"):
        convert(tmp_path / "a.npz", tmp_path / "b.h5", env_id="Valve-v0")
