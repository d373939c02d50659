"""Data sets of other formats whose parts are wrong, not their bytes: types, shapes, counts, links, documents."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["PLANTED", "twist"]

PLANTED = "planted"
"""The file that appears where code of a data set runs, and the module that makes it."""

_TEXTS = [
    "",
    "x" * 100_000,
    "../../../../etc/passwd",
    "/etc/passwd",
    f"{PLANTED}:Env-v0",
    "os:system",
    "CartPole-v1",
    "\x1b[31mred\x1b[0m\n",
    '{"py/reduce": [{"py/function": "os.mkdir"}, {"py/tuple": ["planted"]}]}',
    "{chunk_index.__class__}",
    "[" * 50_000,
]
_NUMBERS = [0, -1, 1, 3, 7.5, 2**31, 2**40, 2**63, 10**400, 1e308, float("nan"), float("inf"), -float("inf")]


class Planted:
    """Makes the file when it is unpickled."""

    def __reduce__(self) -> Any:
        return (os.mkdir, (PLANTED,))


def junk(rng: np.random.Generator) -> Any:
    """A value of JSON that nobody expects."""
    deep: Any = []
    for _ in range(int(rng.integers(1, 500))):
        deep = [deep]
    pools: list[list[Any]] = [
        _TEXTS,
        _NUMBERS,
        [None, True, False],
        [[], {}, deep, [1] * 10_000, ["F" * 3000] * 3000, {"size": 10**9}, {"desc": ["F" * 300] * 300}],
    ]
    pool = pools[int(rng.integers(len(pools)))]
    return pool[int(rng.integers(len(pool)))]


def twisted(document: Any, rng: np.random.Generator) -> Any:
    """The JSON document with something in it replaced, taken away or added."""
    if isinstance(document, str) and document[:1] in "{[" and rng.random() < 0.7:  # JSON in JSON
        try:
            return json.dumps(twisted(json.loads(document), rng))
        except ValueError:
            pass
    inside: list[Any] = list(document) if isinstance(document, dict) else []
    inside = list(range(len(document))) if isinstance(document, list) else inside
    if not inside or rng.random() < 0.15:
        return junk(rng)
    key = inside[int(rng.integers(len(inside)))]
    kind = rng.random()
    if kind < 0.15:
        del document[key]
    elif kind < 0.25 and isinstance(document, dict):
        document[str(junk(rng))[:100_000]] = document[key]
    else:
        document[key] = twisted(document[key], rng)
    return document


def array_of(rng: np.random.Generator, rows: int) -> np.ndarray[Any, Any]:
    """Rows of some type and shape."""
    count = [rows, rows, rows + 1, 0, 1, 3 * rows, 100_000][int(rng.integers(7))]
    shape = [(), (1,), (2,), (3,), (0,), (4, 5), (32, 34, 3), (1000,)][int(rng.integers(8))]
    count = min(count, 4_000_000 // max(1, int(np.prod(shape))))
    kind = ["f8", "f4", "f2", ">f8", "i8", "u1", "?", "i2", "u8", "c16", "S5", "M8[s]"][int(rng.integers(12))]
    odd = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0, -1.0, 300.0, np.nan, np.inf, 1e300]
    values = rng.choice(odd, (count, *shape))
    with np.errstate(all="ignore"):
        if kind[0] == "M":
            return np.zeros((count, *shape), kind)
        return (np.nan_to_num(values) if np.dtype(kind).kind in "iub" else values).astype(kind)


def storable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same for an HDF5 file, which knows no dates: they are stored as opaque values."""
    return array.astype(h5py.opaque_dtype(array.dtype)) if array.dtype.kind == "M" else array


def arrow_of(rng: np.random.Generator, rows: int) -> pa.Array:
    """A column of a type that nobody expects; some take few bytes for what they claim."""
    kinds: list[Callable[[], pa.Array]] = [
        lambda: pa.nulls(rows),
        lambda: pa.array([None, *range(rows - 1)]),
        lambda: pa.array(["text"] * rows),
        lambda: pa.array([b"\x89PNG"] * rows),
        lambda: pa.array([[1.0] * (n % 3) for n in range(rows)]),
        lambda: pa.array([[[1.0]] * 2 for _ in range(rows)]),
        lambda: pa.array([{"bytes": b"x", "path": "/etc/passwd"}] * rows),
        lambda: pa.array(rng.integers(-5, 5, rows)),
        lambda: pa.array(rng.standard_normal(rows).astype(np.float16)),
        lambda: pa.array(np.full(rows, np.nan)),
        lambda: pa.array(np.zeros(rows, np.int64)).dictionary_encode(),
        lambda: pa.array([True] * rows),
        lambda: pa.array([10**12] * rows, pa.timestamp("us")),
        lambda: pa.array([{"a": 1, "b": [1, 2]}] * rows),
        lambda: pa.ListArray.from_arrays(
            pa.array([0] + [20_000_000] * rows, pa.int32()), pa.array(np.zeros(20_000_000, np.uint8))
        ),
        lambda: pa.array(np.full(rows, 2**62)),
        lambda: pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows * 5)), 5),
    ]
    return kinds[int(rng.integers(len(kinds)))]()


