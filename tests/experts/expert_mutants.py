"""Mutants of an agent's files: bytes, values, pickles, archives and weights."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

PENDULUM = "Pendulum-v1"
ZIP, STATISTICS, DESCRIPTION, WEIGHTS = (
    f"{PENDULUM}.zip",
    "vecnormalize.pkl",
    "expert.json",
    "policy.safetensors",
)
Files = dict[str, bytes]
Rng = np.random.Generator
Case = tuple[str, Files]


class Payload:
    """Unpickled, it creates a folder in the current one."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("ran",)


ODD_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        2**63,
        10**40,
        -1.5,
        float("inf"),
        float("nan"),
        1e308,
        "",
        "x" * 5_000,
        "payload:X-v0",
    ),
    *([], {}, [[]], [1, "a"], {"a": None}, [[[[[[1]]]]]], {":serialized:": "gASVAA=="}, {":serialized:": 5}),
)


def mutated(data: bytes, rng: Rng) -> bytes:
    """Up to four bits, bytes or runs changed, or the end cut off."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        place = int(rng.integers(len(changed)))
        match rng.integers(5):
            case 0:
                changed[place] ^= 1 << int(rng.integers(8))
            case 1:
                changed[place] = int(rng.choice([0, 1, 127, 128, 255]))
            case 2:
                changed[place : place + 4] = rng.bytes(4)
            case 3:
                changed[place:place] = changed[place : place + int(rng.integers(1, 64))]
            case _:
                del changed[place : place + int(rng.integers(1, 64))]
    return bytes(changed[: int(rng.integers(len(changed)))] if rng.random() < 0.05 else changed)


def rezipped(
    archive: bytes, changes: dict[str, Callable[[bytes], bytes]], method: int = zipfile.ZIP_STORED
) -> bytes:
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(archive)) as old,
        zipfile.ZipFile(stream, "w", method, compresslevel=1) as new,
    ):
        for name in old.namelist():
            new.writestr(name, changes.get(name, bytes)(old.read(name)))
    return stream.getvalue()


def with_odd_values(text: bytes, rng: Rng) -> bytes:
    """JSON with up to three values, anywhere in it, replaced by others or left out."""
    data = json.loads(text)
    for _ in range(rng.integers(1, 4)):
        place, key = data, None
        while isinstance(place, dict | list) and len(place):
            parent, key = (
                place,
                rng.choice(list(place)) if isinstance(place, dict) else int(rng.integers(len(place))),
            )
            place = parent[key]
            if rng.random() < 0.4:
                break
        if key is not None and rng.random() < 0.1:
            del parent[key]
        elif key is not None:
            parent[key] = ODD_VALUES[rng.integers(len(ODD_VALUES))]
    return json.dumps(data).encode()


def with_odd_pickle(text: bytes, rng: Rng) -> bytes:
    """SB3's JSON with one of its pickles mutated, or replaced by random opcodes."""
    data = json.loads(text)
    names = [name for name, entry in data.items() if isinstance(entry, dict) and ":serialized:" in entry]
    entry = data[names[rng.integers(len(names))]]
    old = base64.b64decode(entry[":serialized:"])
    entry[":serialized:"] = base64.b64encode(
        mutated(old, rng) if rng.random() < 0.8 else opcodes(rng)
    ).decode()
    return json.dumps(data).encode()


def opcodes(rng: Rng) -> bytes:
    """A random program for the stack machine."""
    words = (
        b"(",
        b"]",
        b"}",
        b")",
        b"\x8f",
        b"0",
        b"1",
        b"2",
        b"N",
        b"\x88",
        b"K\x01",
        b"q\x00",
        b"h\x00",
        b"\x94",
    )
    words += (
        b"\x85",
        b"\x86",
        b"\x87",
        b"t",
        b"l",
        b"d",
        b"a",
        b"e",
        b"s",
        b"u",
        b"b",
        b"R",
        b"\x81",
        b"\x92",
        b"\x93",
    )
    words += (
        b"\x90",
        b"\x91",
        b"Q",
        b"cos\nsystem\n",
        b"X\x02\x00\x00\x00ok",
        b"C\x01x",
        b"G?\xf0\0\0\0\0\0\0",
    )
    return (
        b"\x80\x04" + b"".join(words[n] for n in rng.integers(len(words), size=rng.integers(1, 200))) + b"."
    )


def with_weights(own: Files, weights: bytes) -> Files:
    """Our folder with other weights, and their hash in place of the old one: so they are looked at."""
    description = json.loads(own[DESCRIPTION]) | {"sha256": hashlib.sha256(weights).hexdigest()}
    return {DESCRIPTION: json.dumps(description).encode(), WEIGHTS: weights}


def mutants(agents: tuple[Files, Files], seed: int) -> Iterator[Case]:
    """Endless, and the same for the same seed."""
    zipped, own = agents
    rng = np.random.default_rng(seed)

    def inner(name: str, change: Callable[[bytes, Rng], bytes]) -> Files:
        return zipped | {ZIP: rezipped(zipped[ZIP], {name: lambda data: change(data, rng)})}

    def weights_pickle(data: bytes, rng: Rng) -> bytes:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith("data.pkl"))
        return rezipped(data, {name: lambda old: mutated(old, rng)})

    kinds: dict[str, Callable[[], Files]] = {
        "zip": lambda: zipped | {ZIP: mutated(zipped[ZIP], rng)},
        "data": lambda: inner("data", mutated),
        "values": lambda: inner("data", with_odd_values),
        "pickles": lambda: inner("data", with_odd_pickle),
        "policy": lambda: inner("policy.pth", mutated),
        "policy-pickle": lambda: inner("policy.pth", weights_pickle),
        "statistics": lambda: zipped | {STATISTICS: mutated(zipped[STATISTICS], rng)},
        "statistics-opcodes": lambda: zipped | {STATISTICS: opcodes(rng)},
        "arguments": lambda: zipped | {"args.yml": mutated(zipped["args.yml"], rng)},
        "description": lambda: own | {DESCRIPTION: mutated(own[DESCRIPTION], rng)},
        "description-values": lambda: own | {DESCRIPTION: with_odd_values(own[DESCRIPTION], rng)},
        "weights": lambda: with_weights(own, mutated(own[WEIGHTS], rng)),
        "weights-header": lambda: with_weights(own, mutated(own[WEIGHTS][:900], rng) + own[WEIGHTS][900:]),
    }
    while True:
        for name, make in kinds.items():
            yield name, make()


def saved(content: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


def space(kind: str, **state: Any) -> dict[str, str]:
    """A stored space with these attributes, as SB3's JSON has it."""
    raw = f"cgym.spaces\n{kind}\n)\x81".encode("latin1") + pickle.dumps(state, 2)[2:-1] + b"b."
    return {":serialized:": base64.b64encode(b"\x80\x02" + raw).decode()}
