"""Demonstrations of observations alone: recorded, converted, read, and refused by whoever imitates actions."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from gymnasium import spaces
from handwritten import named

from imitate.cli import main
from imitate.datasets.convert import convert
from imitate.datasets.replay import replay
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.spaces import lowest_actions
from imitate.errors import InputError

ENV = "ContinuousIdentity-v0"


def test_the_lowest_actions_by_hand() -> None:
    assert lowest_actions(spaces.Box(-2.0, 1.0, (2,)), 3).tolist() == [[-2.0, -2.0]] * 3
    assert lowest_actions(spaces.Discrete(4, start=5), 2).tolist() == [5, 5]
    assert lowest_actions(spaces.MultiDiscrete([2, 3]), 1).tolist() == [[0, 0]]


def test_a_recording_without_actions_is_otherwise_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "collect Pendulum-v1 --episodes 2 --seed 5"
    assert main([*words.split(), "--out", str(tmp_path / "with.h5")]) == 0
    assert main([*words.split(), "--no-actions", "--out", str(tmp_path / "without.h5")]) == 0
    assert "next      imitate train gaifo" in capsys.readouterr().out.splitlines()[-1]
    with DemoReader(tmp_path / "with.h5") as one, DemoReader(tmp_path / "without.h5") as other:
        assert (one.info.has_actions, other.info.has_actions) == (True, False)
        np.testing.assert_array_equal(one[1].obs, other[1].obs)
        np.testing.assert_array_equal(one[1].rewards, other[1].rewards)
        assert (other[1].actions == -2).all()
        with pytest.raises(InputError, match="unknown: they can't be taken again"):
            next(replay(other))
    capsys.readouterr()
    assert main(["data", "info", str(tmp_path / "without.h5")]) == 0
    assert "only observations" in capsys.readouterr().out


def test_a_recording_of_discrete_actions_names_no_learner_that_would_refuse_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "collect random --env CartPole-v1 --episodes 1 --no-actions"
    assert main([*words.split(), "--out", str(tmp_path / "without.h5")]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert "gaifo" not in said
    assert (
        said
        == "next      no learner here imitates discrete actions from observations alone: leave --no-actions out"
    )
    run = ["--env", "CartPole-v1", "--demos", str(tmp_path / "without.h5"), "--out", str(tmp_path / "run")]
    assert main(["train", "bc", *run]) == 2
    said = capsys.readouterr().err
    assert "holds observations without the actions that bc needs: record them with their actions" in said


def test_older_releases_refuse_such_a_file(tmp_path: Path) -> None:
    """They know no schema but 1."""
    convert(named(tmp_path / "demos.h5", ENV), tmp_path / "without.h5", actions=False)
    with h5py.File(tmp_path / "demos.h5") as one, h5py.File(tmp_path / "without.h5") as other:
        assert (one.attrs["schema_version"], other.attrs["schema_version"]) == (1, 2)


@pytest.mark.parametrize("labelled", [False, True])
def test_there_and_back_again_without_actions(tmp_path: Path, labelled: bool) -> None:
    """Our own .npz says that it has none."""
    convert(named(tmp_path / "demos.h5", ENV), tmp_path / "without.npz", actions=False)
    assert not {"actions", "expert_actions"} & set(np.load(tmp_path / "without.npz"))
    convert(tmp_path / "without.npz", tmp_path / "back.h5", actions=not labelled)
    with DemoReader(tmp_path / "demos.h5") as one, DemoReader(tmp_path / "back.h5") as other:
        assert not other.info.has_actions
        assert len(one) == len(other)
        np.testing.assert_array_equal(one[3].obs, other[3].obs)


@pytest.mark.parametrize(
    "arrays",
    [
        {"obs": np.zeros((22, 1)), "lengths": np.array([10, 10])},
        {"obs": np.zeros((20, 1)), "terminated": np.arange(20) % 10 == 9},
        {"obs": np.zeros((20, 1)), "rewards": np.zeros(20), "lengths": np.array([10, 10]), "dones": np.ones(2, bool)},
        {"obs": np.zeros((21, 1))},
    ],
)  # fmt: skip
def test_anothers_arrays_without_actions_are_read_if_one_says_so(
    tmp_path: Path, arrays: dict[str, np.ndarray]
) -> None:
    np.savez(tmp_path / "states.npz", **arrays)
    with pytest.raises(InputError, match="or say --no-actions if there are none"):
        convert(tmp_path / "states.npz", tmp_path / "demos.h5", env_id=ENV)
    done = convert(tmp_path / "states.npz", tmp_path / "demos.h5", env_id=ENV, actions=False)
    assert done.steps == 20
    with DemoReader(tmp_path / "demos.h5") as demos:
        assert not demos.info.has_actions


def test_a_format_that_needs_actions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="csv holds no demonstrations without actions: use --format npz, imitate"
    ):
        convert(named(tmp_path / "demos.h5", ENV), tmp_path / "demos.csv", actions=False)


@pytest.mark.parametrize("name", ["bc", "dac", "sqil", "iq", "gail"])
def test_who_imitates_actions_names_gaifo_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    demos = tmp_path / "without.h5"
    convert(named(tmp_path / "demos.h5", ENV), demos, actions=False)
    out = ["--out", str(tmp_path / "run")]
    assert main(["train", name, "--env", ENV, "--demos", str(demos), *out]) == 2
    said = capsys.readouterr().err
    assert f"{demos} holds observations without the actions that {name} needs: use gaifo" in said
    assert said.count("\n") == 1


def test_gaifo_trains_from_them_and_is_judged_by_observations(tmp_path: Path) -> None:
    demos = tmp_path / "without.h5"
    convert(named(tmp_path / "demos.h5", ENV, 5), demos, actions=False)
    words = f"train gaifo --env {ENV} --demos {demos} --budget 200 --out {tmp_path / 'run'} --hidden 8"
    words += " --learning-starts 50 --eval-every 100 --eval-episodes 1 --validate-by demos --no-looks"
    words += " --rounds-per-iteration 8"
    assert main(words.split()) == 0
    assert '"distance"' in (tmp_path / "run" / "evaluations.jsonl").read_text("utf-8")


def test_files_with_and_without_actions_are_not_one_data_set(tmp_path: Path) -> None:
    demos = named(tmp_path / "a.h5", ENV)
    convert(demos, tmp_path / "b.h5", actions=False)
    with pytest.raises(InputError, match="has has_actions False"):
        DemoReader([demos, tmp_path / "b.h5"])