def twist_table(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    place, kind = int(rng.integers(table.num_columns)), rng.random()
    name = table.schema.names[place]
    if kind < 0.15:
        return table.drop_columns([name])
    if kind < 0.25:
        return table.slice(0, int(rng.integers(table.num_rows + 1)))
    if kind < 0.35:
        return pa.concat_tables([table] * int(rng.integers(2, 400)))
    if kind < 0.45:  # what compresses to nothing
        most = 60_000_000 // max(8, table.nbytes // max(1, table.num_rows))
        return table.take(pa.array(np.zeros(int(rng.integers(1, most)), np.int64)))
    if kind < 0.5:
        return table.rename_columns([name] * table.num_columns)
    return table.set_column(place, name, arrow_of(rng, table.num_rows))


def twist_parquet(path: Path, rng: np.random.Generator) -> None:
    table = twist_table(pq.read_table(path), rng)
    packed = ["snappy", "zstd", "gzip", "none"][int(rng.integers(4))]
    pq.write_table(table, path, compression=packed, use_dictionary=bool(rng.integers(2)))


def twist_arrow(path: Path, rng: np.random.Generator) -> None:
    data = path.read_bytes()
    whole = data.startswith(b"ARROW1")
    table = twist_table((pa.ipc.open_file if whole else pa.ipc.open_stream)(data).read_all(), rng)
    options = pa.ipc.IpcWriteOptions(compression=[None, "zstd", "lz4"][int(rng.integers(3))])
    with (pa.ipc.new_file if rng.integers(2) else pa.ipc.new_stream)(
        str(path), table.schema, options=options
    ) as file:
        file.write_table(table, max_chunksize=int(rng.integers(1, 50)))


def twist_hdf5(path: Path, rng: np.random.Generator) -> None:
    with h5py.File(path, "a") as file:
        objects: list[str] = []
        file.visit(objects.append)
        if rng.random() < 0.3 or not objects:
            _twist_attributes(file, file[objects[int(rng.integers(len(objects)))]] if objects else file, rng)
            return
        name = objects[int(rng.integers(len(objects)))]
        rows = len(file[name]) if isinstance(file[name], h5py.Dataset) and file[name].shape else 3
        del file[name]
        makers: list[Callable[[], Any]] = [
            lambda: None,
            lambda: file.create_group(name),
            lambda: file.create_dataset(name, data=storable(array_of(rng, rows))),
            lambda: file.create_dataset(name, data=["text"] * rows),
            lambda: file.create_dataset(name, data=b"one"),
            lambda: file.create_dataset(name, data=h5py.Empty("f8")),
            lambda: file.create_dataset(name, (rows,), h5py.vlen_dtype(np.uint8)),
            lambda: file.create_dataset(name, (rows,), np.dtype([("a", "f8"), ("b", "i4", (3,))])),
            lambda: file.create_dataset(name, (1 << 40,), "u1", chunks=(1 << 20,)),
            lambda: file.create_dataset(
                name, (1 << 16, 1 << 10), "f8", chunks=(1 << 10, 1 << 10), compression="gzip"
            ),
            lambda: file.create_dataset(name, (rows,), "f8", fillvalue=np.nan),
            lambda: file.__setitem__(name, h5py.SoftLink("/")),
            lambda: file.__setitem__(name, h5py.ExternalLink("/etc/passwd", "/")),
        ]
        makers[int(rng.integers(len(makers)))]()


def _twist_attributes(file: h5py.File, found: Any, rng: np.random.Generator) -> None:
    named = [(one, name) for one in (file, found, file.get("data", file)) for name in one.attrs]
    if not named:
        return
    one, name = named[int(rng.integers(len(named)))]
    value = one.attrs[name]
    new = twisted(value, rng) if isinstance(value, str) else junk(rng)
    del one.attrs[name]
    try:
        one.attrs[name] = new if isinstance(new, str | bool | float) else json.dumps(new)
    except (OSError, ValueError, RuntimeError):  # too large for an attribute
        one.attrs[name] = "{}"


def twist_npz(path: Path, rng: np.random.Generator) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name, kind = list(members)[int(rng.integers(len(members)))], rng.random()
    data = io.BytesIO()
    if kind < 0.2:
        pickled = np.empty(3, object)
        pickled[:] = [Planted()] * 3
        np.lib.format.write_array(data, pickled, allow_pickle=True)
    elif kind < 0.3:
        data.write(pickle.dumps(Planted()))
    elif kind < 0.6:
        shape = tuple(int(rng.choice([0, 1, 3, 12, 2**20, 2**33])) for _ in range(int(rng.integers(4))))
        descr = ["<f8", "|u1", "|O", "<U9", "<M8[s]", ">f4", "|b1", "|V8"][int(rng.integers(8))]
        header = {"descr": descr, "fortran_order": bool(rng.integers(2)), "shape": shape}
        np.lib.format.write_array_header_1_0(data, header)
        data.write(bytes(int(rng.choice([0, 100, 10_000, 100_000_000]))))
    elif kind < 0.7:
        del members[name]
    else:
        np.lib.format.write_array(data, array_of(rng, 12))
    if data.getvalue():
        members[name] = data.getvalue()
    packing = [*[zipfile.ZIP_DEFLATED] * 3, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
    with zipfile.ZipFile(path, "w", packing[int(rng.integers(6))]) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        if rng.random() < 0.2:
            more = ["dones.npy", "indices.npy", "lengths.npy", "next_obs.npy"][int(rng.integers(4))]
            archive.writestr(more, members[name])


def twist_csv(path: Path, rng: np.random.Generator) -> None:
    lines = [line.split(",") for line in path.read_text("utf-8").splitlines()]
    cells = [
        "",
        "nan",
        "1e999",
        "0x10",
        '"',
        "1" * 5000,
        "-",
        "\0",
        "é",
        "True",
        "1;2",
        "\x1b[31m",
        "=1+1",
        "1_000",
    ]
    for _ in range(int(rng.integers(1, 4))):
        line = lines[0 if rng.random() < 0.3 else int(rng.integers(len(lines)))]
        line[int(rng.integers(len(line)))] = cells[int(rng.integers(len(cells)))]
    if rng.random() < 0.2:
        lines.insert(int(rng.integers(len(lines))), ["1"] * int(rng.integers(1, 5000)))
    end = ["\n", "\r", "\r\n", ",\n", "\n\n"][int(rng.integers(5))]
    encoding = ["utf-8", "utf-8", "utf-8", "utf-8", "utf-16", "utf-8-sig"][int(rng.integers(6))]
    path.write_text(end.join(map(",".join, lines)), encoding)


def twist_film(path: Path, rng: np.random.Generator) -> None:
    size = [(32, 34), (64, 64), (2160, 3840), (16, 16), (4096, 4096)][int(rng.integers(5))]
    codec = ["libx264", "mpeg4", "mjpeg", "libx264rgb"][int(rng.integers(4))]
    path.unlink()
    with av.open(
        str(path), "w", format=["mp4", "matroska", "avi"][int(rng.choice(3, p=[0.8, 0.1, 0.1]))]
    ) as container:
        for _ in range(1 + int(rng.random() < 0.1)):
            stream = container.add_stream(codec, rate=int(rng.choice([1, 30, 1000])))
            stream.height, stream.width = size
            stream.pix_fmt = {"mjpeg": "yuvj420p", "libx264rgb": "rgb24"}.get(codec, "yuv420p")
            stream.thread_count = 1
        picture = av.VideoFrame.from_ndarray(np.zeros((*size, 3), np.uint8), format="rgb24")
        for _ in range(int(rng.choice([0, 1, 7, 12, 40 if size[0] > 100 else 2000]))):
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))


