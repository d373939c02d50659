"""Files of demonstrations: round trips, what is refused, what is told of them."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest
from counting import Cycling, counting_envs, info_of, stacked_envs
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from numpy.testing import assert_array_equal
from recordings import BOX, INFO, assert_same, trajectory

from imitate.datasets import (
    DemoInfo,
    DemoReader,
    DemoWriter,
    InputError,
    Trajectory,
    describe,
    episodes,
    validate,
)
from imitate.datasets.play import stack_frames

FLOATS = st.floats(-(2.0**99), 2.0**99, width=32)


@st.composite
def files(draw: st.DrawFn) -> tuple[DemoInfo, list[Trajectory], bool]:
    """Spaces, trajectories in them, and whether they have labels."""
    k = draw(st.sampled_from([1, 1, 3]))
    frame = draw(nps.array_shapes(min_dims=int(k > 1), max_dims=2, max_side=3))
    dtype: Any = np.dtype(draw(st.sampled_from(["f4", "f8", "u1"])))
    bounds = (0, 255) if dtype == np.uint8 else (-np.inf, np.inf)
    shape = frame if k == 1 else (k, *frame)
    actions: Any = draw(
        st.sampled_from([gym.spaces.Discrete(3, start=-1), gym.spaces.Box(-2, 2, (2,), np.float32)])
    )
    labelled = draw(st.booleans())
    elements = None if dtype == np.uint8 else st.floats(-(2.0**99), 2.0**99, width=8 * dtype.itemsize)
    trajectories = []
    for _ in range(draw(st.integers(1, 5))):
        steps = draw(st.integers(1, 6))
        row = st.integers(-1, 1) if isinstance(actions, gym.spaces.Discrete) else st.floats(-2, 2, width=32)
        acted = nps.arrays(actions.dtype, (steps, *actions.shape), elements=row)
        trajectories.append(
            Trajectory(
                obs=stack_frames(draw(nps.arrays(dtype, (steps + k, *frame), elements=elements)), k),
                actions=draw(acted),
                rewards=draw(nps.arrays(np.float32, steps, elements=FLOATS)),
                terminated=draw(st.booleans()),
                truncated=True,
                info={"seed": draw(st.integers(0, 2**31 - 1))},
                expert_actions=draw(acted) if labelled else None,
            )
        )
    space = gym.spaces.Box(*bounds, shape, dtype.type)
    return DemoInfo("Made-v0", space, actions, frame_stack=k), trajectories, labelled


@settings(max_examples=12, deadline=None)  # a busy machine takes its time to open files
@given(files(), st.booleans())
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, made: Any, resumed: bool) -> None:
    info, trajectories, labelled = made
    path = tmp_path_factory.mktemp("round") / "demos.h5"
    with DemoWriter(path, info, expert_actions=labelled) as writer:
        for one in trajectories:
            writer.append(one)
    if resumed:
        DemoWriter.resume(path).close()
    with DemoReader(path) as reader:
        assert reader.info == info
        assert len(reader) == len(trajectories)
        assert reader.num_steps == sum(map(len, trajectories))
        assert_array_equal(reader.returns, [one.episode_return for one in trajectories])
        for one, read in zip(trajectories, reader, strict=True):
            assert_same(one, read)
    assert validate(path) == []


def test_info_round_trip(tmp_path: Path) -> None:
    info = DemoInfo(
        env_id="Pendulum-v1",
        observation_space=gym.spaces.Box(np.float32([-1, -1, -8]), np.float32([1, 1, 8])),
        action_space=gym.spaces.Box(-2, 2, (1,), np.float32),
        env_kwargs={"g": 9.81},
        expert="zoo:sac/Pendulum-v1",
        expert_sha256="ab" * 32,
        normalisation_sha256="cd" * 32,
        expert_return=-150,  # a whole number made a file that no reader took
        deterministic=False,
        noise="gaussian:0.1",
        seed=3,
        versions={"gymnasium": "1.4.0"},
    )
    path = tmp_path / "demos.h5"
    with DemoWriter(path, info) as writer:
        assert writer.reader().info == info


@pytest.mark.parametrize("flushed_each", [True, False])
def test_frames_are_stored_once(tmp_path: Path, flushed_each: bool) -> None:
    envs = stacked_envs(2, period=100)
    path = tmp_path / "pixels.h5"
    played = list(episodes(Cycling(), envs, [99, 50, 150], frame_stack=4))
    with DemoWriter(path, info_of(envs, frame_stack=4)) as writer:
        for one in played:
            writer.append(one)
            if flushed_each:
                writer.flush()
    with DemoReader(path) as reader:
        assert len(reader.table) == 3
        for one, read in zip(played, reader, strict=True):
            assert_same(one, read)
    with h5py.File(path) as file:
        assert file["obs"].shape == (100 + 51 + 51 + 3 * 4, 6, 5)  # T + k rows an episode
        assert_array_equal(file["obs"][:6, 0, 0], [0, 0, 0, 0, 1, 2])  # the wrapper repeats the first frame


def test_writer_is_readable_while_open(tmp_path: Path) -> None:
    with DemoWriter(tmp_path / "store.h5", INFO, expert_actions=True) as writer:
        writer.append(trajectory(4, 0))
        assert len(writer.reader()) == 1
        writer.append(trajectory(3, 1, expert_actions=np.array([3, 2, 1])))
        reader = writer.reader()
        assert reader is writer.reader()
        assert (len(reader), reader.num_steps, len(writer), writer.num_steps) == (2, 7, 2, 7)
        assert_array_equal(reader[1].labels, [3, 2, 1])
        assert_array_equal(reader[0].labels, trajectory(4, 0).actions)  # labelled by its own actions
        with reader:
            pass  # which leaves the writer open
        with DemoReader(writer.path) as other:  # as another process would, while it is being written
            assert len(other) == 2


@pytest.mark.parametrize("resumed", [False, True])
def test_the_folder_may_change_while_a_file_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resumed: bool
) -> None:
    """A path that was relative is that of the file which was opened, not of another in the new folder."""
    envs = counting_envs(1)
    one, two = episodes(Cycling(), envs, range(2))
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        with DemoWriter(tmp_path / folder / "demos.h5", info_of(envs)) as writer:
            writer.append(one)
    monkeypatch.chdir(tmp_path / "here")
    if not resumed:
        Path("demos.h5").unlink()
    writer = DemoWriter.resume("demos.h5") if resumed else DemoWriter("demos.h5", info_of(envs))
    writer.append(two)
    monkeypatch.chdir(tmp_path / "there")
    writer.close()
    monkeypatch.chdir(tmp_path / "here")
    assert [path.name for path in Path().iterdir()] == ["demos.h5"]
    with DemoReader("demos.h5") as reader:
        monkeypatch.chdir(tmp_path / "there")
        with pickle.loads(pickle.dumps(reader)) as again:
            assert again[len(again) - 1].info["seed"] == two.info["seed"]


def test_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    path.write_bytes(b"precious")
    with pytest.raises(InputError, match="exists already"):
        DemoWriter(path, INFO)
    assert path.read_bytes() == b"precious"
    with pytest.raises(InputError, match="No such file"):
        DemoWriter(tmp_path / "absent" / "demos.h5", INFO)


def test_a_link_is_resumed_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    path, link = tmp_path / "large" / "a.h5", tmp_path / "a.h5"
    link.symlink_to(path)
    with DemoWriter(path, INFO) as writer:
        writer.append(trajectory())
    with DemoWriter.resume(link) as writer:
        writer.append(trajectory())
    assert link.is_symlink()
    with DemoReader(path) as reader:
        assert len(reader) == 2


def test_a_folder_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder, wanted a file"):
        DemoWriter.resume(tmp_path)
    assert not list(tmp_path.parent.glob(f"*{tmp_path.name}.*"))


def test_a_closed_writer_refuses_episodes(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    with DemoWriter(path, INFO) as writer:
        writer.append(trajectory(2))
    for write in (
        lambda: writer.append(trajectory(2)),
        lambda: writer.append_pieces([trajectory(2), trajectory(1)]),
        lambda: writer.fail(3),
    ):
        with pytest.raises(InputError, match=r"demos.h5 is closed: go on with DemoWriter.resume\('"):
            write()
    assert len(writer) == 1
    with DemoWriter.resume(path) as writer:
        writer.append(trajectory(2))
    with DemoReader(path) as reader:
        assert len(reader) == 2


def test_nothing_recorded_leaves_nothing(tmp_path: Path) -> None:
    with DemoWriter(tmp_path / "demos.h5", INFO):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"obs": np.zeros((6, 4), np.float32)}, "obs are float32"),
        ({"obs": np.zeros((6, 3))}, "obs are float64"),
        ({"actions": np.array([0, 1, 2, 3, 4])}, r"actions leave the space Discrete.4., as 4 in step 4"),
        ({"actions": np.zeros((5, 1), np.int64)}, "actions are int64"),
        ({"expert_actions": np.array([0, 1, 2, 3, 0])}, "has no expert_actions"),
        ({"truncated": False}, "is neither terminated nor truncated: one that was only stopped is truncated"),
        ({"rewards": np.full(5, 1e300)}, "rewards are stored as float32, which does not reach 1e.300"),
        ({"info": {"seed": "one"}}, "the seed of an episode must be a whole number, got 'one'"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with DemoWriter(tmp_path / "demos.h5", INFO) as writer:
        writer.append(trajectory(5, 1))
        with pytest.raises(InputError, match=message):
            writer.append(trajectory(5, 1, **changes))
        with pytest.raises(InputError, match=r"^an episode is a Trajectory, got dict$"):
            writer.append({"obs": np.zeros((6, 3))})  # type: ignore[arg-type]
        assert len(writer.reader()) == 1
        writer.append(trajectory(5, 2))
    assert validate(tmp_path / "demos.h5") == []


def test_an_observation_that_the_reader_would_refuse_is_not_written(tmp_path: Path) -> None:
    cells = DemoInfo("Cells-v0", spaces.Discrete(3), spaces.Discrete(4))
    with DemoWriter(tmp_path / "cells.h5", cells) as writer:
        writer.append(trajectory(2, obs=np.array([0, 2, 1])))
        with pytest.raises(InputError, match=r"obs leave the space Discrete\(3\) in step 1 of their episode"):
            writer.append(trajectory(2, obs=np.array([0, 3, 1])))
    assert validate(tmp_path / "cells.h5") == []
    with DemoWriter(tmp_path / "box.h5", INFO) as writer:  # as `collect` does, which warns
        writer.append(trajectory(2, obs=np.full((3, 3), 5, np.float32)))
    assert validate(tmp_path / "box.h5") == []


def test_pieces_of_an_episode_that_does_not_say_how_it_ended_are_refused(tmp_path: Path) -> None:
    with DemoWriter(tmp_path / "demos.h5", INFO) as writer:
        writer.append(trajectory(2))
        pieces = [trajectory(2, 1), trajectory(1, 1, truncated=False)]
        with pytest.raises(InputError, match="neither terminated nor truncated"):
            writer.append_pieces(pieces)
        with pytest.raises(InputError, match="an episode needs at least one piece, got none"):
            writer.append_pieces([])
    with DemoReader(tmp_path / "demos.h5") as reader:
        assert len(reader) == 1


def test_keywords_that_no_reader_would_take_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="env_kwargs have more than 16384 characters; shorten them"):
        DemoWriter(tmp_path / "demos.h5", replace(INFO, env_kwargs={"map": "x" * 20_000}))
    assert not list(tmp_path.iterdir())


def test_lists_and_a_dict_of_arrays_are_taken(tmp_path: Path) -> None:
    arm = spaces.Dict({"joints": BOX, "camera": spaces.Box(0, 255, (2, 2), np.uint8)})
    joints, camera = np.ones((3, 3), np.float32), np.full((3, 2, 2), 7, np.uint8)
    given = {"joints": list(joints), "camera": camera}
    with DemoWriter(tmp_path / "demos.h5", DemoInfo("Arm-v0", arm, spaces.Discrete(4))) as writer:
        # 0.1 is no float32: the return that is stored is that of the rewards that are.
        writer.append(trajectory(2, obs=given, actions=[3, 0], rewards=[0.1, 0.1], terminated=1))
    assert validate(tmp_path / "demos.h5") == []
    with DemoReader(tmp_path / "demos.h5") as reader:
        assert_array_equal(reader[0].obs["joints"], joints)
        assert_array_equal(reader[0].obs["camera"], camera)
        assert_array_equal(reader[0].actions, [3, 0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"obs": None},
            "obs of a trajectory are a NoneType: wanted an array, or a dict of arrays, of numbers",
        ),
        (
            {"obs": [{"joints": 1.0}] * 6},
            "obs of a trajectory are a list: wanted an array, or a dict of arrays",
        ),
        ({"obs": {"a": [1] * 6, "b": [1] * 5}}, r"obs of a trajectory are a dict \(a, b differ in length\)"),
        ({"obs": [[1, 2], [1]] * 3}, "obs of a trajectory are a list"),
        ({"actions": np.float32(3)}, "actions of a trajectory are a float32: wanted an array of numbers"),
        ({"actions": ["left"] * 5}, "actions of a trajectory are a list: wanted an array of numbers"),
        ({"terminated": "no"}, "terminated of a trajectory must be True or False, got 'no'"),
    ],
)
def test_what_is_no_trajectory_is_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        trajectory(5, **changes)


def test_a_closed_reader_says_that_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    with DemoWriter(path, INFO) as writer:
        writer.append(trajectory(2))
        live = writer.reader()
    with DemoReader(path) as reader:
        pieces = reader.pieces(0)
    rng = np.random.default_rng(0)
    for read in (
        lambda: reader[0],
        lambda: next(pieces),
        lambda: next(reader.batches(2, rng)),
        reader.transitions,
        reader.tasks,
        reader.refresh,
        lambda: live[0],
    ):
        with pytest.raises(InputError, match=r"demos.h5 is closed: open it again with DemoReader\('"):
            read()
    with pytest.raises(InputError, match=r"demos.h5 is closed: go on with DemoWriter.resume"):
        writer.reader()
    assert reader.paths == [path]


def test_nan_is_refused() -> None:
    with pytest.raises(InputError, match="NaN"):
        trajectory(5, rewards=np.float32([0, 0, np.nan, 0, 0]))


def test_describe(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    envs = counting_envs(2)
    with DemoWriter(path, info_of(envs, expert="mine", expert_return=3.5)) as writer:
        for one in episodes(Cycling(), envs, [0, 2]):  # 1 and 3 steps; returns 0 and 3.9
            writer.append(one)
    told = json.loads(json.dumps(describe(path)))
    assert (told["episodes"], told["steps"], told["terminated"], told["truncated"]) == (2, 4, 2, 0)
    assert told["lengths"] == {"mean": 2, "std": 1, "min": 1, "max": 3}
    assert told["returns"]["max"] == pytest.approx(3.9)
    assert (told["expert"], told["expert_return"], told["env_id"]) == ("mine", 3.5, "Counting-v0")
    assert told["bytes"] == path.stat().st_size
    assert told["action_space"] == {"type": "Discrete", "n": 5, "start": 0}


def test_every_dataset_says_what_it_holds(tmp_path: Path) -> None:
    with DemoWriter(tmp_path / "a.h5", INFO, expert_actions=True) as writer:
        writer.append(trajectory(3))
    with h5py.File(tmp_path / "a.h5") as file:
        said = {name: dataset.attrs["description"] for name, dataset in file.items()}
        assert {dataset.attrs["compression"] for dataset in file.values()} == {"none"}
    assert said.keys() == {"obs", "actions", "rewards", "expert_actions", "episodes"}
    assert "T + 1 rows" in said["obs"]
    assert "free of noise" in said["expert_actions"]


def test_frames_are_compressed_and_the_file_says_how(tmp_path: Path) -> None:
    info = DemoInfo("Frames-v0", spaces.Box(0, 255, (8, 8), np.uint8), spaces.Discrete(2))
    frames = np.zeros((3, 8, 8), np.uint8)
    with DemoWriter(tmp_path / "a.h5", info) as writer:
        writer.append(Trajectory(frames, np.zeros(2, np.int64), np.ones(2, np.float32), False, True))
    with h5py.File(tmp_path / "a.h5") as file:
        obs = file["obs"]
        assert (obs.attrs["compression"], obs.compression, obs.compression_opts) == ("gzip 1", "gzip", 1)
        assert file["actions"].attrs["compression"] == "none"


def test_older_libraries_can_read_what_a_newer_one_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDF5 2.0 writes in its own format unless it is held to an older one."""
    bounds = []

    class Noted(h5py.File):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            if self.mode == "r+":
                bounds.append(self.libver)

    monkeypatch.setattr(h5py, "File", Noted)
    with DemoWriter(tmp_path / "a.h5", INFO) as writer:
        writer.append(trajectory())
    assert set(bounds) == {("v110", "v110")}
