"""The ends of episodes are the same after a conversion and back, if they are stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from converting import UNIT, recording, write

from imitate.datasets import DemoReader
from imitate.datasets.convert import FORMATS, convert
from imitate.errors import InputError

ENDS = [(True, False), (False, True), (True, True)]


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("imitate", "d4rl")])
def test_an_episode_may_terminate_at_its_time_limit(name: str, tmp_path: Path) -> None:
    """D4RL's readers take an episode for one or the other."""
    played = [
        replace(each, terminated=terminated, truncated=truncated)
        for each, (terminated, truncated) in zip(recording(UNIT, lengths=(2, 3, 2)), ENDS, strict=True)
    ]
    write(tmp_path / "a.h5", UNIT, played)
    out = tmp_path / ("b" if FORMATS[name].folder else {"npz": "b.npz", "csv": "b.csv"}.get(name, "b.hdf5"))
    convert(tmp_path / "a.h5", out, format=name)
    convert(out, tmp_path / "c.h5", env_id=UNIT.env_id)
    with DemoReader(tmp_path / "c.h5") as demos:
        assert [(bool(row["terminated"]), bool(row["truncated"])) for row in demos.table] == ENDS


def test_an_episode_of_one_step_without_what_followed_is_left_out_and_noted(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("episode,obs_0,action\n0,1,0\n1,2,0\n1,3,1\n")
    done = convert(tmp_path / "log.csv", tmp_path / "demos.h5", env_id="Nowhere-v0")
    assert done.episodes == 1
    assert "an episode with a single observation is left out" in done.notes
    (tmp_path / "one.csv").write_text("episode,obs_0,action\n0,1,0\n1,2,0\n")
    for env_id in ("Nowhere-v0", "CartPole-v1"):
        with pytest.raises(InputError, match="no episodes, or only ones of a single observation: then store"):
            convert(tmp_path / "one.csv", tmp_path / "none.h5", env_id=env_id)
    (tmp_path / "one.csv").write_text("episode,obs_0,action,terminated\n0,1,0,1\n1,2,0,1\n")
    assert convert(tmp_path / "one.csv", tmp_path / "one.h5", env_id="Nowhere-v0").episodes == 2


@pytest.mark.parametrize(
    ("terminated", "truncated", "kept"),
    [
        (1, 0, (3, True, False)),
        (1, 1, (3, True, False)),
        (0, 1, (2, False, True)),
    ],
)
def test_an_episode_without_a_final_observation_has_one_end(
    terminated: int, truncated: int, kept: tuple[int, bool, bool], tmp_path: Path
) -> None:
    """The observation that is repeated after a termination is not the true one, so nobody may bootstrap from it."""
    lines = ["obs_0,action,terminated,truncated", "1,0,0,0", "2,1,0,0", f"3,0,{terminated},{truncated}"]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    convert(tmp_path / "log.csv", tmp_path / "demos.h5", env_id="Nowhere-v0")
    with DemoReader(tmp_path / "demos.h5") as demos:
        (episode,) = demos
    assert (len(episode), episode.terminated, episode.truncated) == kept
    assert episode.obs.ravel().tolist() == [1, 2, 3, 3][: kept[0] + 1]


def test_either_flag_begins_another_episode(tmp_path: Path) -> None:
    """Three episodes without a column of their numbers, each with its final observation in a line without an action."""
    lines = [
        "obs_0,action,terminated,truncated",
        "1,0,0,1",
        "2,,,",
        "3,1,1,0",
        "4,,,",
        "5,0,0,0",
        "6,1,1,1",
        "7,,,",
    ]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    convert(tmp_path / "log.csv", tmp_path / "demos.h5", env_id="Nowhere-v0")
    with DemoReader(tmp_path / "demos.h5") as demos:
        assert [each.obs.ravel().tolist() for each in demos] == [[1, 2], [3, 4], [5, 6, 7]]
        assert [(each.terminated, each.truncated) for each in demos] == [
            *((False, True), (True, False), (True, True))
        ]