def twist_json(path: Path, rng: np.random.Generator) -> None:
    path.write_text(json.dumps(twisted(json.loads(path.read_text("utf-8")), rng)), encoding="utf-8")


def no_file(path: Path, rng: np.random.Generator) -> None:
    """Something that is no file in its place."""
    path.unlink()
    kind = rng.integers(4)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to("/dev/zero")
    else:
        path.symlink_to(path.name)


_BY_SUFFIX: dict[str, Callable[[Path, np.random.Generator], None]] = {
    ".json": twist_json,
    ".parquet": twist_parquet,
    ".arrow": twist_arrow,
    ".hdf5": twist_hdf5,
    ".npz": twist_npz,
    ".csv": twist_csv,
    ".mp4": twist_film,
}


def twist(source: Path, target: Path, rng: np.random.Generator) -> None:
    """A copy of a good data set with one of its files changed, and half of the time without what we wrote beside."""
    (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    if rng.random() < 0.5:
        _without_ours(target)
    files = sorted(path for path in target.rglob("*") if path.is_file()) if target.is_dir() else [target]
    file = files[int(rng.integers(len(files)))]
    if rng.random() < 0.06:
        no_file(file, rng)
    else:
        _BY_SUFFIX[file.suffix](file, rng)


def _without_ours(path: Path) -> None:
    for name in ("imitate.json", "meta/imitate.json", "meta/imitate_final.parquet"):
        (path / name).unlink(missing_ok=True) if path.is_dir() else None
    metadata = path / "data" / "metadata.json"
    if metadata.is_file():
        kept = {
            name: value
            for name, value in json.loads(metadata.read_text("utf-8")).items()
            if "imitate" not in name
        }
        metadata.write_text(json.dumps(kept))
    if path.suffix == ".hdf5":
        with h5py.File(path, "a") as file:
            for found in (file, file.get("data")):
                if found is not None and "imitate" in found.attrs:
                    del found.attrs["imitate"]
