"""Recordings of some of a Dict's observations: the environment gives the same, so that they can be used in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import structured  # noqa: F401  # registers Told-multi-v0
from gymnasium import spaces

from imitate.cli import main
from imitate.datasets import DemoReader
from imitate.datasets.edit import save
from imitate.envs.fields import as_fields
from imitate.envs.make import make_env
from imitate.envs.numbers import indicators
from imitate.envs.selected import Selection
from imitate.errors import InputError

ENV = "structured:Told-multi-v0"


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("some")
    command = ["collect", "structured:make_knower", "--env", ENV, "--episodes", "3"]
    assert main([*command, "--out", str(folder / "all.h5")]) == 0
    convert = ["data", "convert", str(folder / "all.h5"), str(folder / "some.h5")]
    assert main([*convert, "--obs-keys", "noise", "goal"]) == 0
    return folder / "some.h5"


def test_the_environment_gives_the_observations_that_were_taken(some: Path) -> None:
    with DemoReader(some) as reader:
        assert reader.info.env_kwargs == {"obs_keys": ["noise", "goal"]}
        env = make_env(ENV, reader.info.env_kwargs)
        assert env.observation_space == reader.info.observation_space
        obs, _ = env.reset(seed=int(reader.table["seed"][0]))
        assert np.array_equal(obs, reader[0].obs[0])
        assert obs.shape == (7,)  # six of noise, one goal


def test_they_can_be_replayed_and_trained_on(
    some: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "replay", str(some), "--env", ENV]) == 0
    assert "3 episodes are the same again" in capsys.readouterr().out
    command = ["train", "bc", "--env", ENV, "--demos", str(some), "--out", str(tmp_path / "run")]
    assert main([*command, "--budget", "1000"]) == 2
    assert """give --env-kwargs '{"obs_keys": ["noise", "goal"]}'""" in capsys.readouterr().err
    kwargs = ["--env-kwargs", '{"obs_keys": ["noise", "goal"]}']
    assert main([*command, *kwargs, "--budget", "1000", "--max-epochs", "1"]) == 0
    assert main(["evaluate", str(tmp_path / "run"), "--env", ENV, "--episodes", "2"]) == 0


def test_a_recording_of_other_observations_is_not_replayed(
    some: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As files are that were converted by an older version."""
    with DemoReader(some) as reader:
        save(tmp_path / "old.h5", replace(reader.info, env_kwargs={}), list(reader))
    assert main(["data", "replay", str(tmp_path / "old.h5"), "--env", ENV]) == 2
    said = capsys.readouterr().err
    assert "the recording's observation_space is Box(7,) of floats" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["nose"], "no observation 'nose'; there are goal, hand, noise"),
        ([], "obs_keys must be a list of names of observations, got []"),
        ("goal", "obs_keys must be a list of names of observations, got 'goal'"),
        ([3], "no observation 3"),
    ],
)
def test_wrong_keys_are_refused(keys: object, said: str) -> None:
    with pytest.raises(InputError) as error:
        make_env("Told-multi-v0", {"obs_keys": keys})
    assert said in str(error.value)


def test_an_environment_without_keys_refuses_them() -> None:
    with pytest.raises(InputError, match="the observations have no keys"):
        make_env("CartPole-v1", {"obs_keys": ["x"]})


@pytest.mark.parametrize("shape", [(), (0,), (4,), (2, 3)])
def test_whole_numbers_are_one_hot_as_the_rows_of_the_identity(shape: tuple[int, ...]) -> None:
    numbers = np.random.default_rng(0).integers(3, 8, size=shape)
    rows = indicators(numbers, 3, 5, np.int64)
    np.testing.assert_array_equal(rows, np.eye(5)[numbers - 3], strict=False)
    assert (rows.shape, rows.dtype) == ((*shape, 5), np.int64)
    with pytest.raises(IndexError):
        indicators([8], 3, 5, np.int64)


def test_a_state_among_many_is_taken_without_the_square_of_them() -> None:
    space = as_fields(spaces.Dict(state=spaces.Discrete(100_000, start=5)))
    taken = Selection(space, ["state"]).take({"state": np.array([9])}, lambda values, name, _: values[name])
    assert (taken.shape, taken.dtype, taken[0, 4], taken.sum()) == ((1, 100_000), np.int64, 1, 1)
