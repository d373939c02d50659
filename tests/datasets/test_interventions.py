"""A person corrects a policy, and only the person's steps are recorded: `imitate collect human --intervene`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import h5py
import pytest

from imitate.cli import main
from imitate.datasets import DemoReader, episode_seeds
from imitate.media.window import Window


def test_interventions_are_recorded_and_can_be_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    presses: Any = iter([set(), {"left"}, {"right"}] + [set()] * 57 + [{"escape"}])
    monkeypatch.setattr(Window, "down", lambda _: next(presses))
    hand, machine, both = (str(tmp_path / name) for name in ("hand.h5", "machine.h5", "both.h5"))
    short = ["--env-kwargs", '{"max_episode_steps": 60}']
    command = ["collect", "human", "--env", "CartPole-v1", "--intervene", "CartPole-v1", "--fps", "100000"]
    assert main([*command, *short, "--out", hand]) == 0
    with DemoReader(hand) as reader:
        assert (len(reader), reader[0].actions.tolist(), reader.info.seed) == (1, [0, 1], None)
        assert "--intervene CartPole-v1" in reader.info.command
    assert main(["collect", "CartPole-v1", "--episodes", "1", *short, "--out", machine]) == 0
    assert main(["data", "concat", machine, hand, "--out", both]) == 0
    with DemoReader(both) as reader:
        assert reader.lengths.tolist() == [60, 2]


def test_resuming_begins_after_the_last_episode_with_an_intervention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person leaves the first episode of four steps alone, and acts in the others."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    presses: Any = iter([set()] * 4 + [{"left"}] * 4 + [{"escape"}] + [{"left"}] * 4)
    monkeypatch.setattr(Window, "down", lambda _: next(presses))
    out = tmp_path / "hand.h5"
    command = ["collect", "human", "--env", "CartPole-v1", "--intervene", "CartPole-v1", "--episodes", "3"]
    command += ["--fps", "100000", "--env-kwargs", '{"max_episode_steps": 4}', "--out", str(out)]
    assert main(command) == 0
    assert main([*command, "--resume"]) == 0
    with DemoReader(out) as reader:
        assert reader.table["seed"].tolist() == list(islice(episode_seeds(0), 1, 3))


INTERVENE = ["collect", "human", "--env", "CartPole-v1", "--intervene", "CartPole-v1", "--fps", "100000"]
SHORT = ["--env-kwargs", '{"max_episode_steps": 4}', "--episodes", "4"]


def played(out: Path, monkeypatch: pytest.MonkeyPatch, *frames: str) -> list[int]:
    """Play with these keys in episodes of four steps, resuming the file if it exists; returns its seeds."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    presses: Any = iter([{key} if key else set() for frame in frames for key in frame.split(",")])
    monkeypatch.setattr(Window, "down", lambda _: next(presses))
    assert main([*INTERVENE, *SHORT, "--out", str(out), *(["--resume"] if out.exists() else [])]) == 0
    with DemoReader(out) as reader:
        return [int(seed) for seed in reader.table["seed"]]


@pytest.mark.parametrize("before", [False, True])
def test_parts_that_begin_later_than_their_episode_have_no_seed_but_are_resumed(
    before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person acts in the first step of the first episode, and in the last two of the second. Recordings from
    `before` have the seed of the episode in each of its parts."""
    out, seeds = tmp_path / "hand.h5", list(islice(episode_seeds(0), 4))
    had = played(out, monkeypatch, "left,,,", ",,left,left", "escape")
    assert had == [seeds[0], ~seeds[1]]
    if before:
        with h5py.File(out, "a") as file:
            table = file["episodes"][:]
            table["seed"] = had = seeds[:2]
            file["episodes"][:] = table
    assert played(out, monkeypatch, "left,,,left", ",,,left") == [*had, seeds[2], ~seeds[2], ~seeds[3]]


def test_an_intervention_is_replayed_from_its_seed_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first part was cut where its episode goes on, which is no difference of the environment."""
    out = tmp_path / "hand.h5"
    played(out, monkeypatch, "left,left,,left", "escape")
    for command in (["replay", str(out)], ["video", str(out), "--episodes", "1", "--out", str(out) + ".mp4"]):
        capsys.readouterr()
        assert main(["data", *command]) == 2
        assert "episode 1 has no seed, so its beginning is not known" in capsys.readouterr().err
    assert main(["data", "replay", str(out), "--episodes", "1"]) == 0
