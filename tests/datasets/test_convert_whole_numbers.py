"""Whole-number actions of an environment that is not installed: their space is guessed from the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converting import write
from gymnasium import spaces

from imitate import BC, BCConfig, load_policy
from imitate.cli import main
from imitate.datasets import DemoInfo, DemoReader, InputError, Trajectory
from imitate.datasets.convert import convert

HEADER = "episode,obs_0,obs_1,action,reward,terminated,truncated\n"
OBS = np.array([[0, 0], [0.5, 1], [1, 1], [9, 1]])


def log(path: Path, actions: list[Any]) -> Path:
    rows = [f"0,{n / 2},1.0,{action},1,0,0\n" for n, action in enumerate(actions)]
    path.write_text(HEADER + "".join(rows) + "0,9.0,1.0,,,,\n")
    return path


@pytest.mark.parametrize(
    ("actions", "space"),
    [
        ([-1, 1, -1], spaces.Discrete(3, start=-1)),
        ([-3, -1, -2], spaces.Discrete(3, start=-3)),
        ([-(2**63), 1 - 2**63], spaces.Discrete(2, start=-(2**63))),
        ([1, 2, 1], spaces.Discrete(3)),
    ],
)
def test_the_space_begins_at_the_lowest_negative_action(
    tmp_path: Path, actions: list[int], space: spaces.Discrete
) -> None:
    log(tmp_path / "log.csv", actions)
    np.savez(
        tmp_path / "log.npz", obs=np.zeros((len(actions) + 1, 2)), actions=actions, lengths=[len(actions)]
    )
    for source in ("log.csv", "log.npz"):
        out = tmp_path / f"{source}.h5"
        convert(tmp_path / source, out, env_id="Nowhere-v0")
        with DemoReader(out) as reader:
            assert reader.info.action_space == space
            assert reader[0].actions.tolist() == actions


def test_several_whole_numbers_have_a_space_for_each(tmp_path: Path) -> None:
    actions = np.array([[0, -2], [2, 0], [1, 3]])
    np.savez(tmp_path / "log.npz", obs=np.zeros((4, 2)), actions=actions, lengths=[3])
    convert(tmp_path / "log.npz", tmp_path / "demos.h5", env_id="Nowhere-v0")
    with DemoReader(tmp_path / "demos.h5") as reader:
        assert reader.info.action_space == spaces.MultiDiscrete([3, 6], start=[0, -2])
        assert reader[0].actions.tolist() == actions.tolist()
        learner = BC(BCConfig(hidden=(4,), max_updates=1), demos=reader, seed=0)
        while not learner.done:
            learner.step()
        assert learner.policy.action_space.contains(learner.policy.act(np.zeros((1, 2)))[0])
    np.savez(tmp_path / "many.npz", obs=np.zeros((3, 2)), actions=[[0, 1 << 21], [1 << 21, 0]], lengths=[2])
    with pytest.raises(InputError, match="0 to 2097152, but a discrete space has at most 4194304"):
        convert(tmp_path / "many.npz", tmp_path / "many.h5", env_id="Nowhere-v0")


def test_labels_widen_the_space_too(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("obs_0,action,expert_action,terminated\n0.5,0,-2,0\n0.5,1,0,1\n")
    convert(tmp_path / "log.csv", tmp_path / "demos.h5", env_id="Nowhere-v0")
    with DemoReader(tmp_path / "demos.h5") as reader:
        assert reader.info.action_space == spaces.Discrete(4, start=-2)


@pytest.mark.parametrize("name", ["demos.csv", "demos.npz"])
def test_an_export_with_negative_actions_comes_back(tmp_path: Path, name: str) -> None:
    info = DemoInfo("Nowhere-v0", spaces.Box(-9.0, 9.0, (2,), np.float64), spaces.Discrete(3, start=-1))
    actions = np.array([-1, 0, 1])
    write(tmp_path / "a.h5", info, [Trajectory(OBS, actions, np.ones(3, np.float32), True, False)])
    convert(tmp_path / "a.h5", tmp_path / name)
    convert(tmp_path / name, tmp_path / "b.h5", env_id="Nowhere-v0")
    with DemoReader(tmp_path / "b.h5") as reader:
        assert reader.info.action_space == info.action_space
        assert reader[0].actions.tolist() == [-1, 0, 1]


def test_bc_learns_negative_actions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    log(Path("log.csv"), [-1, 1, -1])
    learn = ["train", "bc", "--env", "MyRobot-v0", "--demos", "log.csv", "--max-updates", "2", "--out", "run"]
    assert main(learn) == 0
    policy = load_policy("run")
    assert policy.action_space == spaces.Discrete(3, start=-1)
    assert set(policy.act(OBS.astype(np.float32)).tolist()) <= {-1, 0, 1}


@pytest.mark.parametrize("actions", [[-1, 10**9], [0, 10**9], [0, 2**63 - 1], [-(2**63), 2**63 - 1]])
def test_too_many_actions_for_a_discrete_space_are_refused(tmp_path: Path, actions: list[int]) -> None:
    """Before, 10**9 made a file that could not be read."""
    with pytest.raises(InputError) as error:
        convert(log(tmp_path / "log.csv", actions), tmp_path / "demos.h5", env_id="Nowhere-v0")
    said = f"actions are whole numbers from {actions[0]} to {actions[1]}, but a discrete space has at most 4194304:"
    assert said in str(error.value)
    assert not (tmp_path / "demos.h5").exists()
