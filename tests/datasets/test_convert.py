"""Conversion between the formats of imitation learning, in both directions, and training from what was converted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from conftest import Identity
from converting import DISCRETE, NUMBER, PICTURES, SINGLE, STACKS, UNIT, d4rl, minari, recording, same, write
from gymnasium import spaces

from imitate.cli import main
from imitate.datasets import DemoInfo, DemoReader, InputError
from imitate.datasets.convert import FORMATS, convert, format_of
from imitate.imitators.bc import BC, BCConfig

KINDS = {
    "unit": UNIT,
    "single": SINGLE,
    "number": NUMBER,
    "discrete": DISCRETE,
    "pictures": PICTURES,
    "stacks": STACKS,
}
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
    out = tmp_path / ("b" if FORMATS[name].folder else "b.npz" if name == "npz" else "b.hdf5")
    there = convert(source, out, format=name)
    assert (there.episodes, there.steps) == (3, 12)
    assert format_of(out) == name.removesuffix("-arrow")
    convert(out, tmp_path / "c.h5")
    same(source, tmp_path / "c.h5")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", out.name, "c.h5"]


def test_many_short_episodes_fit_in_a_small_npz(tmp_path: Path) -> None:
    """Deflate packs equal numbers into a hundredth. Ours has 16 bytes or more for each episode, however many."""
    count = 1_200
    rows = {"obs": np.zeros(2 * count, int), "actions": np.zeros(count, int), "lengths": np.ones(count, int)}
    np.savez_compressed(tmp_path / "a.npz", **rows)  # type: ignore[arg-type]
    convert(tmp_path / "a.npz", tmp_path / "b.h5", env_id="Nowhere-v0")
    convert(tmp_path / "b.h5", tmp_path / "c.npz")
    assert (tmp_path / "c.npz").stat().st_size > 16 * count
    assert convert(tmp_path / "c.npz", tmp_path / "d.h5", dry_run=True).episodes == count


def test_a_csv_keeps_all_numbers_but_not_where_they_come_from(tmp_path: Path) -> None:
    played = recording(DISCRETE, labelled=True)
    source = write(tmp_path / "a.h5", DISCRETE, played)
    lost = convert(source, tmp_path / "b.csv").notes
    assert lost == ["the environment, the expert and its return are not in a CSV"]
    lines = (tmp_path / "b.csv").read_text("utf-8").splitlines()
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


class Level(Identity):
    """Its observation is a number, not a vector of one."""

    def __init__(self) -> None:
        super().__init__(continuous=True)
        self.observation_space = NUMBER.observation_space
        self.action_space = NUMBER.action_space


@pytest.mark.parametrize("name", ["csv", "npz"])
def test_a_column_is_single_numbers_if_the_environment_says_so(name: str, tmp_path: Path) -> None:
    gym.register("Level-v0", entry_point=Level)
    played = recording(NUMBER)
    try:
        write(tmp_path / "a.h5", NUMBER, played)
        if name == "csv":
            convert(tmp_path / "a.h5", tmp_path / "b.csv")
        else:  # as others write it
            whole = {
                what: np.concatenate([getattr(each, what) for each in played]) for what in ("obs", "actions")
            }
            np.savez(tmp_path / "b.npz", obs=whole["obs"][:, None], acts=whole["actions"], lengths=[4, 1, 7])
        convert(tmp_path / f"b.{name}", tmp_path / "c.h5", env_id="Level-v0")
    finally:
        del gym.registry["Level-v0"]
    with DemoReader(tmp_path / "c.h5") as reader:
        assert reader.info.observation_space == NUMBER.observation_space
        for was, now in zip(played, reader, strict=True):
            assert (now.obs == was.obs).all()


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


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_dry_run_refuses_what_the_conversion_refuses(dry_run: bool, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", obs=np.zeros((3, 4)), actions=np.array([0, 5]), lengths=np.array([2]))
    with pytest.raises(
        InputError, match=r"actions leave the space Discrete\(2\), as 5 in step 1 .*: correct"
    ):
        convert(tmp_path / "a.npz", tmp_path / "b.h5", env_id="CartPole-v1", dry_run=dry_run)


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
    config = json.loads((tmp_path / "theirs" / "config.json").read_text("utf-8"))
    assert config["demos"] == "minari:test/cartpole-v0"


def test_a_cache_that_can_t_be_made_is_one_line_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a home folder that is read-only."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    minari(tmp_path / "a")
    command = ["train", "bc", "--env", "CartPole-v1", "--demos", str(tmp_path / "a")]
    assert main([*command, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0
    assert "set XDG_CACHE_HOME to a folder of yours" in said


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
