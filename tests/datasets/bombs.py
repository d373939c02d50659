"""Small foreign data sets that would take gigabytes if they were believed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["BOMBS", "lerobot", "npz"]


def npz(path: Path, **shapes: tuple[str, tuple[int, ...]]) -> Path:
    """An archive of zeros with these types and shapes, which deflate to a thousandth."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (descr, shape) in shapes.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                header = {"descr": descr, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(member, header)
                left = np.dtype(descr).itemsize * int(np.prod(shape))
                while left:
                    left -= member.write(bytes(min(left, 1 << 24)))
    return path


def lerobot(
    path: Path,
    columns: dict[str, Any],
    episodes: dict[str, Any],
    features: dict[str, tuple[str, list[int]]],
) -> Path:
    """A LeRobotDataset v3 of these columns; episodes are a table of their own."""
    for folder in ("meta/episodes/chunk-000", "data/chunk-000"):
        (path / folder).mkdir(parents=True)
    info = {
        "codebase_version": "v3.0",
        "fps": 30,
        "features": {name: {"dtype": kind, "shape": shape} for name, (kind, shape) in features.items()},
    }
    (path / "meta" / "info.json").write_text(json.dumps(info))
    for file, table in (("meta/episodes", episodes), ("data", columns)):
        pq.write_table(pa.table(table), path / file / "chunk-000" / "file-000.parquet")
    return path


def large_video(path: Path) -> Path:
    """Twenty black frames of 4096 x 4000."""
    shape, key = (4000, 4096, 3), "observation.images.top"
    where = {f"videos/{key}/{name}": [0] for name in ("chunk_index", "file_index")}
    lerobot(
        path,
        {"episode_index": np.zeros(20, np.int64), "action": np.zeros(20, np.float32)},
        {"episode_index": [0], "length": [20], f"videos/{key}/from_timestamp": [0.0], **where},
        {key: ("video", list(shape)), "action": ("float32", [1])},
    )
    file = path / "videos" / key / "chunk-000" / "file-000.mp4"
    file.parent.mkdir(parents=True)
    with av.open(str(file), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"preset": "ultrafast"})
        stream.height, stream.width, stream.pix_fmt, stream.thread_count = *shape[:2], "yuv420p", 1
        picture = av.VideoFrame.from_ndarray(np.zeros(shape, np.uint8), format="rgb24")
        for _ in range(20):
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


def large_map(path: Path) -> Path:
    """A FrozenLake of 3000 x 3000 fields."""
    lake = ["S" + "F" * 2999] + ["F" * 3000] * 2998 + ["F" * 2999 + "G"]
    with h5py.File(path, "w") as file:
        demo = file.create_group("data/demo_0")
        kwargs = {"desc": lake, "is_slippery": True}
        file["data/env_args"] = json.dumps({"env_name": "FrozenLake-v1", "type": 2, "env_kwargs": kwargs})
        demo["actions"], demo["rewards"] = np.zeros((3, 1)), np.zeros(3)
        demo["obs/flat"] = np.zeros((3, 1))
    return path


def many_episodes(path: Path) -> Path:
    """16 M equal rows in the table of episodes."""
    rows = 1 << 24
    return lerobot(
        path,
        {"episode_index": [0], "action": [0.0], "observation.state": [0.0]},
        {name: np.ones(rows, np.int64) for name in ("episode_index", "length")},
        {"action": ("float64", [1]), "observation.state": ("float64", [1])},
    )


def long_flags(path: Path) -> Path:
    return npz(path, obs=("|u1", (1 << 30, 1)), actions=("|u1", (1 << 30,)), terminated=("|b1", (1 << 30,)))


def all_ends(path: Path) -> Path:
    """Every one of 16 M steps is an episode."""
    rows = 1 << 24
    npz(path, obs=("|u1", (rows, 1)), actions=("|u1", (rows,)))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("dones.npy", "w") as file:
        np.lib.format.write_array(file, np.ones(rows, bool))
    return path


def empty_rows(path: Path) -> Path:
    return npz(path, obs=("|u1", (1 << 30, 0)), actions=("|u1", (1 << 30, 0)))


def long_csv(path: Path) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.write("obs_0,action\n")
        for _ in range(55):
            file.write("0.5,1\n" * 100_000)
    return path


def long_episode(path: Path) -> Path:
    """One episode of 20 M rows."""
    rows = 20_000_000
    return lerobot(
        path,
        {
            "episode_index": np.zeros(rows, np.int64),
            "action": np.zeros(rows, np.float32),
            "observation.state": np.zeros(rows, np.float64),
        },
        {"episode_index": [0], "length": [rows]},
        {"action": ("float32", [1]), "observation.state": ("float64", [1])},
    )


def huge_list(path: Path) -> Path:
    """One row whose state is a list of 200 M zeros."""
    count = 200_000_000
    state = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pa.array(np.zeros(count, np.uint8)))
    return lerobot(
        path,
        {"episode_index": [0], "action": [0.0], "observation.state": state},
        {"episode_index": [0], "length": [1]},
        {"action": ("float64", [1]), "observation.state": ("uint8", [count >> 8])},
    )


def huge_chunks(path: Path) -> Path:
    """D4RL's columns in HDF5 chunks of zeros, a gigabyte each."""
    rows = 1 << 22
    with h5py.File(path, "w") as file:
        for name, shape, dtype in (
            ("observations", (rows, 32), "f8"),
            ("actions", (rows, 1), "f4"),
            ("rewards", (rows,), "f4"),
            ("terminals", (rows,), "?"),
        ):
            file.create_dataset(
                name, shape, dtype, chunks=(1 << 17, *shape[1:]), compression="gzip", fillvalue=0
            )
            for at in range(0, rows, 1 << 17):
                file[name][at : at + (1 << 17)] = np.zeros((1 << 17, *shape[1:]), dtype)
    return path


BOMBS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "large-video": ("", large_video),
    "large-map": (".hdf5", large_map),
    "many-episodes": ("", many_episodes),
    "long-flags": (".npz", long_flags),
    "all-ends": (".npz", all_ends),
    "empty-rows": (".npz", empty_rows),
    "long-csv": (".csv", long_csv),
    "long-episode": ("", long_episode),
    "huge-list": ("", huge_list),
    "huge-chunks": (".hdf5", huge_chunks),
}
"""Suffix and maker of each."""


def make(folder: Path) -> Iterator[Path]:
    for name, (suffix, maker) in BOMBS.items():
        yield maker(folder / f"{name}{suffix}")
