"""With the arguments FOLDER KINDS SEED COUNT: convert mutants of every good data set in FOLDER; a line each."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import time
import traceback
from itertools import product
from pathlib import Path

import numpy as np
from bombs import BOMBS
from memory import forget_peak, peak_memory
from twists import PLANTED, twist

from imitate.datasets import InputError
from imitate.datasets.convert import FORMATS, convert

SECONDS = 20.0  # of the processor
BYTES = (1 << 30) - (350 << 20)  # beyond what the process has, which alone is some 350 MB with all libraries


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


def spent() -> float:
    """Seconds of the processor, of children too."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def attempt(source: Path, out: Path, env_id: str | None = "Unit-v0", format: str = "imitate") -> str:
    begin, had = spent(), forget_peak()
    try:
        convert(source, out, env_id=env_id, format=format)
        outcome = "read"
    except InputError as error:
        outcome = "refused" if "\n" not in str(error) and not out.exists() else f"left something: {error}"
    except Exception:
        outcome = "traceback " + " ".join(traceback.format_exc().split())[-600:]
    size = sum(file.stat().st_size for file in [source, *source.rglob("*")] if file.is_file())
    slow = spent() - begin > SECONDS * max(1.0, size / 1e6)
    # The pages of a mapped Arrow file count too, and the children that look first have a limit of their own.
    large = peak_memory() - had - size > BYTES
    left = [path.name for path in out.parent.iterdir() if path.name.startswith(".")]
    ran = " code ran" * Path(PLANTED).exists()
    return outcome + " slow" * slow + " large" * large + f" left {left}" * bool(left) + ran


def main(folder: Path, kinds: str, seed: int, count: int) -> None:
    """`kinds`: bytes, twists, or both with a + between them."""
    os.chdir(folder)
    Path(f"{PLANTED}.py").write_text(f"import os\nos.mkdir({PLANTED!r})\n", "utf-8")
    for index, source in enumerate(sorted((folder / "good").iterdir())):
        # Other damage to each, since the fast test has one mutant of each.
        rng = np.random.default_rng((seed, index))
        for number, kind in product(range(count), kinds.split("+")):
            place = folder / f"{source.stem}-{number}"
            place.mkdir()
            print(source.stem, number, "begins", flush=True)
            if kind == "bytes":
                mutate(source, place / source.name, rng)
                outcome = attempt(place / source.name, place / "out.h5")
            else:
                twist(source, place / source.name, rng)
                format = "imitate" if rng.random() < 0.6 else list(FORMATS)[int(rng.integers(len(FORMATS)))]
                env_id = "Unit-v0" if rng.random() < 0.6 else None
                outcome = attempt(place / source.name, place / "out", env_id, format)
            print(source.stem, number, outcome, flush=True)
            shutil.rmtree(place)


def bombs(folder: Path, names: list[str]) -> None:
    for name in names:
        suffix, make = BOMBS[name]
        place = folder / name
        place.mkdir()
        print(name, 0, "begins", flush=True)
        source = make(place / f"bomb{suffix}")
        print(
            name,
            0,
            attempt(source, place / "out.h5", None if name == "large-map" else "Nowhere-v0"),
            flush=True,
        )
        shutil.rmtree(place)


def begin() -> None:
    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.argv[2] == "bombs":
        bombs(Path(sys.argv[1]), sys.argv[3:])
    else:
        main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
