"""Foreign experts, damaged or hostile: opened or refused in one line, within 1 GB and 20 s, and nothing runs."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from imitate.envs.make import make_env
from imitate.experts import save_expert

PENDULUM = "Pendulum-v1"
ZIP, STATISTICS, DESCRIPTION, WEIGHTS = (
    f"{PENDULUM}.zip",
    "vecnormalize.pkl",
    "expert.json",
    "policy.safetensors",
)
GIGABYTE = 1 << 30

Files = dict[str, bytes]
Rng = np.random.Generator
Case = tuple[str, Files]


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> tuple[Files, Files]:
    """A zip with its companions, and a folder of ours, of the same small agent."""
    folder = tmp_path_factory.mktemp("agent")
    venv = VecNormalize(DummyVecEnv([lambda: make_env(PENDULUM)]))
    venv.reset()
    model = sb3.SAC("MlpPolicy", venv, buffer_size=10, device="cpu", policy_kwargs={"net_arch": [8]})
    model.save(folder / ZIP)
    venv.save(str(folder / STATISTICS))
    save_expert(folder / "own", model, venv, {"env_id": PENDULUM, "measured": {"mean": -150.0, "std": 80.0}})
    found = {name: (folder / name).read_bytes() for name in (ZIP, STATISTICS)}
    found["args.yml"] = (
        f"!!python/object/apply:collections.OrderedDict\n- - - env\n    - {PENDULUM}\n".encode()
    )
    found["config.yml"] = b"normalize: true\n"
    return found, {name: (folder / "own" / name).read_bytes() for name in (DESCRIPTION, WEIGHTS)}


class _Payload:
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
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(stream, "w", method) as new:
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


def bombs(agents: tuple[Files, Files]) -> Iterator[Case]:
    """Made by hand: what would run, crash, hang or fill the memory."""
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
        "payload": pickle.dumps(_Payload()),
        "inst": b"(S'ran'\nios\nmkdir\n.",
        "huge text": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b".",
        "huge memo": b"\x80\x04Nr\xff\xff\xff\xff.",
    }
    for name, raw in nested.items():
        yield f"statistics-{name}", zipped | {STATISTICS: raw}
        for place in ("policy_kwargs", "observation_space"):
            entry = {place: {":serialized:": base64.b64encode(raw).decode()}}
            yield f"{place}-{name}", _with_data(zipped, entry)
        yield (
            f"policy-{name}",
            _with_policy(zipped, lambda old, raw=raw: rezipped(old, {_pickle_of(old): lambda _: raw})),
        )
        yield f"legacy-{name}", _with_policy(zipped, lambda _, raw=raw: raw)
    one = torch.zeros(1)
    for name, content in {
        "expanded": {"a": one.expand(10**6, 10**6)},
        "sparse": {"a": torch.eye(3).to_sparse()},
        "complex": {"a": torch.zeros(3, dtype=torch.complex64)},
        "payload": {"a": _Payload()},
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
    for name, text in deep.items():
        yield f"data-{name}", zipped | {ZIP: rezipped(zipped[ZIP], {"data": lambda _, text=text: text})}
        yield f"description-{name}", own | {DESCRIPTION: text}
        yield f"results-{name}", zipped | {"results.json": text}
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
    for name, text in yaml.items():
        for file in ("args.yml", "config.yml", "env_kwargs.yml"):
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


def _with_data(zipped: Files, change: dict[str, Any]) -> Files:
    return zipped | {
        ZIP: rezipped(zipped[ZIP], {"data": lambda old: json.dumps(json.loads(old) | change).encode()})
    }


def _with_policy(zipped: Files, change: Callable[[bytes], bytes]) -> Files:
    return zipped | {ZIP: rezipped(zipped[ZIP], {"policy.pth": change})}


def _pickle_of(policy: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(policy)) as archive:
        return next(name for name in archive.namelist() if name.endswith("data.pkl"))


def opened(cases: list[Case], folder: Path) -> dict[str, dict[str, Any]]:
    """What came of each case, opened in a child process, which is started again where one of them ended it."""
    for number, (name, files) in enumerate(cases):
        case = folder / "cases" / f"{number:05d} {name}"
        case.mkdir(parents=True)
        for file, content in files.items():
            (case / file).write_bytes(content)
    (folder / "payload.py").write_text("import os\nos.mkdir('ran')\n")
    results: dict[str, dict[str, Any]] = {}
    script = str(Path(__file__).with_name("open_attacks.py"))
    path = os.pathsep.join([str(folder), str(Path(__file__).parent.parent)])
    while len(results) < len(cases):
        child = subprocess.run(
            [sys.executable, script, str(folder / "cases"), *results],
            cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        for line in child.stdout.splitlines():
            entry = json.loads(line)
            ended = {
                "outcome": f"ended the process: {child.returncode} {child.stderr[-500:]}",
                "peak": 0,
                "seconds": 0,
            }
            results[entry["case"]] = ended if "begun" in entry else entry
        assert child.stdout, child.stderr
    shutil.rmtree(folder / "cases")
    return results


def check(results: dict[str, dict[str, Any]], folder: Path) -> None:
    assert not (folder / "ran").exists(), "code in a file ran"
    bad = {
        case: found
        for case, found in results.items()
        if not found["outcome"].startswith(("opened", "refused: ")) or found["seconds"] > 20
    }
    assert not bad, json.dumps(bad, indent=1)[:20_000]
    first_above = next((case for case, found in results.items() if found["peak"] > GIGABYTE), None)
    assert first_above is None, f"above 1 GB since {first_above}"


def test_the_payload_and_the_pristine_agents_are_real(agents: tuple[Files, Files], tmp_path: Path) -> None:
    results = opened([("zip", agents[0]), ("own", agents[1])], tmp_path)
    assert [found["outcome"] for found in results.values()] == ["opened", "opened"]


def test_a_small_campaign(agents: tuple[Files, Files], tmp_path: Path) -> None:
    random = mutants(agents, seed=0)
    cases = [*bombs(agents), *(next(random) for _ in range(13 * 11))]
    assert len(cases) >= 250
    check(opened(cases, tmp_path), tmp_path)


@pytest.mark.attack
@pytest.mark.timeout(7200)
def test_a_long_campaign(agents: tuple[Files, Files], tmp_path: Path) -> None:
    random = mutants(agents, seed=1)
    outcomes: Counter[str] = Counter()
    for batch in range(10):
        folder = tmp_path / str(batch)
        results = opened([next(random) for _ in range(500)], folder)
        check(results, folder)
        outcomes.update(found["outcome"].partition(":")[0] for found in results.values())
    print(dict(outcomes))
