"""`--demos hub:ORG/DATASET` and `--demos minari:ID` are read without converting by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from converting import same
from hub_server import Hub, serving

from imitate.cli import main
from imitate.datasets.convert import convert
from imitate.datasets.convert.sources import in_our_format, source_path

REPO = "org/demos"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tmp_path, monkeypatch) as hub:
        yield hub


@pytest.mark.parametrize("format", ["lerobot", "imitation", "minari"])
def test_bc_learns_from_a_data_set_on_the_hub(format: str, hub: Hub, tmp_path: Path) -> None:
    ours = tmp_path / "a.h5"
    assert main(["collect", "CartPole-v1", "--episodes", "2", "--out", str(ours)]) == 0
    convert(ours, tmp_path / "there", format=format)
    there = [file for file in (tmp_path / "there").rglob("*") if file.is_file()]
    files = {file.relative_to(tmp_path / "there").as_posix(): file.read_bytes() for file in there}
    hub.put(f"datasets/{REPO}", files | {"run_me.py": b"raise SystemExit"})
    command = [
        "train",
        "bc",
        "--env",
        "CartPole-v1",
        "--demos",
        f"hub:{REPO}",
        "--max-epochs",
        "1",
        "--device",
        "cpu",
    ]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    assert not (source_path(f"hub:{REPO}") / "run_me.py").exists()
    same(ours, Path(in_our_format(f"hub:{REPO}", "CartPole-v1")))
    assert len(list((tmp_path / "cache" / "imitate" / "demos").glob("*.h5"))) == 1  # converted once


def test_what_the_hub_lacks_is_one_line(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.put(f"datasets/{REPO}", {"README.md": b"nothing here"})
    for name, said in ((REPO, "files of known kinds"), ("org/nothing", "can't be fetched")):
        command = ["train", "bc", "--env", "CartPole-v1", "--demos", f"hub:{name}", "--out", "nowhere"]
        assert main(command) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1


def test_a_minari_data_set_that_is_not_there_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    command = [
        "train",
        "bc",
        "--env",
        "CartPole-v1",
        "--demos",
        "minari:D4RL/door/human-v2",
        "--out",
        "nowhere",
    ]
    assert main(command) == 2
    assert "`minari download D4RL/door/human-v2` fetches it" in capsys.readouterr().err
