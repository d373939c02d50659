"""Hostile files of demonstrations: mutants of good ones, and hand-made ones.

A worker opens each as a user would, and prints a line.

A worker process dies with the file that crashes it, so the number after the last line is that file's.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from handmade import HANDMADE

SECONDS = 40  # for opening a file three times
BYTES = 1 << 30
BASES = ("closed", "killed", "old", "pixels", "fields", *(["zstd"] if find_spec("hdf5plugin") else []))

KILLED = """
import os, signal, sys
from recordings import INFO, trajectory
from imitate.datasets import DemoWriter
writer = DemoWriter(sys.argv[1], INFO)
for seed in range(30):
    writer.append(trajectory(1 + seed % 7, seed))
writer.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""

WORK = """
import sys
from pathlib import Path
from attacks import work
work(Path(sys.argv[1]), *map(int, sys.argv[2:]))
"""


def make_bases(folder: Path) -> None:
    """Good files: closed, of a killed writer, in HDF5's old format (without checksums), with compressed pixels, with a
    Dict's fields, one of them a picture, and with pixels compressed by zstd, if that is installed."""
    from counting import Cycling, info_of, stacked_envs
    from forked import run
    from recordings import INFO, trajectory
    from structured import Knower
    from test_structured_demos import record

    from imitate.datasets import DemoWriter, episodes

    with DemoWriter(folder / "closed", INFO, expert_actions=True) as writer:
        for seed in range(30):
            writer.append(trajectory(1 + seed % 7, seed))
    run(KILLED, str(folder / "killed"))
    envs = stacked_envs(2, period=40)
    for name, compression in ("pixels", "gzip"), ("zstd", "zstd"):
        if name not in BASES:
            continue
        info = replace(info_of(envs, frame_stack=4), compression=compression)
        with DemoWriter(folder / name, info) as writer:
            for one in episodes(Cycling(), envs, range(10), frame_stack=4):
                writer.append(one)
    as_old(folder / "closed", folder / "old")
    record(folder / "fields", "ToldByPicture-v0", Knower()).close()


def as_old(source: Path, target: Path) -> None:
    with h5py.File(source) as new, h5py.File(target, "w", libver="earliest") as old:
        old.attrs.update(new.attrs)
        for name, dataset in new.items():
            row = dataset.shape[1:]
            old.create_dataset(name, data=dataset[:], chunks=(64, *row), maxshape=(None, *row))
            old[name].attrs.update(dataset.attrs)


def metadata_of(path: Path) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Places in a file that hold something, and no rows. With zstd rows are meant too: its filter reads them."""
    is_data = np.zeros(path.stat().st_size, bool)
    with h5py.File(path, "r", libver="latest", swmr=path.name == "killed") as file:
        for dataset in file.values():
            for number in range(dataset.id.get_num_chunks()):
                chunk = dataset.id.get_chunk_info(number)
                is_data[chunk.byte_offset : chunk.byte_offset + chunk.size] = True
    is_data &= path.name != "zstd"
    return np.flatnonzero(~is_data & (np.frombuffer(path.read_bytes(), np.uint8) != 0))


def mutant(data: bytes, metadata: Any, rng: np.random.Generator) -> bytes:
    """One damage, mostly to the metadata: a bit, a byte, an extreme number, a block of zeros, an end too soon."""
    changed = bytearray(data)
    where = int(rng.choice(metadata)) if rng.random() < 0.9 else int(rng.integers(len(data)))
    kind = rng.integers(6)
    if kind <= 1:
        changed[where] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        changed[where] = int(rng.integers(256))
    elif kind == 3:
        number = (0, 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1, len(data))[rng.integers(8)]
        changed[where : where + 8] = number.to_bytes(8, "little")
    elif kind == 4:
        size = int(rng.integers(1, 128))
        changed[where : where + size] = bytes(size)
    else:
        return data[:where]
    return bytes(changed[: len(data)])


def file_of(number: int, folder: Path) -> tuple[str, bytes]:
    """The name and the bytes of hostile file `number`: the hand-made ones come first. Always the same."""
    names = list(HANDMADE)
    if number < len(names):
        path = folder / f"made-{number}.h5"
        path.write_bytes((folder / "closed").read_bytes())
        with h5py.File(path, "r+", libver="latest") as file:
            HANDMADE[names[number]](file)
        data = path.read_bytes()
        path.unlink()
        return names[number], data
    base = BASES[number % len(BASES)]
    path = folder / base
    data = path.read_bytes()
    rng = np.random.default_rng(number)
    return f"{base} {number}", mutant(data, np.load(folder / f"{base}.npy"), rng)


def use(path: Path) -> str:
    """Everything that a user does with a file; what came of it. Anything but InputError goes on up."""
    from imitate.datasets import DemoReader, InputError, describe, validate

    try:
        describe(path)
        problems = validate(path)
        with DemoReader(path) as reader:
            for _ in reader:
                pass
            for _ in reader.batches(64, np.random.default_rng(0), memory_limit=1 << 24):
                pass
            reader.transitions()
    except InputError as error:
        return "refused" if "\n" not in str(error) else f"more than a line: {error}"
    return "problems" if problems else "read"


def work(folder: Path, *numbers: int) -> None:
    import resource

    from imitate.datasets.storage import contain

    contain.SECONDS = 1.0  # some mutants make HDF5 loop until then
    used = int(Path("/proc/self/statm").read_text("utf-8").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
    path = folder / f"hostile-{numbers[0]}.h5"
    for number in numbers:
        name, data = file_of(number, folder)
        path.write_bytes(data)
        signal.alarm(SECONDS)
        begin = time.monotonic()
        try:
            outcome = use(path)
        except Exception as error:
            outcome = f"traceback: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        signal.alarm(0)
        print(json.dumps([number, name, outcome, round(time.monotonic() - begin, 3)]), flush=True)
    path.unlink()


def attack(folder: Path, numbers: Sequence[int]) -> list[tuple[int, str, str, float]]:
    """(number, name, outcome, seconds) of each file. A worker that died is followed by one for the rest."""
    from forked import run

    results: list[tuple[int, str, str, float]] = []
    while left := numbers[len(results) :]:
        worker = run(WORK, str(folder), *map(str, left))
        results += [tuple(json.loads(line)) for line in worker.stdout.splitlines()]  # type: ignore[misc]
        if left := numbers[len(results) :]:
            died = f"crash {worker.returncode}: {worker.stderr[-300:]}"
            how = "hang" if worker.returncode == -signal.SIGALRM else died
            results.append((left[0], file_of(left[0], folder)[0], how, 0.0))
    return results
