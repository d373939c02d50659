"""CSV as loggers and spreadsheets leave it: blank lines, other separators, and mistakes named by their place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from imitate.cli import main
from imitate.datasets import DemoReader
from imitate.datasets.convert import convert
from imitate.datasets.convert.sources import in_our_format
from imitate.errors import InputError

HEADER = "run,x,y,u\n"
LINES = ["0,1.0,2.0,0.5", "0,1.5,2.5,0.25", "1,3.0,4.0,0.0", "1,3.5,4.5,0.75"]
COLUMNS = ["obs=x,y", "action=u", "episode=run"]


def converted(tmp_path: Path, text: str) -> DemoReader:
    (tmp_path / "log.csv").write_text(text)
    convert(tmp_path / "log.csv", tmp_path / "demos.h5", env_id="Nowhere-v0", columns=COLUMNS)
    return DemoReader(tmp_path / "demos.h5")


def refusal(tmp_path: Path, lines: list[str]) -> str:
    with pytest.raises(InputError) as error:
        converted(tmp_path, HEADER + "\n".join(lines) + "\n")
    return str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "\n".join(LINES) + "\n\n",
        HEADER + "\n" + "\n".join(LINES) + "\n,,,\n",
        (HEADER + "\n".join(LINES)).replace(",", ";"),
        (HEADER + "\n".join(LINES)).replace(",", "\t"),
        "\n\n" + (HEADER + "\n".join(LINES)).replace(",", ";"),
    ],
)
def test_blank_lines_and_other_separators_are_read(tmp_path: Path, text: str) -> None:
    with converted(tmp_path, text) as reader:
        assert [episode.obs.tolist() for episode in reader] == [
            [[1.0, 2.0], [1.5, 2.5]],
            [[3.0, 4.0], [3.5, 4.5]],
        ]


def test_blanks_before_whole_numbers_leave_the_actions_discrete(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("obs_0,action,terminated\n1, 0, 0\n2, +1, 1\n")
    convert(tmp_path / "log.csv", tmp_path / "demos.h5", env_id="Nowhere-v0")
    with DemoReader(tmp_path / "demos.h5") as reader:
        assert reader.info.action_space == spaces.Discrete(2)
        assert reader[0].actions.tolist() == [0, 1]


@pytest.mark.parametrize("text", ["err", "nan", "", "inf", "1,5"])
def test_what_is_no_number_is_named_by_line_and_column(tmp_path: Path, text: str) -> None:
    said = refusal(tmp_path, [*LINES[:3], "", f'1,3.5,"{text}",0.75'])
    assert f"line 6, column 'y': '{text}' is no finite number; correct it, or drop the episode" in said


def test_seeds_that_pandas_wrote_back_are_read(tmp_path: Path) -> None:
    lines = ["0,7.0,0.5,1", "0,7.0,0.25,1", "1,,0.5,1", "1,,0.25,1"]
    (tmp_path / "log.csv").write_text("episode,seed,obs_0,action\n" + "\n".join(lines) + "\n")
    convert(tmp_path / "log.csv", tmp_path / "demos.h5", env_id="Nowhere-v0")
    with DemoReader(tmp_path / "demos.h5") as reader:
        assert reader.table["seed"].tolist() == [7, -1]


def test_a_line_of_another_length_is_named(tmp_path: Path) -> None:
    assert "line 3 has 3 fields, the first has 4" in refusal(tmp_path, [LINES[0], "0,1.5,2.5", LINES[2]])


def test_an_episode_that_comes_again_is_named_by_its_line(tmp_path: Path) -> None:
    """Lines of several robots in turn, or logs that were joined: each piece would be an episode."""
    said = refusal(tmp_path, [*LINES, "0,1.0,2.0,0.5", "0,1.5,2.5,0.25"])
    assert (
        "episode '0' comes again in line 6, after another one: sort the lines by episode, or give each"
        in said
    )
    assert not (tmp_path / "demos.h5").exists()


def test_flags_before_the_last_line_of_an_episode_may_be_any_text(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "episode,obs_0,action_0,terminated\n0,1,0.5,NA\n0,2,0.5,1\n0,3,,\n1,3,0.5,NA\n1,4,0.5,true\n1,5,,\n"
    )
    convert(path, tmp_path / "log.h5", env_id="Nowhere-v0")
    with DemoReader(tmp_path / "log.h5") as demos:
        assert [(len(each), each.terminated) for each in demos] == [(2, True), (2, True)]


@pytest.mark.parametrize("unset", ["", "nan", "NaN", "0.0", "False"])
def test_a_flag_that_is_unknown_is_not_set(tmp_path: Path, unset: str) -> None:
    lines = [f"1.0,1,{unset}", f"2.0,0,{unset}", "3.0,1,1", f"4.0,0,{unset}", f"5.0,1,{unset}"]
    (tmp_path / "log.csv").write_text("\n".join(["obs_0,action,terminated", *lines]))
    convert(tmp_path / "log.csv", tmp_path / "demos.h5", env_id="Nowhere-v0")
    with DemoReader(tmp_path / "demos.h5") as reader:
        assert [(len(one), one.terminated) for one in reader] == [(3, True), (1, False)]


@pytest.mark.parametrize("rows", [2, 1_500])
def test_whole_numbers_keep_all_digits(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A float has 53 bits, and a clock in nanoseconds 61. The longer episode is read in two parts."""
    monkeypatch.setattr("imitate.datasets.convert.csv_files._FIELDS", 3_000)
    seen = [[9007199254740993 + 2 * row, -row] for row in range(rows + 1)]
    lines = [f"{time},{row},{last}" for (time, row), last in zip(seen, [*["1"] * rows, ""], strict=True)]
    (tmp_path / "log.csv").write_text("\n".join(["obs_0,obs_1,action", *lines]))
    convert(tmp_path / "log.csv", tmp_path / "demos.h5", env_id="Nowhere-v0")
    with DemoReader(tmp_path / "demos.h5") as reader:
        assert reader.info.observation_space.dtype == np.int64
        assert reader[0].obs.tolist() == seen


