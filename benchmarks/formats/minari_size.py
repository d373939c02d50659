"""Minari with the data of benchmarks/size.py: `python minari_size.py states|frames EPISODES FOLDER`."""

from __future__ import annotations

import json
import sys
import time
from importlib import metadata
from pathlib import Path

import gymnasium as gym
import numpy as np
from minari import MinariDataset
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage

LENGTH = 1000


def episodes(kind: str, count: int):
    """As `trajectories` of benchmarks/size.py; Minari keeps every frame of a stack."""
    rng = np.random.default_rng(0)
    for number in range(count):
        if kind == "states":
            obs = rng.standard_normal((LENGTH + 1, 17))
            actions = rng.uniform(-1, 1, (LENGTH, 6)).astype(np.float32)
        else:
            frames = rng.integers(0, 4, (LENGTH + 4, 84, 84), np.uint8)
            for at, frame in enumerate(frames):
                frame[at % 76 : at % 76 + 8, 40:48] = 255
            windows = np.lib.stride_tricks.sliding_window_view(frames, 4, axis=0)
            obs, actions = np.moveaxis(windows, -1, 1), rng.integers(0, 6, LENGTH)
        ends = np.arange(LENGTH) == LENGTH - 1
        yield EpisodeBuffer(
            id=number,
            seed=number,
            observations=obs,
            actions=actions,
            rewards=np.ones(LENGTH, np.float32),
            terminations=ends & False,
            truncations=ends,
            infos={},
        )


def main(kind: str, count: int, folder: Path) -> dict[str, object]:
    states = kind == "states"
    observation = gym.spaces.Box(-np.inf, np.inf, (17,), np.float64)
    action = gym.spaces.Box(-1, 1, (6,), np.float32) if states else gym.spaces.Discrete(6)
    observation = observation if states else gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    folder.mkdir(parents=True)
    rows: dict[str, object] = {"version": metadata.version("minari")}

    def timed(name: str, work) -> None:
        begin, cpu = time.perf_counter(), time.process_time()
        work()
        status = Path("/proc/self/status").read_text("utf-8")
        peak = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) >> 10
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        rows[name] = {"seconds": round(seconds, 3), "cpu": round(cpu, 3), "peak_mib": peak}

    storage = MinariStorage.new(folder, observation, action, jpeg_encoding=False)
    timed("record", lambda: storage.update_episodes(episodes(kind, count)))
    storage.update_metadata({"dataset_id": "size/test-v0", "minari_version": metadata.version("minari")})
    rows["mib"] = sum(file.stat().st_size for file in folder.rglob("*")) >> 20
    timed("open", lambda: MinariDataset(folder))
    dataset = MinariDataset(folder)

    def read() -> None:
        for _ in dataset.iterate_episodes():
            pass

    timed("sequential", read)
    return rows


print(json.dumps(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
