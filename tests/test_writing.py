"""What a killed or failing writer leaves behind, and what the next one makes of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imitate.files import atomic_folder, sweep
from imitate.improvement.snapshots import hand_over


def killed_in(folder: Path) -> None:
    """Leave what a process leaves that is killed in `atomic_folder`."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    temporary.mkdir()
    (temporary / "half").write_text("x")


def test_a_half_written_folder_is_swept(tmp_path: Path) -> None:
    (tmp_path / ".file.1.partial").write_text("x")
    killed_in(tmp_path / "policy")
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_process_with_the_number_of_a_killed_one_writes_its_folder(tmp_path: Path) -> None:
    killed_in(tmp_path / "policy")
    with atomic_folder(tmp_path / "policy") as temporary:
        (temporary / "whole").write_text("x")
    assert [path.name for path in (tmp_path / "policy").iterdir()] == ["whole"]


def test_a_policy_stays_until_the_next_one_is_whole(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_text(name)
    hand_over(tmp_path / "first", tmp_path / "policy")
    with pytest.raises(FileNotFoundError):
        hand_over(tmp_path / "missing", tmp_path / "policy")
    assert (tmp_path / "policy" / "weights").read_text() == "first"
    hand_over(tmp_path / "second", tmp_path / "policy")
    assert (tmp_path / "policy" / "weights").read_text() == "second"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "policy", "second"]
