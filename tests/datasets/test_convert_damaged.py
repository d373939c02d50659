"""Damaged and hostile data sets of other formats: refused in one line, with nothing written."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from bombs import BOMBS
from converting import DISCRETE, PICTURES, UNIT, recording, write
from forked import run
from structured import Knower
from test_structured_demos import record

from imitate.cli import main
from imitate.datasets import InputError
from imitate.datasets.convert import FORMATS, convert

pytestmark = pytest.mark.forks

WORK = "from convert_attacks import begin; begin()"
FEW, MANY = 1, 300
TWISTS = 60
LIGHT = ["large-map", "many-episodes", "all-ends", "empty-rows"]
"""Bombs that are made in no time."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small data set of every format, and one of pictures or a Dict where these are stored in another way."""
    folder = tmp_path_factory.mktemp("good")
    (folder / "good").mkdir()
    for info, kind in ((UNIT, "unit"), (PICTURES, "pictures")):
        source = write(folder / f"{kind}.h5", info, recording(info, labelled=info is UNIT))
        for name, format in FORMATS.items():
            if name != "imitate" and (info is UNIT or name in ("minari-arrow", "lerobot")):
                suffix = "" if format.folder else {"npz": ".npz", "csv": ".csv"}.get(name, ".hdf5")
                convert(source, folder / "good" / f"{name}-{kind}{suffix}", format=name)
    record(folder / "fields.h5", "ToldByPicture-v0", Knower(), 2).close()
    for name in ("minari", "minari-arrow"):
        convert(folder / "fields.h5", folder / "good" / f"{name}-fields", format=name)
    return folder


def attack(folder: Path, *arguments: str) -> Counter[str]:
    """Outcomes of the hostile data sets, each of which is read or refused in one line, with nothing left or run."""
    done = run(WORK, str(folder), *arguments)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, lines[-1:]
    outcomes = [line.split(" ", 2)[2] for line in lines if not line.endswith("begins")]
    bad = [line for line in lines if not line.endswith(("begins", " read", " refused"))]
    assert not bad, "\n".join(bad)
    return Counter(outcomes)


def test_mutants_are_read_or_refused(good: Path) -> None:
    counts = attack(good, "bytes+twists", "0", str(FEW))
    assert sum(counts.values()) == 2 * FEW * len(list((good / "good").iterdir()))
    assert counts["refused"] > 3 * FEW


def test_what_claims_gigabytes_is_refused(tmp_path: Path) -> None:
    assert attack(tmp_path, "bombs", *LIGHT) == {"refused": len(LIGHT)}


@pytest.mark.attack
@pytest.mark.timeout(7200)
def test_a_campaign_of_mutants(good: Path) -> None:
    print(attack(good, "bytes", "1", str(MANY)))


@pytest.mark.attack
@pytest.mark.timeout(7200)
def test_a_campaign_of_twists(good: Path) -> None:
    counts = attack(good, "twists", "1", str(TWISTS))
    print(counts)
    assert sum(counts.values()) >= 600


@pytest.mark.attack
@pytest.mark.timeout(1800)
def test_all_bombs(tmp_path: Path) -> None:
    counts = attack(tmp_path, "bombs", *BOMBS)
    print(counts)
    assert sum(counts.values()) == len(BOMBS)


