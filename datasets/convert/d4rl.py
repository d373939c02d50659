"""D4RL: one HDF5 file with one row per step over all episodes. arXiv:2004.07219"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import h5py
import numpy as np

from imitate.datasets.convert import hdf5
from imitate.datasets.convert.ends import as_flags, ends_of_flags
from imitate.datasets.convert.foreign import Notes, most, refused
from imitate.datasets.convert.pieces import Episode, Rows, assembled, marked, spans
from imitate.datasets.convert.recording import Format, Recording
from imitate.datasets.storage.columns import row_bytes
from imitate.datasets.storage.schema import DemoInfo, info_from_plain, info_to_plain
from imitate.envs.spaces import Array

__all__ = ["FORMAT"]

_NEEDED = ("observations", "actions", "rewards", "terminals")
_CHUNK_ROWS = 4096
_OURS = {"labels": "infos/expert_actions", "seeds": "infos/seed"}


def found(path: Path) -> bool:
    if not hdf5.is_hdf5(path):
        return False
    with hdf5.open_hdf5(path) as file:
        return all(isinstance(file.get(name), h5py.Dataset) for name in _NEEDED)


@contextmanager
def read(path: Path, notes: Notes) -> Iterator[Recording]:
    """Episodes end at steps with `terminals` or `timeouts`; if both are set, the task ended."""
    with hdf5.open_hdf5(path) as file, refused(path):
        steps = len(hdf5.dataset(file, "terminals"))
        if "timeouts" not in file:
            notes["timeouts are not stored: only terminals end an episode"] += 1
        # Were it a dataset, its rows would be taken for keys.
        infos = hdf5.group(file, "infos") if "infos" in file else {}
        for name in (key for key in infos if f"infos/{key}" not in _OURS.values()):
            notes[f"infos {name!r} are left out"] += 1
        ends = ends_of_flags(_flags(file, steps), most(path).episodes)
        notes["steps are both terminal and timed out: terminal wins"] += int(
            (ends.terminated & ends.truncated).sum()
        )
        notes["the rows after the last end are an episode that was cut"] += int(
            not (ends.terminated | ends.truncated)[-1:].all()
        )
        stored = hdf5.json_object(file, "imitate")
        info = info_from_plain(stored, path) if stored else None
        labelled = bool(info and _OURS["labels"] in file)
        names = {"obs": "observations", "actions": "actions", "rewards": "rewards"}
        names |= {"expert_actions": _OURS["labels"]} if labelled else {}
        columns = {name: hdf5.rows_of(file, called, steps) for name, called in names.items()}

        def episodes() -> Iterator[Episode]:
            first = 0
            for number, length in enumerate(ends.lengths.tolist()):
                parts = _parts(file, columns, first, length, bool(ends.terminated[number]))
                yield assembled(f"{path}: episode {number}", parts, notes, _seed(file, first))
                first += length

        yield Recording(episodes, info=info, labelled=labelled)


def write(path: Path, info: DemoInfo, episodes: Iterable[Episode], labelled: bool) -> None:  # noqa: ARG001
    """Write `next_observations` too, so that no observation is lost; of two flags, `terminals` is kept."""
    with hdf5.create_hdf5(path) as file:
        file.attrs["imitate"] = json.dumps(info_to_plain(info))
        for piece, last in chain.from_iterable(map(marked, episodes)):
            ends = (np.arange(len(piece)) == len(piece) - 1) & last
            columns = {
                "observations": piece.obs[:-1],
                "next_observations": piece.obs[1:],
                "actions": piece.actions,
                "rewards": piece.rewards,
                "terminals": ends & piece.terminated,
                "timeouts": ends & piece.truncated & (not piece.terminated),
                _OURS["seeds"]: np.full(len(piece), piece.info.get("seed", -1), np.int64),
            }
            if piece.expert_actions is not None:
                columns[_OURS["labels"]] = piece.expert_actions
            for name, rows in columns.items():
                pixels = rows.ndim > 2 and rows.dtype == np.uint8
                hdf5.extend(file, name, rows, chunk_rows=16 if pixels else _CHUNK_ROWS)


def _flags(file: h5py.File, steps: int) -> Iterator[tuple[Array, Array, Array]]:
    """Blocks of terminals, timeouts, and of either (n,)."""
    columns = [hdf5.rows_of(file, name, steps) for name in ("terminals", "timeouts") if name in file]
    for start, stop in spans(steps, sum(map(row_bytes, columns))):
        flags = [as_flags(hdf5.array(each, start, stop).reshape(stop - start), each.name) for each in columns]
        yield flags[0], flags[-1] & (len(flags) > 1), flags[0] | flags[-1]


def _parts(
    file: h5py.File, columns: Mapping[str, h5py.Dataset], first: int, length: int, terminated: bool
) -> Iterator[Rows]:
    for start, stop in spans(length, sum(map(row_bytes, columns.values()))):
        rows = {name: hdf5.array(column, first + start, first + stop) for name, column in columns.items()}
        rows["rewards"] = rows["rewards"].reshape(-1)
        rows |= {"terminated": np.array([terminated]), "truncated": np.array([not terminated])}
        if stop == length and "next_observations" in file:
            following = hdf5.dataset(file, "next_observations")
            rows["obs"] = np.concatenate([rows["obs"], hdf5.array(following, first + stop - 1, first + stop)])
        yield rows


def _seed(file: h5py.File, first: int) -> dict[str, int]:
    if _OURS["seeds"] not in file:
        return {}
    return {"seed": int(hdf5.array(hdf5.dataset(file, _OURS["seeds"]), first, first + 1)[0])}


FORMAT = Format(found, read, write)
