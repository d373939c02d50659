"""Shards of a recording: together they are what one file would be."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

from imitate.cli import main
from imitate.datasets import DemoReader
from imitate.envs.seeds import episode_seeds

COLLECT = ["collect", "CartPole-v1:ppo", "--num-envs", "2", "--seed", "3"]


def assert_equal_episodes(one: Path, other: Path) -> None:
    """The same episodes, by their seeds, to the byte."""
    with DemoReader(one) as ours, DemoReader(other) as theirs:
        assert sorted(ours.table["seed"]) == sorted(theirs.table["seed"])
        place = {int(seed): n for n, seed in enumerate(theirs.table["seed"])}
        for trajectory in ours:
            twin = theirs[place[trajectory.info["seed"]]]
            for name in ("obs", "actions", "rewards"):
                assert_array_equal(getattr(trajectory, name), getattr(twin, name))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("whole") / "demos.h5"
    assert main([*COLLECT, "--episodes", "7", "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("shards") / "demos"
    assert main([*COLLECT, "--episodes", "7", "--shards", "3", "--workers", "2", "--out", str(folder)]) == 0
    return folder


def test_shards_are_read_as_the_one_recording(whole: Path, sharded: Path) -> None:
    names = sorted(path.name for path in sharded.iterdir())
    assert names == [f"{n:05}-of-00003.h5" for n in range(3)]
    assert_equal_episodes(sharded, whole)
    seeds = list(itertools.islice(episode_seeds(3), 7))
    with DemoReader(sharded / names[1]) as reader:
        assert sorted(reader.table["seed"]) == sorted([seeds[1], seeds[4]])
    with DemoReader(sharded) as ours, DemoReader(whole) as theirs:
        assert replace(ours.info, command="") == replace(theirs.info, command="")


def test_what_is_missing_is_recorded(whole: Path, sharded: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(sharded, tmp_path / "demos")
    (folder / "00001-of-00003.h5").unlink()
    kept = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    arguments = [*COLLECT, "--shards", "3", "--workers", "1", "--out", str(folder), "--resume"]
    assert main([*arguments, "--episodes", "7"]) == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert_equal_episodes(folder, whole)


def test_steps_are_shared_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["collect", "random", "--env", "CartPole-v1", "--num-envs", "1", "--steps", "200"]
    assert (
        main([*arguments, "--shards", "2", "--workers", "1", "--out", str(tmp_path / "demos"), "--json"]) == 0
    )
    assert 200 <= json.loads(capsys.readouterr().out)["steps"] < 300
    with DemoReader(tmp_path / "demos" / "00000-of-00002.h5") as reader:
        assert 100 <= reader.num_steps < 200
        first = next(episode_seeds(0))
        assert reader.table["seed"][0] == first
        actions = reader[0].actions
    with DemoReader(tmp_path / "demos" / "00001-of-00002.h5") as reader:
        other = reader[0].actions
        shorter = min(len(actions), len(other))
        assert (actions[:shorter] != other[:shorter]).any()  # samples of their own


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shards", "8"], "--shards must be at most the number of episodes, 7, got 8"),
        (["--shards", "0"], "--shards must be in [1, 10000], got 0"),
        (["--workers", "2"], "say how many with --shards"),
        (["--shards", "2", "--workers", "0"], "--workers must be at least 1, got 0"),
        (["--shards", "2", "--address", "here:1"], "--address is for clusters: add --backend ray"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main([*COLLECT, "--episodes", "7", *arguments, "--out", str(tmp_path / "demos")]) == 2
    # One line alone: the expert is not measured before.
    (said,) = capsys.readouterr().err.splitlines()
    assert message in said
    assert not (tmp_path / "demos").exists()


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        ([], "is a folder, wanted a file: say --shards to go on with shards, or choose another --out"),
        (
            ["--shards", "3"],
            "is a file, wanted a folder of shards: leave --shards out, or choose another --out",
        ),
    ],
)
def test_a_file_is_not_resumed_as_shards_nor_shards_as_a_file(
    whole: Path, sharded: Path, capsys: pytest.CaptureFixture[str], shards: list[str], message: str
) -> None:
    out = whole if shards else sharded
    before = sorted(out.parent.rglob("*"))
    assert main([*COLLECT, "--episodes", "9", *shards, "--resume", "--out", str(out)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said == f"imitate: {out} {message}"
    assert sorted(out.parent.rglob("*")) == before


def test_shards_of_another_recording_are_refused(sharded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in sharded.iterdir()}
    arguments = ["--out", str(sharded), "--resume", "--workers", "1"]
    assert main([*COLLECT, "--episodes", "7", "--shards", "2", *arguments]) == 2
    assert "none of 2 shards" in capsys.readouterr().err
    other = [
        "collect",
        "CartPole-v1:ppo",
        "--num-envs",
        "2",
        "--seed",
        "4",
        "--episodes",
        "7",
        "--shards",
        "3",
    ]
    assert main([*other, *arguments]) == 2
    assert "has seed 3, not 4" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in sharded.iterdir()} == before
