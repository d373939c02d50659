"""`imitation` 1.0: a folder that Hugging Face's `datasets` saved, with one row per trajectory.
https://imitation.readthedocs.io

Infos are never decoded, since they are jsonpickle, which builds any object that the text names. The older `.npz` files
of `imitation` are read by `npz`, without the pickles in them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from imitate.datasets.convert import arrow
from imitate.datasets.convert.ends import as_flags
from imitate.datasets.convert.foreign import Notes, needs, refused
from imitate.datasets.convert.pieces import Episode, pieces_of, whole
from imitate.datasets.convert.recording import Format, Recording
from imitate.datasets.storage.schema import DemoInfo, info_from_plain, info_to_plain
from imitate.datasets.trajectory import Trajectory
from imitate.errors import InputError
from imitate.files import read_json

__all__ = ["FORMAT"]

_COLUMNS = ("obs", "acts", "terminal")
_ON_THE_HUB = "data/train-*.parquet"
_SIDECAR = "imitate.json"
_LARGEST_SIDECAR = 64 << 20
_TERMINAL = "`terminal` is also set at time limits: these episodes count as terminated, whatever ended them"


def found(path: Path) -> bool:
    """True for the layout of `save_to_disk`, and for the hub's."""
    saved = (path / "state.json").is_file() and (path / "dataset_info.json").is_file()
    return saved or (any(path.glob(_ON_THE_HUB)) and not (path / "meta").exists())


@contextmanager
def read(path: Path, notes: Notes) -> Iterator[Recording]:
    with refused(path):
        files = sorted(path.glob(_ON_THE_HUB))
        if not files:
            state = read_json(path / "state.json", dict[str, Any])
            files = [_inside(path, entry) for entry in state.get("_data_files", [])]
        ours: dict[str, Any] = {}
        if (path / _SIDECAR).is_file():
            ours = read_json(path / _SIDECAR, dict[str, Any], limit=_LARGEST_SIDECAR)
        seeds = ours.get("seeds", [])
        flags = ours.get("truncated", [])

        def episodes() -> Iterator[Episode]:
            number = 0
            for file in files:
                is_parquet = file.suffix == ".parquet"
                for batch in arrow.parquet(file, rows=1) if is_parquet else arrow.batches(file):
                    for row in range(batch.num_rows):
                        with refused(f"{path}: trajectory {number}"):
                            seed = int(seeds[number]) if number < len(seeds) else -1
                            truncated = bool(flags[number]) if number < len(flags) else False
                            trajectory = _trajectory(batch.slice(row, 1), seed, truncated, notes)
                            notes[_TERMINAL] += int(trajectory.terminated and not ours)
                        yield pieces_of(trajectory)
                        number += 1

        yield Recording(episodes, info=info_from_plain(ours["info"], path) if "info" in ours else None)


def losses(info: DemoInfo, labelled: bool) -> list[str]:  # noqa: ARG001
    return ["clean labels are lost: `acts` are the noisy actions that were executed"] if labelled else []


def write(path: Path, info: DemoInfo, episodes: Iterable[Episode], labelled: bool) -> None:  # noqa: ARG001
    """Write trajectories with empty infos. Seeds and provenance are in a file that `datasets` ignores."""
    pa = needs("pyarrow")
    name, seeds, truncated = "data-00000-of-00001.arrow", [], []
    schema, writer = None, None
    with ExitStack() as stack:
        for pieces in episodes:
            episode = whole(pieces, "imitation")
            columns = {"obs": episode.obs, "acts": episode.actions, "rews": episode.rewards}
            arrays = {name: _row(rows) for name, rows in columns.items()}
            arrays["infos"] = pa.array([["{}"] * len(episode)])
            arrays["terminal"] = pa.array([episode.terminated])
            batch = pa.RecordBatch.from_pydict(arrays)
            if writer is None:
                schema = batch.schema
                file = stack.enter_context(pa.OSFile(str(path / name), "wb"))
                writer = stack.enter_context(pa.ipc.new_stream(file, schema))
            writer.write_batch(batch)
            seeds.append(episode.info.get("seed", -1))
            truncated.append(episode.truncated)
    features = {field.name: _feature(field.type) for field in schema or ()}
    documents: dict[str, Any] = {
        "dataset_info.json": {
            "citation": "",
            "description": "",
            "features": features,
            "homepage": "",
            "license": "",
        },
        "state.json": {
            "_data_files": [{"filename": name}],
            "_fingerprint": "0" * 16,
            "_format_columns": None,
            "_format_kwargs": {},
            "_format_type": None,
            "_output_all_columns": False,
            "_split": None,
        },
        _SIDECAR: {"info": info_to_plain(info), "seeds": seeds, "truncated": truncated},
    }
    for file_name, document in documents.items():
        (path / file_name).write_text(json.dumps(document), "utf-8")


def _trajectory(batch: Any, seed: int, truncated: bool, notes: Notes) -> Trajectory:
    obs, acts, terminal = (arrow.numbers(arrow.column(batch, name))[0] for name in _COLUMNS)
    if "infos" in batch.schema.names:
        notes["infos are left out: they are jsonpickle, which is never decoded"] += 1
    rewards = np.zeros(len(acts), np.float32)
    if "rews" in batch.schema.names:
        rewards = arrow.numbers(arrow.column(batch, "rews"))[0]
    else:
        notes["rewards are absent and become 0"] += 1
    terminated = bool(as_flags(terminal, "terminal"))
    return Trajectory(obs, acts, rewards, terminated, truncated, info={"seed": seed})


def _row(rows: Any) -> Any:
    """An array (T, ...) as one row of nested lists."""
    pa = needs("pyarrow")
    array = pa.array(np.ascontiguousarray(rows).reshape(-1))
    for count, length in reversed([(int(np.prod(rows.shape[:n])), rows.shape[n]) for n in range(rows.ndim)]):
        array = pa.ListArray.from_arrays(pa.array(np.arange(count + 1) * length, pa.int32()), array)
    return array


def _feature(kind: Any) -> dict[str, Any]:
    """The feature by which `datasets` describes an Arrow type."""
    pa = needs("pyarrow")
    if pa.types.is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "Sequence"}
    names = {"float": "float32", "double": "float64"}
    return {"dtype": names.get(str(kind), str(kind)), "_type": "Value"}


def _inside(path: Path, entry: Any) -> Path:
    name = entry.get("filename") if isinstance(entry, dict) else None
    if not isinstance(name, str) or Path(name).name != name or not (path / name).is_file():
        raise InputError(f"it names a data file {name!r} that is not in its folder")
    return path / name


FORMAT = Format(found, read, write, losses, folder=True)
