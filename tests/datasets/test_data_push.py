"""`imitate data push`, and `--demos hub:` of what it pushed."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from converting import UNIT, recording, same, write
from hub_server import READER, WRITER, Hub, serving
from huggingface_hub import DatasetCard

from imitate.cli import main
from imitate.datasets.convert import convert
from imitate.datasets.convert.sources import in_our_format
from imitate.datasets.edit import split
from imitate.datasets.evaluation import Evaluation
from imitate.export.cards import data_card

CARTPOLE, REPO = "CartPole-v1", "datasets/org/demos"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tmp_path, monkeypatch) as hub:
        monkeypatch.setenv("HF_TOKEN", WRITER)
        yield hub


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("recorded") / "mine.h5"
    assert main(["collect", CARTPOLE, "--episodes", "2", "--out", str(out)]) == 0
    return out


@pytest.fixture
def demos(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(recorded, tmp_path))


def test_it_is_read_back_and_replaced(
    hub: Hub, demos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.put(REPO, {"demos.npz": b"of an older push", "notes.txt": b"of the owner"})
    capsys.readouterr()
    assert main(["data", "push", str(demos), "org/demos", "--license", "mit"]) == 0
    spec = capsys.readouterr().out.strip()
    assert hub.files(REPO).keys() == {"demos.h5", "README.md", "notes.txt"}
    assert hub.files(REPO)["demos.h5"] == demos.read_bytes()
    (tmp_path / "README.md").write_bytes(hub.files(REPO)["README.md"])
    card = DatasetCard.load(tmp_path / "README.md")
    assert card.data.license == "mit"
    for said in ("| episodes | 2 (0", "| steps | 1000 |", "| mean return | 500.00, 95 % interval 500.00",
                 "| expert | `CartPole-v1` |", "| labels | the actions that were taken |",
                 "| format | imitate |", "torch"):  # fmt: skip
        assert said in card.text, said
    same(demos, Path(in_our_format(spec, CARTPOLE)))

    (tmp_path / "shards").mkdir()
    split(demos, tmp_path / "shards" / "a.h5", tmp_path / "shards" / "b.h5", holdout=0.5)
    assert main(["data", "push", str(tmp_path / "shards"), "org/demos"]) == 0
    assert hub.files(REPO).keys() == {"a.h5", "b.h5", "README.md", "notes.txt"}
    assert convert(in_our_format("hub:org/demos", CARTPOLE), tmp_path / "all.npz").episodes == 2
    same(demos, Path(in_our_format(spec, CARTPOLE)))  # the commit of before


def test_the_numbers_of_a_card_by_hand() -> None:
    """Returns 1 and 3: a standard error of 1, times Student's 12.71 with one degree of freedom."""
    facts = {
        "env_id": CARTPOLE, "env_kwargs": {}, "episodes": 2, "terminated": 0, "truncated": 2, "steps": 9,
        "returns": {"min": 1.0, "max": 3.0}, "expert": "", "expert_actions": True, "has_actions": True,
        "versions": {"imitate-rl": "0", "torch": "2"},
    }  # fmt: skip
    result = Evaluation(np.array([1.0, 3.0]), np.array([4, 5]))
    card = data_card(facts, result, commands=["first", "second"], format="csv", license=None)
    for said in (
        "| episodes | 2 (0 terminated, 2 truncated) |",
        "| mean return | 2.00, 95 % interval -10.71 to 14.71 |",
        "| returns | 1.00 to 3.00, standard deviation 1.00 |",
        "| expert | unknown |",
        "| labels | an expert's actions beside those that were taken |",
        "| versions | imitate-rl 0, torch 2 |",
        "| licence | none was given: ask the author |",
        "first\nsecond\n",
    ):
        assert said in card


def test_the_card_of_one_episode_claims_no_interval(hub: Hub, tmp_path: Path) -> None:
    one = str(tmp_path / "one.h5")
    assert main(["collect", CARTPOLE, "--episodes", "1", "--out", one]) == 0
    assert main(["data", "push", one, "org/demos"]) == 0
    card = hub.files(REPO)["README.md"].decode()
    assert "| mean return | 500.00 |\n| returns | 500.00 to 500.00 |\n" in card


def test_commands_on_the_card_quote_a_name_that_a_file_gives(hub: Hub, tmp_path: Path) -> None:
    one = str(tmp_path / "one.h5")
    assert main(["collect", CARTPOLE, "--episodes", "1", "--out", one]) == 0
    with h5py.File(one, "a") as file:
        file.attrs["env_id"] = "Pole-v1; touch here\n# and there"
    assert main(["data", "push", one, "org/demos"]) == 0
    card = hub.files(REPO)["README.md"].decode()
    assert "--env 'Pole-v1; touch here # and there' --demos hub:org/demos" in card
    assert "demos.h5 --env 'Pole-v1; touch here # and there'\n" in card


