"""Check conversions with the other projects' own readers and writers; writes benchmarks/results/formats.json.

    python benchmarks/formats/verify.py minari=ENV/bin/python lerobot=ENV/bin/python ...

Each project needs its own virtual environment, since their pins clash, with these packages:

    minari      "minari[hdf5,arrow]==0.5.4" pillow "gymnasium[box2d]"
    imitation   torch==2.13.0 imitation==1.0.1
    lerobot     lerobot==0.4.4
    robomimic   robomimic==0.3.0 six
    d4rl        --no-deps d4rl==1.1, and then h5py tqdm "gym<0.27" "numpy<2" absl-py

Every format is checked in both directions: our recording, converted, is opened by their reader, and their writer's file
is converted to ours. Both are compared number by number with the recording, as far as the format holds it. Rows of
projects that are not named keep their record.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from imitate.cli import main
from imitate.datasets import DemoReader
from imitate.datasets.convert import FORMATS, convert
from imitate.files import versions, write_json

HERE = Path(__file__).parent
RECORD = HERE.parent / "results" / "formats.json"

RECORDINGS = {
    "cartpole": ["CartPole-v1", "--episodes", "4", "--stochastic"],
    "walker": ["BipedalWalker-v3", "--steps", "1000", "--stochastic"],
    "racing": [
        "random",
        "--env",
        "CarRacing-v3",
        "--env-kwargs",
        '{"max_episode_steps": 20}',
        "--episodes",
        "3",
    ],
    "parts": ["random", "--env", "parts_env:Parts-v0", "--episodes", "3"],
}
CASES = {
    "minari": ["cartpole", "walker", "racing", "parts"],
    "minari-arrow": ["cartpole", "walker", "racing", "parts"],
    "imitation": ["cartpole", "walker"],
    "robomimic": ["walker"],
    "d4rl": ["walker"],
    "lerobot": ["cartpole", "walker", "racing"],
}

Dump = dict[str, np.ndarray[Any, Any]]


def verify(pythons: dict[str, str], folder: Path, before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for name, arguments in RECORDINGS.items():
        assert main(["collect", *arguments, "--out", str(folder / f"{name}.h5")]) == 0
    rows = []
    for name, recordings in CASES.items():
        project = name.removesuffix("-arrow")
        if project not in pythons:
            print(f"{name}: skipped, no Python for it")
            rows += [row for row in before if row["format"] == name]
            continue
        for recording in recordings:
            rows.append(check(name, project, pythons[project], folder, recording))
            print(json.dumps(rows[-1]), flush=True)
    return rows


def check(name: str, project: str, python: str, folder: Path, recording: str) -> dict[str, Any]:
    source = folder / f"{recording}.h5"
    truth = dump(source)
    place = folder / f"{name}-{recording}"
    place.mkdir()

    def theirs(*arguments: object) -> str:
        script = HERE / f"{project}_side.py"
        done = subprocess.run(
            [python, script, *map(str, arguments)], capture_output=True, text=True, cwd=place
        )
        if done.returncode:
            raise SystemExit(f"{project}: {done.stderr[-3000:]}")
        return done.stdout.splitlines()[-1]

    suffix = "" if FORMATS[name].folder else ".hdf5"
    ours = convert(source, place / f"ours-v0{suffix}", format=name)
    version = theirs("read", place / f"ours-v0{suffix}", place / "read.npz")
    read = compared(truth, dict(np.load(place / "read.npz")))
    row = {
        "format": name,
        "recording": recording,
        "reader": version,
        "read by them": read,
        "lost": ours.notes,
    }
    np.savez(place / "truth.npz", **truth)
    if theirs("write", place / "truth.npz", place / f"theirs-v0{suffix}", name) == "no writer":
        return row | {"written by them": None}
    env_id = None if project == "minari" else DemoReader(source).info.env_id
    back = convert(place / f"theirs-v0{suffix}", place / "back.h5", env_id=env_id)
    return row | {"written by them": compared(truth, dump(place / "back.h5")), "notes": back.notes}


def dump(path: Path) -> Dump:
    """All arrays in one of our files, by `number/name`, or by `number/obs/part/...` if they have parts."""
    arrays: Dump = {}
    with DemoReader(path) as reader:
        for number, episode in enumerate(reader):
            for name in ("obs", "actions", "rewards", "terminated", "truncated"):
                arrays |= parted(f"{number}/{name}", np.asarray(getattr(episode, name)))
    return arrays


def parted(name: str, rows: np.ndarray[Any, Any]) -> Dump:
    if rows.dtype.names is None:
        return {name: rows}
    arrays: Dump = {}
    for part in rows.dtype.names:
        arrays |= parted(f"{name}/{part}", rows[part])
    return arrays


def compared(truth: Dump, other: Dump) -> list[str]:
    """The fields that the other has, and how far they are equal in all episodes: some formats can't hold final rows."""
    episodes = len({name.partition("/")[0] for name in truth})
    if episodes != len({name.partition("/")[0] for name in other}):
        raise SystemExit("another number of episodes")
    said = []
    for field in dict.fromkeys(name.partition("/")[2] for name in truth):
        pairs = [
            (truth[f"{n}/{field}"], other[f"{n}/{field}"]) for n in range(episodes) if f"{n}/{field}" in other
        ]
        if not pairs:
            continue
        if len(pairs) < episodes:
            said.append(f"{field} DIFFER")
        elif all(was.shape == now.shape and (was == now).all() for was, now in pairs):
            said.append(field)
        elif all(was.ndim and _same_but_for_the_end(was, now) for was, now in pairs):
            said.append(f"{field} but for the final rows")
        elif pairs[0][0].dtype == np.uint8 and all(_as_long(was, now) for was, now in pairs):
            errors = [np.abs(now - was[: len(now)].astype(float)).mean() for was, now in pairs]
            said.append(f"{field} within {np.mean(errors):.2g} of 255 in the mean, from lossy video")
        else:
            said.append(f"{field} DIFFER")
    return said


def _as_long(was: np.ndarray[Any, Any], now: np.ndarray[Any, Any]) -> bool:
    """True if no rows but the last one are missing."""
    return len(was) - 1 <= len(now) <= len(was)


def _same_but_for_the_end(was: np.ndarray[Any, Any], now: np.ndarray[Any, Any]) -> bool:
    rows = len(was) - 1
    return _as_long(was, now) and bool((was[:rows] == now[:rows]).all())


if __name__ == "__main__":
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory() as scratch:
        pythons = {name: str(Path(python).absolute()) for name, python in given.items()}
        found = verify(pythons, Path(scratch), json.loads(RECORD.read_text("utf-8"))["rows"])
    command = "python benchmarks/formats/verify.py"
    write_json(RECORD, {"command": command, "versions": versions(), "rows": found})
