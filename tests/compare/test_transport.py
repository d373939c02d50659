"""Files on their way between machines: nothing lands outside, and whatever interrupts leaves a usable folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imitate.compare.backends import Task
from imitate.compare.backends.transport import files_at, receive, write, written
from imitate.errors import InputError


def task(root: Path, **fields: Any) -> Task:
    return Task("job", lambda root, progress: None, root=root, **fields)  # noqa: ARG005


def content(text: str) -> Any:
    return np.frombuffer(text.encode(), np.uint8)


def test_a_folder_arrives_as_it_was(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "run" / "policy").mkdir(parents=True)
    (there / "run" / "policy" / "weights").write_bytes(bytes(range(256)))
    (there / "run" / "empty").touch()
    (there / "run" / ".lock").touch()
    (there / "other").write_text("not the task's")
    (here / "run").mkdir(parents=True)
    (here / "run" / "checkpoint").write_text("of an earlier try")
    (here / "other").write_text("mine")
    job = task(here, writes=(Path("run"),))
    receive(job, written(job, there), whole=True)
    assert {name: path.read_bytes() for name, path in files_at(here, (Path(),))} == {
        "run/policy/weights": bytes(range(256)),
        "run/empty": b"",
        "other": b"mine",
    }


def test_what_was_written_last_is_sent_last_and_a_checkpoint_after_that(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for when, name in enumerate(("checkpoint", "metrics", "finished", "result")):
        (tmp_path / "run" / name).touch()
        os.utime(tmp_path / "run" / name, (when, when))
    job = task(tmp_path, writes=(Path("run"),), checkpoint=Path("run/checkpoint"))
    assert list(written(job, tmp_path)) == ["run/metrics", "run/finished", "run/result", "run/checkpoint"]


def test_on_the_way_only_what_is_new_is_sent_and_nothing_removed(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "run").mkdir(parents=True)
    (there / "run" / "snapshots" / "01").mkdir(parents=True)
    (there / "run" / "snapshots" / "01" / "policy").write_text("removed when the task has ended")
    (there / "run" / "old").write_text("old")
    (there / "run" / "log").write_text("1")
    os.utime(there / "run" / "log", (1, 1))
    job, known = task(here, writes=(Path("run"),)), dict[str, int]()
    receive(job, written(job, there, known), whole=False)
    (there / "run" / "log").write_text("12")
    (there / "run" / "old").unlink()
    shutil.rmtree(there / "run" / "snapshots")
    new = written(job, there, known)
    assert list(new) == ["run/log"]
    receive(job, new, whole=False)
    assert written(job, there, known) == {}
    assert (here / "run" / "log").read_text("utf-8") == "12"
    assert (here / "run" / "old").exists()
    receive(job, written(job, there), whole=True)
    assert [path.name for path in (here / "run").iterdir()] == ["log"]


@pytest.mark.parametrize("name", ["run/../../evil", "/evil", "../evil", "", "elsewhere/evil", "run2/evil"])
def test_files_from_elsewhere_are_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    with pytest.raises(InputError, match="not kept") as error:
        receive(
            task(root, writes=(Path("run"),)),
            {"run/good": content("good"), name: content("evil")},
            whole=True,
        )
    assert "\n" not in str(error.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil"])
def test_a_worker_writes_in_its_folder_only(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="not below a task's folder"):
        write(tmp_path / "root", name, content("evil"))
    assert list(tmp_path.iterdir()) == []
