"""Names in files are printed as text, never as control sequences of a terminal."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import h5py
import pytest
from recordings import INFO, trajectory
from tqdm import tqdm

from imitate.cli import main
from imitate.compare.execute.watch import Screen
from imitate.datasets import DemoWriter
from imitate.terminal import plain_output, printable

TITLE = "\x1b]0;owned\x07"  # sets the window's title


def test_controls_become_escapes() -> None:
    assert printable(f"a{TITLE}b\x9b2J\u202e") == r"a\x1b]0;owned\x07b\x9b2J\u202e"
    assert printable("a\tb\nc,d\r\né") == "a\tb\nc,d\r\né"
    assert printable("over\rwritten") == r"over\rwritten"


def test_names_in_a_file_and_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"{TITLE}.h5"
    with DemoWriter(path, INFO) as writer:
        writer.append(trajectory())
    with h5py.File(path, "r+") as file:
        file.attrs["expert"] = f"an {TITLE} expert"
    assert main(["data", "info", str(path)]) == 0
    out = capsys.readouterr().out
    assert r"an \x1b]0;owned\x07 expert" in out
    assert main(["data", "info", str(tmp_path / f"absent{TITLE}.h5")]) == 2
    said = capsys.readouterr().err
    assert r"absent\x1b]0;owned\x07.h5" in said
    assert "\x1b" not in out + said


def test_control_characters_in_a_column_name_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "demos.csv").write_text(f"episode,{TITLE},action,reward\n0,1,0,1\n0,2,1,1\n")
    assert (
        main(
            ["data", "convert", str(tmp_path / "demos.csv"), str(tmp_path / "out.h5"), "--env", "CartPole-v1"]
        )
        == 2
    )
    said = capsys.readouterr().err
    assert r"\x1b]0;owned\x07" in said
    assert "\x1b" not in said


def test_help_escapes_the_settings_of_a_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # on one line
    config = tmp_path / "config.toml"
    config.write_text('algorithm = "bc"\nenv_id = "CartPole-v1"\ndemos = "\\u001b[2J"\n')
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--config", str(config), "--help"])
    said = capsys.readouterr().out
    assert r"\x1b[2J" in said
    assert "\x1b[2J" not in said


def test_a_text_of_cursor_movements_alone_is_escaped_too(capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is called `\\x1b[2J` would clear the screen."""
    with plain_output():
        print("\x1b[2J")
        print("\r\n\x1b[3A")
    assert capsys.readouterr().out == "\\x1b[2J\n\r\n\\x1b[3A\n"


def test_progress_bars_and_tables_still_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    with plain_output():
        screen = Screen(sys.stderr)
        screen.live = True
        for _ in tqdm(range(2), file=sys.stderr, desc="inner"):
            screen.show([])
    said = capsys.readouterr().err
    assert "\rinner" in said
    assert "\x1b[2F\x1b[J" in said
    assert "\\x" not in said


def test_characters_that_the_encoding_lacks_become_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows redirects output to files in cp1252, which has a dash and no minus sign."""
    with io.TextIOWrapper(io.BytesIO(), "cp1252") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with plain_output():
            print("\N{MINUS SIGN}1 \N{EN DASH} 2")
        stream.flush()
        assert stream.buffer.getvalue() == b"\\u22121 \x96 2\n"