def test_commands_on_the_card_make_the_environment_as_it_was_recorded(hub: Hub, tmp_path: Path) -> None:
    one, options = str(tmp_path / "one.h5"), ["--episodes", "1", "--env-kwargs", '{"max_episode_steps": 9}']
    assert main(["collect", "random", "--env", CARTPOLE, *options, "--out", one]) == 0
    assert main(["data", "push", one, "org/demos"]) == 0
    made = f"--env {CARTPOLE} --env-kwargs '{{\"max_episode_steps\": 9}}'"
    card = hub.files(REPO)["README.md"].decode()
    assert f'| environment | `{CARTPOLE}` with `{{"max_episode_steps": 9}}` |' in card
    assert f"imitate train bc {made} --demos hub:org/demos --out runs/bc\n" in card
    assert f"imitate data convert hub:org/demos demos.h5 {made}\n" in card


def test_the_card_of_observations_alone_says_so_and_names_a_learner_that_takes_them(
    hub: Hub, tmp_path: Path
) -> None:
    for env_id, command in (("Pendulum-v1", "imitate train gaifo --env Pendulum-v1"), (CARTPOLE, None)):
        path = str(tmp_path / f"{env_id}.h5")
        words = ["collect", "random", "--env", env_id, "--episodes", "1", "--no-actions", "--out", path]
        assert main(words) == 0
        assert main(["data", "push", path, "org/demos"]) == 0
        card = hub.files(REPO)["README.md"].decode()
        assert command in card if command else "imitate train" not in card
        assert "| labels | none: the actions were not recorded |" in card


@pytest.mark.parametrize("format", ["lerobot", "csv"])
def test_other_formats(format: str, hub: Hub, demos: Path) -> None:
    pytest.importorskip("pyarrow")
    assert main(["data", "push", str(demos), "org/demos", "--format", format]) == 0
    assert "demos.h5" not in hub.files(REPO)
    assert b"| format | " + format.encode() in hub.files(REPO)["README.md"]
    assert convert(in_our_format("hub:org/demos", CARTPOLE), demos.with_name("b.npz")).steps == 1_000


@pytest.mark.usefixtures("hub")
def test_a_pattern_of_several_files_is_for_our_format(
    demos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(demos, demos.with_name("other.h5"))
    pattern = str(demos.with_name("*.h5"))
    assert main(["data", "push", pattern, "org/demos", "--format", "npz"]) == 2
    assert "names 2 files: `imitate data merge`" in capsys.readouterr().err
    assert main(["data", "push", pattern.replace("*", "m*"), "org/demos", "--format", "npz"]) == 0


@pytest.mark.parametrize(
    "repo",
    [
        "demos",
        "a/b/c",
        "org/my demos",
        "hub:org/demos",
        "org/demos@main",
        "org/demos.git",
        "org/démos",
        "org/",
    ],
)
def test_a_bad_name_and_a_missing_token_are_refused_before_the_network(
    repo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def network(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", network)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    path = write(tmp_path / "a.h5", UNIT, recording(UNIT))
    assert main(["data", "push", str(path), repo]) == 2
    error = capsys.readouterr().err
    assert f"{repo!r} is no name on the hub: wanted ORG/REPO" in error
    assert error.count("\n") == 1
    assert main(["data", "push", str(path), "me/x"]) == 2
    assert "no token" in capsys.readouterr().err
    assert main(["data", "push", str(tmp_path / "no.h5"), "me/x"]) == 2
    assert "no file of demonstrations at" in capsys.readouterr().err


@pytest.mark.usefixtures("hub")
def test_data_info_reads_what_was_pushed(demos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "push", str(demos), "org/demos"]) == 0
    assert main(["data", "info", "hub:org/demos"]) == 0
    assert f"env_id             {CARTPOLE}" in capsys.readouterr().out
    for command in (["validate"], ["replay"], ["plot", "--out", str(demos.with_name("a.png"))]):
        assert main(["data", command[0], "hub:org/demos", *command[1:]]) == 0


def test_failures_are_one_line(
    hub: Hub, demos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.put(REPO, {"demos.h5": b"as it was"})
    convert(demos, demos.with_suffix(".npz"))
    monkeypatch.setenv("HF_TOKEN", READER)
    for source, said in ((demos, "(403)"), (demos.with_suffix(".npz"), "`imitate data convert"),
                         (demos.with_name("no.h5"), "no file of demonstrations")):  # fmt: skip
        capsys.readouterr()
        assert main(["data", "push", str(source), "org/demos"]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    monkeypatch.delenv("HF_TOKEN")
    assert main(["data", "push", str(demos), "org/demos"]) == 2
    assert "no token" in capsys.readouterr().err
    assert [*hub.files(REPO)] == ["demos.h5"]
