"""Measure time and peak memory of work with large demonstrations; writes benchmarks/results/size.json.

    python benchmarks/size.py [--transitions 10000000] [--frames 1000000] [--minari ENV/bin/python]

Each operation runs in its own process, whose peak memory and processor time are recorded. Observations are 17 float64
numbers in episodes of 1,000 steps, or 84 x 84 grey frames in stacks of 4. `--minari` names a Python with
`minari[hdf5]==0.5.4` and Pillow, which then writes and reads the same data in the same run.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from gymnasium import spaces

from imitate.datasets import DemoInfo, DemoReader, DemoWriter, Trajectory, describe, edit, validate
from imitate.datasets.play import stack_frames
from imitate.files import machine, versions, write_json

RECORD = Path(__file__).parent / "results" / "size.json"
LENGTH = 1000
BATCH = 256
MEMORY = 256 << 20  # for minibatches; less than the data, so that they are streamed

STATES = DemoInfo(
    "States-v0", spaces.Box(-np.inf, np.inf, (17,), np.float64), spaces.Box(-1, 1, (6,), np.float32)
)
FRAMES = DemoInfo("Frames-v0", spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(6), frame_stack=4)


def trajectories(info: DemoInfo, episodes: int) -> Iterator[Trajectory]:
    """Random states; frames in which a bright square moves over noise of few values, so that they compress somewhat."""
    rng = np.random.default_rng(0)
    for number in range(episodes):
        if info.frame_stack == 1:
            obs = rng.standard_normal((LENGTH + 1, 17))
            actions = rng.uniform(-1, 1, (LENGTH, 6)).astype(np.float32)
        else:
            frames = rng.integers(0, 4, (LENGTH + 4, 84, 84), np.uint8)
            for at, frame in enumerate(frames):
                frame[at % 76 : at % 76 + 8, 40:48] = 255
            obs, actions = stack_frames(frames, 4), rng.integers(0, 6, LENGTH)
        yield Trajectory(obs, actions, np.ones(LENGTH, np.float32), False, True, info={"seed": number})


def record(path: Path, info: DemoInfo, episodes: int) -> None:
    with DemoWriter(path, info) as writer:
        for trajectory in trajectories(info, episodes):
            writer.append(trajectory)


def opened(path: Path) -> None:
    DemoReader(path).close()


def sequential(path: Path) -> None:
    with DemoReader(path) as reader:
        for _ in reader:
            pass


def shuffled(path: Path) -> None:
    with DemoReader(path) as reader:
        for _ in reader.batches(BATCH, np.random.default_rng(0), memory_limit=MEMORY):
            pass


def merged(path: Path) -> None:
    edit.merge([path, path], path.with_name("merged.h5"))


def halved(path: Path) -> None:
    edit.split(path, path.with_name("one.h5"), path.with_name("two.h5"), holdout=0.5)


def measured(work: Callable[..., Any], *arguments: Any) -> dict[str, float]:
    """Wall seconds, processor seconds and peak MiB of `work` in a new process; importing takes about 240 MiB."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(False)
    process = context.Process(target=_measure, args=(send, work, arguments))
    process.start()
    send.close()
    figures: dict[str, float] = receive.recv()
    process.join()
    return figures


def _measure(send: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    before, begin = _cpu(), time.perf_counter()
    work(*arguments)
    seconds, cpu = time.perf_counter() - begin, _cpu() - before
    send.send({"seconds": round(seconds, 3), "cpu": round(cpu, 3), "peak_mib": _peak_mib()})


def _cpu() -> float:
    """CPU seconds of this process and its children, since a file is checked in a child when it is opened."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _peak_mib() -> int:
    """Peak MiB of this process alone; `ru_maxrss` would begin with the parent's peak."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) >> 10


def ours(info: DemoInfo, episodes: int, folder: Path) -> dict[str, Any]:
    path = folder / "ours.h5"
    rows: dict[str, Any] = {"record": measured(record, path, info, episodes)}
    rows["mib"] = path.stat().st_size >> 20
    works: dict[str, Callable[..., Any]] = {
        "open": opened,
        "sequential": sequential,
        "shuffled": shuffled,
        "info": describe,
        "validate": validate,
        "merge": merged,
        "split": halved,
    }
    for name, work in works.items():
        rows[name] = measured(work, path)
        print(name, rows[name], flush=True)
    rows["shuffled of sequential"] = round(rows["sequential"]["cpu"] / rows["shuffled"]["cpu"], 2)
    return rows


def theirs(python: str, kind: str, episodes: int, folder: Path) -> dict[str, Any]:
    script = Path(__file__).parent / "formats" / "minari_size.py"
    command = [python, str(script), kind, str(episodes), str(folder / "minari")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main(transitions: int = 10_000_000, frames: int = 1_000_000, minari: str | None = None) -> None:
    rows = {}
    for kind, info, steps in (("frames", FRAMES, frames), ("states", STATES, transitions)):
        with tempfile.TemporaryDirectory() as folder:
            rows[kind] = {"steps": steps, "ours": ours(info, steps // LENGTH, Path(folder))}
        if minari is not None:
            with tempfile.TemporaryDirectory() as folder:
                rows[kind]["minari"] = theirs(minari, kind, steps // LENGTH, Path(folder))
    command = " ".join(["python", "benchmarks/size.py", *sys.argv[1:]])
    command = command.replace(minari or "\0", "ENV/bin/python")
    write_json(RECORD, {"command": command, "machine": machine(), "versions": versions(), "rows": rows})


if __name__ == "__main__":
    tyro.cli(main)
