"""The cost of each dependency of the default install: megabytes on disk, and seconds to download and install.

A dependency's cost is that of all the packages which would not be installed without it.

    python benchmarks/install_cost.py            # of the environment that runs this, sizes alone
    python benchmarks/install_cost.py --seconds  # also installs each once more, into a folder of its own
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement


def needed(requirements: Iterable[Requirement]) -> set[str]:
    """Names of all distributions that these requirements bring in."""
    found: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = [each for each in requirements if not each.marker or each.marker.evaluate({"extra": ""})]
    while todo:
        wanted = todo.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        asked = frozenset({"", *wanted.extras})
        if (name, asked) in seen:
            continue
        seen.add((name, asked))
        found.add(name)
        for each in map(Requirement, metadata.distribution(name).requires or ()):
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in asked):
                todo.append(each)
    return found


def megabytes(names: Iterable[str]) -> float:
    files = [path.locate() for name in names for path in metadata.distribution(name).files or ()]
    return sum(Path(path).stat().st_size for path in map(str, files) if Path(path).is_file()) / 1e6


def seconds(names: Iterable[str]) -> float:
    """Seconds that installing these versions into an empty folder takes."""
    pins = [f"{name}=={metadata.version(name)}" for name in sorted(names)]
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, *pins]
        subprocess.run(command, check=True)
        return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", action="store_true")
    timed = parser.parse_args().seconds
    direct = [Requirement(each) for each in metadata.requires("imitate-rl") or ()]
    direct = [each for each in direct if "extra" not in str(each.marker)]
    everything = needed(direct)
    print(f"everything: {len(everything)} packages, {megabytes(everything):.0f} MB")
    rows = []
    for each in direct:
        own = everything - needed(other for other in direct if other is not each)
        rows.append((megabytes(own), seconds(own) if timed and own else 0.0, each.name, sorted(own)))
    for size, took, name, own in sorted(rows, reverse=True):
        print(f"{size:7.1f} MB {took:6.1f} s  {name:24} {' '.join(own)}", flush=True)


if __name__ == "__main__":
    main()
