"""D4RL: one HDF5 file with a row a step over all episodes. arXiv:2004.07219"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from imitate.datasets.convert import hdf5
from imitate.datasets.convert.recording import Notes, Recording, ended, refused
from imitate.datasets.schema import DemoInfo, info_from_plain, info_to_plain
from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = ["FOLDER", "found", "losses", "read", "write"]

FOLDER = False
_NEEDED = ("observations", "actions", "rewards", "terminals")
_CHUNK_ROWS = 4096
_OURS = {"labels": "infos/expert_actions", "seeds": "infos/seed"}


def found(path: Path) -> bool:
    if not hdf5.is_hdf5(path):
        return False
    with hdf5.open_hdf5(path) as file:
        return all(isinstance(file.get(name), h5py.Dataset) for name in _NEEDED)


@contextmanager
def read(path: Path, keys: Sequence[str], notes: Notes) -> Iterator[Recording]:  # noqa: ARG001
    """Episodes end where `terminals` or `timeouts` are set; where both are, the task ended."""
    with hdf5.open_hdf5(path) as file, refused(path):
        terminals = hdf5.array(file, "terminals").reshape(-1).astype(bool)
        steps = len(terminals)
        timeouts = np.zeros(steps, bool)
        if "timeouts" in file:
            timeouts = hdf5.array(file, "timeouts", 0, steps).reshape(-1).astype(bool)
        else:
            notes["timeouts are not stored: only terminals end an episode"] += 1
        for name in _NEEDED[:3]:
            if len(hdf5.dataset(file, name)) != steps:
                raise InputError(f"{name} have {len(file[name])} rows, terminals have {steps}")
        notes["steps are both terminal and timed out: terminal wins"] += int((terminals & timeouts).sum())
        for name in (key for key in file.get("infos", ()) if f"infos/{key}" not in _OURS.values()):
            notes[f"infos {name!r} are left out"] += 1
        ends = np.flatnonzero(terminals | timeouts)
        if steps and (not len(ends) or ends[-1] != steps - 1):
            notes["the rows after the last end are an episode that was cut"] += 1
            ends = np.append(ends, steps - 1)
        stored = hdf5.text(file, "imitate")
        info = info_from_plain(_json(stored), path) if stored else None
        labelled = bool(info and _OURS["labels"] in file)

        def episodes() -> Iterator[Trajectory]:
            start = 0
            for number, end in enumerate(ends.tolist()):
                with refused(f"{path}: episode {number}"):
                    episode = _episode(file, start, end + 1, bool(terminals[end]), labelled, notes)
                    if episode is not None:
                        yield episode
                start = end + 1

        yield Recording(episodes, info=info, labelled=labelled)


def losses(info: DemoInfo, labelled: bool) -> list[str]:  # noqa: ARG001
    return []


def write(path: Path, info: DemoInfo, episodes: Iterable[Trajectory], labelled: bool) -> None:  # noqa: ARG001
    """With `next_observations`, so that nothing is lost."""
    with h5py.File(path, "w") as file:
        file.attrs["imitate"] = json.dumps(info_to_plain(info))
        file["metadata/env_id"] = info.env_id
        for episode in episodes:
            ends = np.arange(len(episode)) == len(episode) - 1
            columns = {
                "observations": episode.obs[:-1],
                "next_observations": episode.obs[1:],
                "actions": episode.actions,
                "rewards": episode.rewards,
                "terminals": ends & episode.terminated,
                "timeouts": ends & episode.truncated & (not episode.terminated),
                _OURS["seeds"]: np.full(len(episode), episode.info.get("seed", -1), np.int64),
            }
            if episode.expert_actions is not None:
                columns[_OURS["labels"]] = episode.expert_actions
            for name, rows in columns.items():
                _append(file, name, rows)


def _append(file: h5py.File, name: str, rows: Array) -> None:
    if name not in file:
        pixels = rows.ndim > 2 and rows.dtype == np.uint8
        chunk = 16 if pixels else _CHUNK_ROWS
        file.create_dataset(
            name,
            (0, *rows.shape[1:]),
            rows.dtype,
            maxshape=(None, *rows.shape[1:]),
            chunks=(chunk, *rows.shape[1:]),
            compression="gzip" if pixels else None,
        )
    column = file[name]
    column.resize(len(column) + len(rows), axis=0)
    column[-len(rows) :] = rows


def _episode(
    file: h5py.File, start: int, stop: int, terminated: bool, labelled: bool, notes: Notes
) -> Trajectory | None:
    obs, actions, rewards = (hdf5.array(file, name, start, stop) for name in _NEEDED[:3])
    more: dict[str, Any] = {}
    if _OURS["seeds"] in file:
        more["info"] = {"seed": int(hdf5.array(file, _OURS["seeds"], start, start + 1)[0])}
    if labelled:
        more["expert_actions"] = hdf5.array(file, _OURS["labels"], start, stop)
    rewards = rewards.reshape(-1)
    if "next_observations" not in file:
        return ended(obs, actions, rewards, terminated, not terminated, notes, **more)
    last = hdf5.array(file, "next_observations", stop - 1, stop)
    return Trajectory(np.concatenate([obs, last]), actions, rewards, terminated, not terminated, **more)


def _json(value: str) -> dict[str, Any]:
    try:
        data = json.loads(value)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise InputError("its attribute 'imitate' is no JSON object")
    return data
