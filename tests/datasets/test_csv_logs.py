"""CSV as loggers and spreadsheets leave it: blank lines, other separators, and mistakes that are named by their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from imitate.datasets import DemoReader
from imitate.datasets.convert import convert
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
