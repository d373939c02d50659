"""Hostile files of demonstrations that were made by hand: each function changes a good file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from imitate.datasets.storage.schema import COLUMNS, EPISODES

Change = Callable[[h5py.File], Any]


def _table(field: str, row: int, value: Any) -> Change:
    def change(file: h5py.File) -> None:
        table = file["episodes"][:]
        table[field][row] = value
        file["episodes"][:] = table

    return change


def _set(name: str, row: int, value: Any) -> Change:
    return lambda file: file[name].__setitem__(row, value)


def _resized(name: str, rows: int) -> Change:
    return lambda file: file[name].resize(rows, axis=0)


def _attribute(name: str, value: Any) -> Change:
    return lambda file: file.attrs.__setitem__(name, value)


def _space(name: str, **description: Any) -> Change:
    return _attribute(name, json.dumps(description))


def _box(**changes: Any) -> Change:
    box = {"type": "Box", "low": -1.0, "high": 1.0, "shape": [3], "dtype": "float32"}
    return _space("observation_space", **box | changes)


def _instead(name: str, value: Any) -> Change:
    """Another object in the place of `name`."""

    def change(file: h5py.File) -> None:
        del file[name]
        file[name] = value

    return change


def _column(name: str, shape: tuple[int, ...], dtype: Any, **more: Any) -> Change:
    """Another dataset in the place of `name`."""

    def change(file: h5py.File) -> None:
        del file[name]
        file.create_dataset(name, shape, dtype, **more)

    return change


def _virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((121, 3), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "obs", (121, 3))
    del file["obs"]
    file.create_virtual_dataset("obs", layout)


def _group(file: h5py.File) -> None:
    del file["obs"]
    file.create_group("obs")


def _array_attribute(file: h5py.File) -> None:
    del file.attrs["env_id"]
    h5py.h5a.create(file.id, b"env_id", h5py.h5t.NATIVE_INT64, h5py.h5s.create_simple((2**12,)))


def _long_episode(file: h5py.File) -> None:
    """One episode of 2**40 steps, and columns that say that they have them."""
    for name in (*COLUMNS, "expert_actions"):
        file[name].resize(2**40 + 1, axis=0)
    file["episodes"].resize(1, axis=0)
    _table("length", 0, 2**40)(file)


def _bomb(file: h5py.File) -> None:
    """One episode of 1.1 GB that compress to a hundredth: too much at once, and soon read in pieces."""
    rows = 23 << 17
    space = {"type": "Box", "low": 0, "high": 255, "shape": [384], "dtype": "uint8"}
    _space("observation_space", **space)(file)
    for name, shape, dtype in (("obs", (384,), "u1"), ("actions", (), "i8"), ("rewards", (), "f4")):
        del file[name]
        file.create_dataset(name, (rows, *shape), dtype, chunks=(1 << 17, *shape), compression=1)
        file[name][: 1 << 17] = np.zeros((1 << 17, *shape), dtype)
        _, packed = file[name].id.read_direct_chunk((0,) * (1 + len(shape)))
        for at in range(1 << 17, rows, 1 << 17):
            file[name].id.write_direct_chunk((at, *(0 for _ in shape)), packed)
    del file["expert_actions"]
    file["episodes"].resize(1, axis=0)
    _table("length", 0, rows - 1)(file)


TEXTS = [
    "env_id",
    "env_kwargs",
    "observation_space",
    "action_space",
    "expert",
    "expert_sha256",
    "noise",
    "versions",
]
NUMBERS = ["schema_version", "expert_return", "deterministic", "seed", "frame_stack"]
EXTREMES = (-1, 0, 3, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))

SINGLE: dict[str, Change] = {
    "external storage": _column("obs", (121, 3), "f4", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)]),
    "virtual": _virtual,
    "soft link": _instead("obs", h5py.SoftLink("/actions")),
    "soft link to itself": _instead("obs", h5py.SoftLink("/obs")),
    "external link": _instead("obs", h5py.ExternalLink("/etc/passwd", "/")),
    "link of the table": _instead("episodes", h5py.ExternalLink("other.h5", "/episodes")),
    "group": _group,
    "scalar": _column("rewards", (), "f4"),
    "empty": _instead("rewards", h5py.Empty("f4")),
    "text column": _instead("rewards", ["a"] * 200),
    "lists": _column("rewards", (200,), h5py.vlen_dtype("f4")),
    "references": _column("rewards", (200,), h5py.ref_dtype),
    "long floats": _instead("rewards", np.zeros(200, "f8")),
    "big-endian": _instead("actions", np.zeros(200, ">i8")),
    "other shape": _instead("obs", np.zeros((200, 4), "f4")),
    "unknown filter": _column("actions", (200,), "i8", chunks=(8,), compression="lzf"),
    "large chunks": _column("actions", (200,), "i8", chunks=(2**28,), maxshape=(None,)),
    "table of numbers": _instead("episodes", np.zeros(30, "i8")),
    "compressed table": _column("episodes", (2**40,), EPISODES, chunks=(64,), compression=1),
    "table of 2**40": _resized("episodes", 2**40),
    "table of 2**62": _resized("episodes", 2**62),
    "columns of 2**62": _resized("obs", 2**62),
    "a long episode": _long_episode,
    "bomb": _bomb,
    "fewer rows": _resized("obs", 3),
    "action outside": _set("actions", 3, 99),
    "action negative": _set("actions", 3, -1),
    "label outside": _set("expert_actions", 3, 2**40),
    "NaN": _set("obs", 3, np.nan),
    "infinite reward": _set("rewards", 3, np.inf),
    "return of NaN": _table("return", 0, np.nan),
    "array attribute": _array_attribute,
    "long text": _attribute("env_id", "x" * (1 << 22)),
    "bytes": _attribute("env_id", np.bytes_(b"\xff\xfe")),
    "empty attribute": _attribute("seed", h5py.Empty("i8")),
    "deep JSON": _attribute("env_kwargs", "[" * 100_000),
    "deep objects": _attribute("env_kwargs", '{"a":' * 100_000),
    "long number": _attribute("env_kwargs", '{"a":' + "9" * 100_000 + "}"),
    "Box of 2**40": _box(shape=[2**40]),
    "Box of 2**1280": _box(shape=[2**20] * 64),
    "Box negative": _box(shape=[-3]),
    "Box of objects": _box(dtype="O"),
    "Box of nothing": _box(dtype="no"),
    "Box upside down": _box(low=2.0),
    "Box of text": _box(low="x"),
    "Box in a list": _attribute("observation_space", '[{"type": "Box"}]'),
    "Discrete of none": _space("action_space", type="Discrete", n=0, start=0),
    "Discrete negative": _space("action_space", type="Discrete", n=-1, start=0),
    "Discrete of 2**70": _space("action_space", type="Discrete", n=2**70, start=0),
    "no space": _space("action_space"),
    "stack of 2**40": _attribute("frame_stack", 2**40),
    "stack of -1": _attribute("frame_stack", -1),
    "stack of 3": _attribute("frame_stack", 3),
    "schema of 3": _attribute("schema_version", 3),
}
FAMILIES: tuple[dict[str, Change], ...] = (
    {f"no {name}": lambda file, name=name: file.attrs.__delitem__(name) for name in (*TEXTS, *NUMBERS)},
    {f"{name} is a number": _attribute(name, 3) for name in TEXTS},
    {f"{name} is text": _attribute(name, "three") for name in NUMBERS},
    {f"{name} is a fraction": _attribute(name, 0.5) for name in ("schema_version", "seed", "frame_stack")},
    {f"lacks {name}": lambda file, name=name: file.__delitem__(name) for name in (*COLUMNS, "episodes")},
    {
        f"{field} of {value}": _table(field, row, value)
        for row, field in enumerate(("start", "obs_start", "length"), 1)
        for value in EXTREMES
        if (field, value) not in {("length", 0), ("start", -1)}
    },
)
"""The same damage in several places."""

HANDMADE: dict[str, Change] = SINGLE | {
    name: change for family in FAMILIES for name, change in family.items()
}
"""All of them are to be refused."""

SAMPLE = [name for name in SINGLE if name != "bomb"] + [
    name for family in FAMILIES for name in list(family)[::3]
]
"""A third of each family; the bomb takes as long as half of the others together."""
