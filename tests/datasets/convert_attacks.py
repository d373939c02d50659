"""`python convert_attacks.py FOLDER SEED COUNT`: convert mutants of every good data set in FOLDER; a line each."""

from __future__ import annotations

import os
import shutil
import sys
import time
import traceback
from pathlib import Path

import numpy as np
from memory import peak_memory

from imitate.datasets import InputError
from imitate.datasets.convert import convert

SECONDS = 20.0
BYTES = 1 << 30


def mutate(source: Path, target: Path, rng: np.random.Generator) -> None:
    """A copy with some bytes changed, a piece cut out or an end cut off, in one of its files."""
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)
    files = sorted(path for path in target.rglob("*") if path.is_file()) if target.is_dir() else [target]
    file = files[int(rng.integers(len(files)))]
    data = bytearray(file.read_bytes())
    kind = rng.integers(4)
    if kind == 0:
        data = data[: int(rng.integers(len(data)))]
    elif kind == 1:
        at = int(rng.integers(len(data)))
        del data[at : at + int(rng.integers(1, 64))]
    else:  # what describes the data is at the beginning and the end
        for _ in range(int(rng.integers(1, 8))):
            edge = int(rng.integers(min(len(data), 4096)))
            data[edge if rng.random() < 0.5 else len(data) - 1 - edge] = int(rng.integers(256))
    file.write_bytes(data)


def attempt(source: Path, out: Path) -> str:
    begin = time.monotonic()
    try:
        convert(source, out, env_id="Unit-v0")
        outcome = "read"
    except InputError as error:
        outcome = "refused" if "\n" not in str(error) and not out.exists() else "left something"
    except Exception:
        outcome = "traceback " + " ".join(traceback.format_exc().split())[-400:]
    slow = time.monotonic() - begin > SECONDS
    large = peak_memory() > BYTES
    left = [path.name for path in out.parent.iterdir() if path.name.startswith(".")]
    return outcome + " slow" * slow + " large" * large + f" left {left}" * bool(left)


def main(folder: Path, seed: int, count: int) -> None:
    for source in sorted((folder / "good").iterdir()):
        rng = np.random.default_rng(seed)
        for number in range(count):
            place = folder / f"{source.stem}-{number}"
            place.mkdir()
            mutate(source, place / source.name, rng)
            print(source.stem, number, "begins", flush=True)
            print(source.stem, number, attempt(place / source.name, place / "out.h5"), flush=True)
            shutil.rmtree(place)


if __name__ == "__main__":
    sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
