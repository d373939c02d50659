"""Agents' files that claim more than they hold: sizes, depths, aliases and links."""

from __future__ import annotations

import base64
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from expert_mutants import (
    DESCRIPTION,
    STATISTICS,
    WEIGHTS,
    ZIP,
    Case,
    Files,
    Payload,
    rezipped,
    saved,
    space,
    with_weights,
)


def bombs(agents: tuple[Files, Files], *, everywhere: bool = True) -> Iterator[Case]:
    """Made by hand: they would run, crash, hang or fill the memory.

    everywhere    each in every place that could hold it, else each in some places and every place with some of them
    """
    zipped, own = agents
    nested = {
        "tuples": b"\x80\x04)" + b"\x85" * 49_000 + b".",
        "keys": b"\x80\x04})" + b"\x85" * 49_000 + b"Ns.",
        "lists": b"\x80\x04" + b"]" * 24_000 + b"a" * 23_999 + b".",
        "more tuples": b"\x80\x04)" + b"\x85" * 200_000 + b".",
        "doubled": b"\x80\x04N" + b"2\x86" * 60 + b".",
        "doubled key": b"\x80\x04}N" + b"2\x86" * 60 + b"Ns.",
        "doubled member": b"\x80\x04\x8f(N" + b"2\x86" * 60 + b"\x90.",
        "itself": b"\x80\x04]q\x00h\x00a.",
        "payload": pickle.dumps(Payload()),
        "inst": b"(S'ran'\nios\nmkdir\n.",
        "huge text": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b".",
        "huge memo": b"\x80\x04Nr\xff\xff\xff\xff.",
    }
    for number, (name, raw) in enumerate(nested.items()):
        planted = _pickled(zipped, raw)
        for place in (
            planted if everywhere else [list(planted)[n % len(planted)] for n in (number, number + 2)]
        ):
            yield f"{place}-{name}", planted[place]()
    one = torch.zeros(1)
    for name, content in {
        "expanded": {"a": one.expand(10**6, 10**6)},
        "sparse": {"a": torch.eye(3).to_sparse()},
        "complex": {"a": torch.zeros(3, dtype=torch.complex64)},
        "payload": {"a": Payload()},
        "nested": {"a": {"b": one}},
        "list": [one],
        "same storage": dict.fromkeys([f"actor.latent_pi.{n}.weight" for n in range(84)], torch.zeros(2**20)),
        "empty": {"actor.mu.weight": torch.zeros(0, 8), "actor.latent_pi.0.weight": torch.zeros(8, 0)},
        "conv": {
            "actor.features_extractor.cnn.0.weight": torch.zeros(8, 1, 1, 1),
            "actor.mu.weight": torch.zeros(1, 8),
        },
    }.items():
        yield f"tensors-{name}", _with_policy(zipped, lambda _, content=content: saved(content))
    zeros = bytes(140 << 20)
    deflated = rezipped(zipped[ZIP], {"policy.pth": lambda _: zeros}, zipfile.ZIP_DEFLATED)
    yield "inflated policy", zipped | {ZIP: deflated}
    yield (
        "inflated data",
        zipped | {ZIP: rezipped(zipped[ZIP], {"data": lambda _: zeros[: 20 << 20]}, zipfile.ZIP_DEFLATED)},
    )

    def bloated(policy: bytes) -> bytes:
        storage = f"{_pickle_of(policy).removesuffix('data.pkl')}data/0"
        return rezipped(policy, {storage: lambda _: zeros}, zipfile.ZIP_DEFLATED)

    yield "inflated storage", _with_policy(zipped, bloated)
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        yield f"method {method}", zipped | {ZIP: rezipped(zipped[ZIP], {}, method)}
    wide = {f"low {shape}": shape for shape in ((10**5, 10**4), (2**16, 2**15), (0,), (3,))}
    for name, shape in wide.items():
        low = np.zeros((shape[0], *[1] * (len(shape) - 1)), np.float32)
        entry = space("Box", low=low, high=np.ones(shape[1:], np.float32))
        yield f"box-{name}", _with_data(zipped, {"observation_space": entry})
    for name, n in {"infinite": np.inf, "nan": np.nan, "huge": 2**40, "none": None}.items():
        entry = space("Discrete", n=n, start=0)
        yield f"discrete-{name}", _with_data(zipped, {"observation_space": entry, "action_space": entry})
    deep = {
        "arrays": b"[" * 200_000,
        "objects": b'{"a":' * 200_000,
        "digits": b"9" * 500_000,
        "spaces": b" " * 17_000_000,
    }
    for number, (name, text) in enumerate(deep.items()):
        written = {
            "data": zipped | {ZIP: rezipped(zipped[ZIP], {"data": lambda _, text=text: text})},
            "description": own | {DESCRIPTION: text},
            "results": zipped | {"results.json": text},
        }
        for place in written if everywhere else [list(written)[number % len(written)]]:
            yield f"{place}-{name}", written[place]
    laughs = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    yaml = {
        "laughs": laughs + "env_kwargs: *a59\n",
        "cycle": "env_kwargs: &a [*a]\n",
        "deep": "[" * 1_000,
        "large": "- 1\n" * 20_000,
        "payload": "env: payload:X-v0\n",
        "run": 'env_kwargs: !!python/object/apply:os.mkdir ["ran"]\n',
        "literal": "env: Pendulum-v1\nenv_kwargs: '" + "(" * 60_000 + "'\n",
        "digits": f"env_kwargs: {'9' * 10_000}\n",
    }
    arguments = "args.yml", "config.yml", "env_kwargs.yml"
    for number, (name, text) in enumerate(yaml.items()):
        for file in arguments if everywhere else [arguments[(number + 2) % len(arguments)]]:
            yield f"{file}-{name}", zipped | {file: text.encode()}
    described = json.loads(own[DESCRIPTION])
    changes: dict[str, dict[str, Any]] = {
        "payload": {"env_id": "payload:X-v0"},
        "long": {"env_id": "x" * 10_000},
        "wide": {
            "observation_space": {
                "type": "Box",
                "low": 0,
                "high": 1,
                "shape": [10**6, 10**6],
                "dtype": "float32",
            }
        },
        "many": {"action_space": {"type": "Discrete", "n": 10**12, "start": 0}},
        "object": {"observation_space": {"type": "Box", "low": 0, "high": 1, "shape": [3], "dtype": "O"}},
        "ragged": {"normalisation": described["normalisation"] | {"mean": [[1.0], [1.0, 2.0]]}},
        "negative": {"normalisation": described["normalisation"] | {"var": [-1.0, 1.0, 1.0]}},
        "extra": {"normalisation": described["normalisation"] | {"__class__": "x"}},
        "kwargs": {"env_kwargs": {"render_mode": "human", "id": 3, "g": "heavy"}},
    }
    for name, change in changes.items():
        yield f"description-{name}", own | {DESCRIPTION: json.dumps(described | change).encode()}
    for name, header in {"long": b"\xff" * 7 + b"\x7f", "nothing": bytes(8), "deep": None}.items():
        text = b'{"a":' * 100_000
        weights = struct.pack("<Q", len(text)) + text if header is None else header + own[WEIGHTS][8:]
        yield f"safetensors-{name}", with_weights(own, weights)
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        for n in range(30_000):
            archive.writestr(f"{n}", b"")
    yield "many members", zipped | {ZIP: many.getvalue()}


def _pickled(zipped: Files, raw: bytes) -> dict[str, Callable[[], Files]]:
    """This pickle in each place that a zip has for one."""

    def serialized(place: str) -> Files:
        return _with_data(zipped, {place: {":serialized:": base64.b64encode(raw).decode()}})

    return {
        "statistics": lambda: zipped | {STATISTICS: raw},
        "policy_kwargs": lambda: serialized("policy_kwargs"),
        "observation_space": lambda: serialized("observation_space"),
        "policy": lambda: _with_policy(zipped, lambda old: rezipped(old, {_pickle_of(old): lambda _: raw})),
        "legacy": lambda: _with_policy(zipped, lambda _: raw),
    }


def _with_data(zipped: Files, change: dict[str, Any]) -> Files:
    return zipped | {
        ZIP: rezipped(zipped[ZIP], {"data": lambda old: json.dumps(json.loads(old) | change).encode()})
    }


def _with_policy(zipped: Files, change: Callable[[bytes], bytes]) -> Files:
    return zipped | {ZIP: rezipped(zipped[ZIP], {"policy.pth": change})}


def _pickle_of(policy: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(policy)) as archive:
        return next(name for name in archive.namelist() if name.endswith("data.pkl"))