def test_large_whole_numbers_are_rounded_only_if_they_must_and_that_is_said(tmp_path: Path) -> None:
    for name, number, noted in (("a", 16777217, True), ("b", 16777218, False)):
        (tmp_path / f"{name}.csv").write_text(f"obs_0,action,reward\n0.5,1,{number}\n0.5,,\n")
        notes = convert(tmp_path / f"{name}.csv", tmp_path / f"{name}.h5", env_id="Nowhere-v0").notes
        assert ("rewards are rounded to float32" in notes) == noted
    np.savez(tmp_path / "c.npz", obs=np.full((2, 4), 2**53 + 1), actions=np.zeros(1, int), lengths=[1])
    notes = convert(tmp_path / "c.npz", tmp_path / "c.h5", env_id="CartPole-v1").notes
    assert "observations are rounded to float32" in notes


def test_a_flag_in_the_middle_of_an_episode_is_noted(tmp_path: Path) -> None:
    log = "episode,obs_0,action_0,terminated,truncated\n"
    for name, rows, noted in (
        ("middle", "0,1,0.5,0,0\n0,2,0.5,1,0\n0,3,0.5,0,1\n0,4,,,\n", True),
        ("end", "0,1,0.5,0,0\n0,2,0.5,0,0\n0,3,0.5,0,1\n0,4,,,\n", False),
    ):
        (tmp_path / f"{name}.csv").write_text(log + rows)
        out = tmp_path / f"{name}.h5"
        notes = convert(tmp_path / f"{name}.csv", out, env_id="Nowhere-v0").notes
        assert any("a flag in the middle of an episode is left out" in note for note in notes) == noted
        with DemoReader(out) as reader:
            assert [(len(each), each.terminated, each.truncated) for each in reader] == [(3, False, True)]