def changed(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    data = json.loads(path.read_text("utf-8"))
    change(data)
    path.write_text(json.dumps(data), "utf-8")


def array_of(path: Path, **arrays: Any) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, header in arrays.items():
            text = f"{header}".ljust(117) + "\n"
            archive.writestr(
                f"{name}.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
            )


def many_members(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        for number in range(5_000):
            archive.writestr(f"{number:0200}", b"")


def linked(path: Path, link: Any) -> None:
    with h5py.File(path, "a") as file:
        del file["actions"]
        file["actions"] = link


def twice(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file["infos/again"] = file["infos"]


def of_infos(path: Path) -> None:
    """A dataset in the place of the group, whose million rows take 2 kB."""
    with h5py.File(path, "a") as file:
        del file["infos"]
        file.create_dataset(
            "infos", (1 << 20,), np.uint8, chunks=(1 << 20,), compression=9, data=np.zeros(1 << 20)
        )


def jagged(path: Path) -> None:
    path.write_text("episode,obs_0,action\n0,1.0,1\n0,2.0\n", "utf-8")


HUGE = "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776, 4), }"
LARGE = "{'descr': '<f8', 'fortran_order': False, 'shape': (16777216, 64), }"
BELOW = "{'descr': '|u1', 'fortran_order': False, 'shape': (4, -1), }"
OBJECTS = "{'descr': '|O', 'fortran_order': False, 'shape': (4,), }"
HOSTILE: dict[str, tuple[str, str, Callable[[Path], Any], str]] = {
    "a column that is elsewhere": (
        "d4rl",
        "",
        lambda p: linked(p, h5py.ExternalLink("/etc/passwd", "/")),
        "link",
    ),
    "a column that is another": ("d4rl", "", lambda p: linked(p, h5py.SoftLink("/rewards")), "link"),
    "a group in itself": ("d4rl", "", twice, "two names"),
    "fewer actions": ("d4rl", "", lambda p: linked(p, np.zeros((3, 2), np.float32)), "3 rows"),
    "text for actions": ("d4rl", "", lambda p: linked(p, ["a"] * 12), "rows of numbers"),
    "rows in the place of infos": ("d4rl", "", of_infos, "no group /infos"),
    "pickles": ("npz", "", lambda p: array_of(p, obs=OBJECTS, actions=OBJECTS), "holds Python objects"),
    "2**40 rows": ("npz", "", lambda p: array_of(p, obs=HUGE, actions=HUGE), "claims 1099511627776 rows"),
    "a negative size": (
        "npz",
        "",
        lambda p: array_of(p, obs=BELOW, actions=BELOW.replace("-1", "2")),
        "claims the shape (4, -1)",
    ),
    "8 GB that are not there": (
        "npz",
        "",
        lambda p: array_of(p, obs=LARGE, actions=LARGE),
        "claims 8589934592 bytes and has 128",
    ),
    "an archive without its beginning": (
        "npz",
        "",
        lambda p: p.write_bytes(p.read_bytes()[40:]),
        "can't be read",
    ),
    "5,000 members of long names": (
        "npz",
        "",
        many_members,
        "its list of members is larger than 1048576 bytes",
    ),
    "a line that is too short": ("csv", "", jagged, "2 fields"),
    "a data file outside": (
        "imitation",
        "state.json",
        lambda p: changed(p, lambda d: d["_data_files"][0].update(filename="../secret.arrow")),
        "not in its folder",
    ),
    "a template that leads elsewhere": (
        "lerobot",
        "meta/info.json",
        lambda p: changed(p, lambda d: d.update(data_path="/etc/{chunk_index.__class__}")),
        "its data_path",
    ),
    "another version": (
        "lerobot",
        "meta/info.json",
        lambda p: changed(p, lambda d: d.update(codebase_version="v2.1")),
        "wanted v3.0",
    ),
    "2**40 episodes": (
        "minari",
        "data/metadata.json",
        lambda p: changed(p, lambda d: d.update(total_episodes=2**40)),
        "no group /episode_3",
    ),
    "a space of 2**60 numbers": (
        "minari",
        "data/metadata.json",
        lambda p: changed(
            p, lambda d: d.update(observation_space='{"type": "Box", "shape": [1152921504606846976]}')
        ),
        "not the description of a space",
    ),
    "deep JSON": ("minari", "data/metadata.json", lambda p: p.write_text("[" * 100_000), "can't be read"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_data_are_refused_in_one_line(
    name: str, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    format, inside, change, said = HOSTILE[name]
    (source,) = (good / "good").glob(f"{format}-unit*")
    bad = tmp_path / f"bad{source.suffix}"
    (shutil.copytree if source.is_dir() else shutil.copy)(source, bad)
    change(bad / inside if inside else bad)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert main(["data", "convert", str(bad), str(tmp_path / "out.h5"), "--env", "Unit-v0"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_an_extra_that_is_missing_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "a.h5", DISCRETE, recording(DISCRETE))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r'pip install .*"\.\[formats\]"'):
        convert(source, tmp_path / "b", format="imitation")
    assert os.listdir(tmp_path) == ["a.h5"]  # noqa: PTH208


def test_a_minari_id_leads_nowhere_else(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("minari:../../etc/passwd-v0", "minari:/etc/passwd-v0", "minari:"):
        assert main(["data", "convert", name, str(tmp_path / "b.h5")]) == 2
        assert "is no id" in capsys.readouterr().err
