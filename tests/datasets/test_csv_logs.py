"""CSV as loggers and spreadsheets leave it: blank lines, other separators, and mistakes named by their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
    ],
)
def test_blank_lines_and_other_separators_are_read(tmp_path: Path, text: str) -> None:
    with converted(tmp_path, text) as reader:
        assert [episode.obs.tolist() for episode in reader] == [
            [[1.0, 2.0], [1.5, 2.5]],
            [[3.0, 4.0], [3.5, 4.5]],
        ]


@pytest.mark.parametrize("text", ["err", "nan", "", "inf", "1,5"])
def test_what_is_no_number_is_named_by_line_and_column(tmp_path: Path, text: str) -> None:
    said = refusal(tmp_path, [*LINES[:3], "", f'1,3.5,"{text}",0.75'])
    assert f"line 6, column 'y': '{text}' is no finite number; correct it, or drop the episode" in said


def test_a_line_of_another_length_is_named(tmp_path: Path) -> None:
    assert "line 3 has 3 fields, the first has 4" in refusal(tmp_path, [LINES[0], "0,1.5,2.5", LINES[2]])


def test_an_environment_that_is_not_installed_is_noted(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(HEADER + "\n".join(LINES))
    notes = convert(tmp_path / "log.csv", tmp_path / "a.h5", env_id="Nowhere-v0", columns=COLUMNS).notes
    assert any(
        note.startswith("Nowhere-v0 is not installed here (MODULE:Nowhere-v0 would name one of yours)")
        for note in notes
    )


def test_a_folder_of_logs_says_how(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.csv").write_text(HEADER)
    with pytest.raises(InputError, match="convert each one, and join the results with `imitate data merge`"):
        convert(tmp_path / "logs", tmp_path / "demos.h5", env_id="Nowhere-v0")


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


def test_runs_that_begin_together_read_one_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one's conversion ends first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "log.csv").write_text("x")
    refused: list[Path] = []

    def late(_: Path, copy: Path, **__: Any) -> None:
        if refused:
            copy.parent.mkdir(parents=True)
            copy.write_text("the other one's")
        refused.append(copy)
        raise InputError(f"{copy} exists already: choose another name")

    monkeypatch.setattr("imitate.datasets.convert.sources.convert", late)
    with pytest.raises(InputError, match="exists already"):  # not there: the error is its own
        in_our_format(str(tmp_path / "log.csv"), "Nowhere-v0")
    assert in_our_format(str(tmp_path / "log.csv"), "Nowhere-v0") == str(refused[0])