def test_an_environment_that_is_not_installed_is_noted(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(HEADER + "\n".join(LINES))
    notes = convert(tmp_path / "log.csv", tmp_path / "a.h5", env_id="Nowhere-v0", columns=COLUMNS).notes
    assert any(
        note.startswith("Nowhere-v0 is not installed here (MODULE:Nowhere-v0 would name one of yours)")
        for note in notes
    )


@pytest.mark.parametrize(
    ("env_id", "said"),
    [
        ("own_rig:OwnRig-v9", "own_rig registers no environment 'OwnRig-v9'; did you mean 'OwnRig-v0'?"),
        (
            "no_rig:OwnRig-v0",
            "module 'no_rig' of 'no_rig:OwnRig-v0' can't be imported: No module named 'no_rig'",
        ),
    ],
)
def test_a_module_that_lacks_the_environment_is_no_guess(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    env_id: str,
    said: str,
) -> None:
    """A name without a module may be of a robot; one with a module that isn't there is a typing error."""
    monkeypatch.chdir(tmp_path)
    Path("own_rig.py").write_text(
        "import gymnasium\ngymnasium.register('OwnRig-v0', entry_point='gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    Path("log.csv").write_text(HEADER + "\n".join(LINES))
    assert main(["data", "convert", "log.csv", "demos.h5", "--env", env_id, "--columns", *COLUMNS]) == 2
    assert capsys.readouterr().err == f"imitate: {said}\n"
    assert not Path("demos.h5").exists()


def test_an_action_far_from_all_others_is_named(tmp_path: Path) -> None:
    lines = [*LINES, "1,3.5,4.5,-80", LINES[2]]  # of an episode's last line there is no successor
    (tmp_path / "log.csv").write_text(HEADER + "\n".join(lines))
    notes = convert(tmp_path / "log.csv", tmp_path / "a.h5", env_id="Nowhere-v0", columns=COLUMNS).notes
    assert notes[-1].startswith(
        "action_0 is -80 in step 2 of episode 1, the next value is 0: the action space"
    )
    installed = "Pendulum-v1"  # whose action space says what is far
    lines = [f"0,{n / 8},0,0,{n / 8}" for n in range(8)] + ["0,0,0,0,-2"]
    (tmp_path / "log.csv").write_text("episode,obs_0,obs_1,obs_2,action_0\n" + "\n".join(lines))
    notes = convert(tmp_path / "log.csv", tmp_path / "b.h5", env_id=installed).notes
    assert not any("action_0" in note for note in notes)


def test_actions_that_differ_in_size_are_not_far(tmp_path: Path) -> None:
    """A gripper that closes once, and values that spread."""
    lines = [f"0,0,0,{2.0**n}" for n in range(4)] + ["1,0,0,9", "1,0,0,9"]
    for name, each in (("spread", lines), ("once", ["0,0,0,0.0", "0,0,0,0.0", "0,0,0,0.0", "0,0,0,1.0"])):
        (tmp_path / f"{name}.csv").write_text(HEADER + "\n".join(each))
        notes = convert(
            tmp_path / f"{name}.csv", tmp_path / f"{name}.h5", env_id="Nowhere-v0", columns=COLUMNS
        ).notes
        assert not any("action_0" in note for note in notes)


def test_notes_are_said_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    caplog.set_level("INFO")
    (tmp_path / "log.csv").write_text("obs_0,action_0,left,done\n1,0.5,0,0\n2,0.25,0,1\n")
    said = []
    for _ in range(2):
        in_our_format(str(tmp_path / "log.csv"), "Nowhere-v0")
        said.append(list(caplog.messages))
        caplog.clear()
    assert "  column 'left' is left out" in said[0]
    assert said[1] == said[0]


def test_a_column_that_is_there_twice_is_named(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("obs_0,obs_0,action_0\n1,2,3\n")
    with pytest.raises(InputError, match="it has two columns 'obs_0': rename one of them"):
        convert(tmp_path / "log.csv", tmp_path / "demos.h5", env_id="Nowhere-v0")


def test_arrays_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    obs, actions = np.zeros((6, 2)), np.zeros((4, 1))
    np.savez(tmp_path / "no_ends.npz", obs=obs, actions=actions)
    np.savez(tmp_path / "objects.npz", obs=np.array([obs, None], object), actions=actions)
    whole = (tmp_path / "no_ends.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    for name, said in (
        (
            "no_ends",
            "6 obs for 4 actions in 1 episodes: nothing says where episodes end, so add an array 'lengths'",
        ),
        ("objects", "obs.npy holds Python objects, which are never unpickled: wanted one array of numbers"),
        ("cut", "cut.npz is no .npz, or was cut short: restore it or make it again"),
    ):
        with pytest.raises(InputError) as error:
            convert(tmp_path / f"{name}.npz", tmp_path / "demos.h5", env_id="Nowhere-v0")
        assert said in str(error.value)
        assert "\n" not in str(error.value)


def test_a_folder_of_logs_is_read_as_one(tmp_path: Path) -> None:
    """Episodes are numbered anew in each file, and the spaces are as wide as all of them."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "b.csv").write_text(HEADER + "\n".join([*LINES[2:], "2,0.0,0.0,-0.75", "2,0.0,0.0,-0.75"]))
    (logs / "a.csv").write_text(HEADER + "\n".join(LINES))
    done = convert(logs, tmp_path / "demos.h5", env_id="Nowhere-v0", columns=COLUMNS)
    assert (done.source_format, done.episodes) == ("csv", 4)
    with DemoReader(tmp_path / "demos.h5") as reader:
        assert [episode.obs[0].tolist() for episode in reader] == [[1, 2], [3, 4], [3, 4], [0, 0]]
        # The last step of each is dropped, 0.75 with it.
        assert reader.info.action_space == spaces.Box(-0.75, 0.5, (1,), np.float64)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("run,x,z,u\n0,1,2,0.5\n", "b.csv has other columns than a.csv: give all the same"),
        (HEADER + "0,1,2\n", "b.csv: line 2 has 3 fields, the first has 4"),
        (HEADER + "0,1,2,0.5\n0,1,?,0.5", "b.csv: episode '0': line 3, column 'y'"),
        ("", "b.csv has other columns than a.csv"),
    ],
)
def test_the_log_with_a_mistake_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.csv").write_text(HEADER + "\n".join(LINES))
    (tmp_path / "b.csv").write_text(text)
    with pytest.raises(InputError) as error:
        convert(tmp_path, tmp_path / "demos.h5", env_id="Nowhere-v0", columns=COLUMNS)
    assert said in str(error.value)


def test_a_foreign_file_may_be_called_h5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with converted(tmp_path, HEADER + "\n".join(LINES)):
        pass
    convert(tmp_path / "demos.h5", tmp_path / "foreign.h5", format="d4rl")
    ours = in_our_format(str(tmp_path / "foreign.h5"), "Nowhere-v0")
    assert ours != str(tmp_path / "foreign.h5")
    with DemoReader(ours) as reader:
        assert len(reader) == 2
    assert in_our_format(str(tmp_path / "demos.h5"), "Nowhere-v0") == str(tmp_path / "demos.h5")
    (tmp_path / "damaged.h5").write_bytes(b"no HDF5")
    assert in_our_format(str(tmp_path / "damaged.h5"), "Nowhere-v0") == str(tmp_path / "damaged.h5")


def test_a_log_that_was_changed_is_converted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size is the same, and so is its name. Another environment has a copy of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    log = tmp_path / "log.csv"
    log.write_text("obs_0,action_0,done\n1,0.5,0\n2,0.25,1\n")
    copies = [in_our_format(str(log), "Nowhere-v0")]
    log.write_text("obs_0,action_0,done\n7,0.5,0\n8,0.25,1\n")
    os.utime(log, ns=(0, 1))
    copies += [in_our_format(str(log), env_id) for env_id in ("Nowhere-v0", "Elsewhere-v0")]
    copies.append(in_our_format(str(log), "Nowhere-v0", {"size": 3}))
    found = []
    for copy in copies:
        with DemoReader(copy) as reader:
            found.append((reader.info.env_id, dict(reader.info.env_kwargs), reader[0].obs[0, 0]))
    assert found == [
        ("Nowhere-v0", {}, 1),
        ("Nowhere-v0", {}, 7),
        ("Elsewhere-v0", {}, 7),
        ("Nowhere-v0", {"size": 3}, 7),
    ]


def test_runs_that_begin_together_read_one_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one's conversion ends first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "log.csv").write_text("x")
    refused: list[Path] = []

    def late(_: Path, copy: Path, **__: Any) -> None:
        if refused:
            copy.write_text("the other one's", "utf-8")
        refused.append(copy)
        raise InputError(f"{copy} exists already: choose another name")

    monkeypatch.setattr("imitate.datasets.convert.sources.convert", late)
    with pytest.raises(InputError, match="exists already"):  # not there: the error is its own
        in_our_format(str(tmp_path / "log.csv"), "Nowhere-v0")
    assert in_our_format(str(tmp_path / "log.csv"), "Nowhere-v0") == str(refused[0])


def test_a_blank_in_the_name_of_a_column_is_seen(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("t, pos\n1,2\n")
    with pytest.raises(InputError, match=r"no column 'pos'; did you mean ' pos'\?; it has 't', ' pos'$"):
        convert(
            tmp_path / "log.csv", tmp_path / "demos.h5", env_id="Nowhere-v0", columns=["obs=pos", "action=t"]
        )
    with pytest.raises(InputError, match="it has columns 't', ' pos'; wanted obs_0"):
        convert(tmp_path / "log.csv", tmp_path / "demos.h5", env_id="Nowhere-v0")


@pytest.mark.parametrize(("encoding", "byte"), [("utf-16", "0xff"), ("latin-1", "0xf6")])
def test_another_encoding_is_named(tmp_path: Path, encoding: str, byte: str) -> None:
    log = tmp_path / "log.csv"
    log.write_bytes("obs_0,action_0,höhe\n1,0.5,2\n".encode(encoding))
    with pytest.raises(InputError) as error:
        convert(log, tmp_path / "demos.h5", env_id="Nowhere-v0")
    assert str(error.value) == f"{log}: it isn't UTF-8 text (byte {byte} doesn't fit): save it as UTF-8"


def test_rounding_is_noted_only_if_a_number_changes(tmp_path: Path) -> None:
    """0.1 is no float32, but it is the text of one."""
    notes = {}
    for name, number in {"same": "0.1", "other": "0.10000000001"}.items():
        (tmp_path / f"{name}.csv").write_text(
            f"obs_0,action_0,reward\n{number},{number},{number}\n{number},,\n"
        )
        out = tmp_path / f"{name}.h5"
        notes[name] = convert(tmp_path / f"{name}.csv", out, env_id="ContinuousIdentity-v0").notes
        with DemoReader(out) as demos:
            assert demos[0].obs.tolist() == [[np.float32(0.1)]] * 2
    rounded = [f"{what} are rounded to float32" for what in ("observations", "actions", "rewards")]
    assert [note for note in notes["other"] if "rounded" in note] == rounded
    assert not any("rounded" in note for note in notes["same"])


def test_an_output_below_a_file_is_not_blamed_on_the_source(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(HEADER + "\n".join(LINES))
    (tmp_path / "file").write_text("a file")
    out = tmp_path / "file" / "demos.h5"
    with pytest.raises(InputError, match=f"^{out} can't be written: {out.parent} is a file, not a folder"):
        convert(tmp_path / "log.csv", out, env_id="Nowhere-v0", columns=COLUMNS)


@pytest.mark.parametrize(
    ("episode", "column", "text", "said"),
    [
        ("0", "seed", "x", "no whole number that fits 64 bits"),
        ("0", "seed", str(2**63), "no whole number that fits 64 bits"),
        ("0", "action", "10000000000000000000000", "no whole number that fits 64 bits"),
        ("0", "action", "--1", "no whole number that fits 64 bits"),
        ("0", "terminated", "yes", "no flag; wanted true, false, 1 or 0"),
        ("", "terminated", "yes", "no flag; wanted true, false, 1 or 0"),
    ],
)
def test_a_field_that_does_not_fit_its_column_is_named(
    tmp_path: Path, episode: str, column: str, text: str, said: str
) -> None:
    """Without a column of episodes, flags are read while lines are told apart."""
    fields = {"obs_0": "0.5", "action": "1", "terminated": "1", "seed": "7"} | {column: text}
    fields |= {"episode": episode} if episode else {}
    (tmp_path / "log.csv").write_text(f"{','.join(fields)}\n{','.join(fields.values())}\n")
    with pytest.raises(InputError) as error:
        convert(tmp_path / "log.csv", tmp_path / "demos.h5", env_id="Nowhere-v0")
    assert f"line 2, column '{column}': '{text}' is {said}; correct it, or drop the episode" in str(
        error.value
    )
