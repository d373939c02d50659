"""Measure compression of observations: size, and speed of writing and reading; writes results/compression.json.

    python benchmarks/compression.py [--states 20000] [--frames 3000] [--data 'ALE/Breakout-v5 in colour']

The data are random actions in CartPole, HalfCheetah, PixelCartPole, and Breakout in grey and in colour, in chunks like
`DemoWriter`'s. If `hdf5plugin` is installed, LZ4, Blosc and Zstandard are measured too. Rates are MB of raw data per
CPU second, the best of three measurements. With `--data` the others keep their record. New ones name their own
machine.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import ale_py  # noqa: F401  # registers the games
import gymnasium as gym
import h5py
import numpy as np
import tyro

from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.files import machine, versions, write_json

RECORD = Path(__file__).parent / "results" / "compression.json"
COLOUR = "ALE/Breakout-v5 in colour"
DATA = ("CartPole-v1", "HalfCheetah-v5", "imitate/PixelCartPole-v0", "ALE/Breakout-v5", COLOUR)
REPEATS = 3
CHUNK_ROWS, PICTURE_CHUNK_BYTES = 64, 1 << 19  # for frames, as in `DemoWriter`
CHUNK_BYTES = 1 << 17  # for states


def filters() -> dict[str, dict[str, Any]]:
    known: dict[str, dict[str, Any]] = {
        "none": {},
        "gzip 1": {"compression": "gzip", "compression_opts": 1},
        "gzip 1, shuffle": {"compression": "gzip", "compression_opts": 1, "shuffle": True},
        "gzip 4, shuffle": {"compression": "gzip", "compression_opts": 4, "shuffle": True},
        "lzf": {"compression": "lzf"},
        "lzf, shuffle": {"compression": "lzf", "shuffle": True},
    }
    try:
        import hdf5plugin
    except ImportError:
        return known
    return known | {
        "lz4": dict(hdf5plugin.LZ4()),
        "blosc lz4, shuffle": dict(hdf5plugin.Blosc(cname="lz4", clevel=5)),
        "zstd 3": {**hdf5plugin.Zstd(clevel=3), "fletcher32": True},  # as `DemoWriter` has it
    }


def observations(name: str, rows: int) -> Array:
    """Observations (rows, *shape) of random play; for stacked frames the newest one."""
    colour = name == COLOUR
    env = gym.make(name.partition(" ")[0]) if colour else make_env(name)
    env.action_space.seed(0)
    stacked = len(env.observation_space.shape or ()) == 3 and not colour
    found: list[Array] = []
    for seed in itertools.count():
        obs, over = env.reset(seed=seed)[0], False
        while not over:
            found.append(np.array(obs[-1] if stacked else obs))
            if len(found) == rows:
                return np.stack(found)
            obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
            over = terminated or truncated
    raise AssertionError


def measure(data: Array, options: dict[str, Any]) -> dict[str, float]:
    """Bytes per row, and MB per CPU second of writing and reading."""
    writing, reading = [], []
    chunk = CHUNK_BYTES // data[0].nbytes
    if data.ndim >= 3:
        chunk = min(max(1, PICTURE_CHUNK_BYTES // data[0].nbytes), CHUNK_ROWS)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(REPEATS):
            path = Path(folder) / f"{number}.h5"
            begin = time.process_time()
            with h5py.File(path, "w", libver="latest") as file:
                file.create_dataset("obs", data=data, chunks=(chunk, *data.shape[1:]), **options)
            writing.append(time.process_time() - begin)
            begin = time.process_time()
            with h5py.File(path) as file:
                read = file["obs"][:]
                stored = file["obs"].id.get_storage_size()
            reading.append(time.process_time() - begin)
            assert (read == data).all()
    mega = data.nbytes / 1e6
    return {
        "bytes_per_row": round(stored / len(data), 1),
        "write": round(mega / min(writing)),
        "read": round(mega / min(reading)),
    }


def main(states: int = 20_000, frames: int = 3_000, data: tuple[str, ...] = DATA) -> None:
    record: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
    found = record["found"]
    for which in data:
        rows = observations(which, states if DATA.index(which) < 2 else frames)
        raw = rows.nbytes // len(rows)
        found[which] = {"raw": raw, "filters": {}, "machine": machine(), "versions": versions()}
        for name, options in filters().items():
            found[which]["filters"][name] = measure(rows, options)
            print(which, raw, name, found[which]["filters"][name], flush=True)
    write_json(RECORD, record | {"states": states, "frames": frames})


if __name__ == "__main__":
    tyro.cli(main)
