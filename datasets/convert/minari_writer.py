"""Writing Minari 0.5, in both of its layouts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np

from imitate.datasets.convert import arrow
from imitate.datasets.convert.minari_spaces import space_to_text
from imitate.datasets.schema import DemoInfo, info_to_plain
from imitate.datasets.trajectory import Trajectory
from imitate.envs.fields import Array, as_dict
from imitate.envs.trust import bare_id
from imitate.errors import InputError

__all__ = ["COLUMNS", "store", "write"]

VERSION = "0.5.4"
"""The version whose files these are."""

COLUMNS = ("observations", "actions", "rewards", "terminations", "truncations")


def store(dataset_id: str) -> Path:
    """Where Minari keeps a data set: MINARI_DATASETS_PATH, or ~/.minari/datasets. Raises InputError for no id."""
    root = os.environ.get("MINARI_DATASETS_PATH")
    parts = dataset_id.split("/")
    if not all(part and part.replace("-", "").replace("_", "").isalnum() for part in parts):
        raise InputError(f"minari:{dataset_id} is no id; wanted such as minari:D4RL/door/human-v2")
    return (Path(root) if root else Path.home() / ".minari" / "datasets").joinpath(*parts)


def write(
    path: Path, info: DemoInfo, episodes: Iterable[Trajectory], labelled: bool, *, layout: str = "hdf5"
) -> None:
    """Images are stored as they are, not as JPEG; labels and provenance in infos and metadata, for us to read back."""
    data = path / "data"
    data.mkdir()
    count = steps = 0
    with ExitStack() as stack:
        add: Any = partial(_add_arrow, data)
        if layout == "hdf5":
            file = stack.enter_context(h5py.File(data / "main_data.hdf5", "w", track_order=True))
            add = partial(_add_hdf5, file)
        for episode in episodes:
            add(count, episode)
            count, steps = count + 1, steps + len(episode)
    metadata = {
        "total_episodes": count,
        "total_steps": steps,
        "data_format": layout,
        "jpeg_encoding": False,
        "observation_space": space_to_text(info.observation_space),
        "action_space": space_to_text(info.action_space),
        "env_spec": _env_spec(info),
        "dataset_id": _dataset_id(path),
        "minari_version": VERSION,
        "algorithm_name": info.expert,
        "dataset_size": round(sum(file.stat().st_size for file in data.rglob("*")) / 1e6, 1),
        "imitate": info_to_plain(info),
        "imitate_labels": labelled,
    }
    (data / "metadata.json").write_text(json.dumps(metadata), "utf-8")


def _add_hdf5(file: h5py.File, number: int, episode: Trajectory) -> None:
    group = file.create_group(f"episode_{number}")
    group.attrs.update({"id": number, "total_steps": len(episode)})
    if episode.info.get("seed", -1) >= 0:
        group.attrs["seed"] = episode.info["seed"]
    for name, rows in zip(COLUMNS, _columns(episode), strict=True):
        _add_rows(group, name, rows)
    if episode.expert_actions is not None:
        group.create_dataset("infos/expert_actions", data=_padded(episode.expert_actions))


def _add_rows(group: h5py.Group, name: str, rows: Any) -> None:
    if isinstance(rows, dict):
        inner = group.create_group(name)
        for key, part in rows.items():
            _add_rows(inner, key, part)
        return
    compression = "gzip" if rows.ndim > 2 and rows.dtype == np.uint8 else None
    group.create_dataset(
        name, data=rows, chunks=True, maxshape=(None, *rows.shape[1:]), compression=compression
    )


def _add_arrow(data: Path, number: int, episode: Trajectory) -> None:
    folder = data / str(number)
    folder.mkdir()
    obs, *rest = _columns(episode)
    columns: dict[str, Any] = {"observations": obs} | {
        name: _padded(rows) for name, rows in zip(COLUMNS[1:], rest, strict=True)
    }
    if episode.expert_actions is not None:
        columns["infos"] = {"expert_actions": _padded(episode.expert_actions)}
    arrow.write(folder / "part-0.arrow", columns)
    seed = episode.info.get("seed", -1)
    metadata = {"id": number, "total_steps": len(episode)} | ({"seed": seed} if seed >= 0 else {})
    (folder / "metadata.json").write_text(json.dumps(metadata), "utf-8")


def _columns(episode: Trajectory) -> tuple[Any, ...]:
    flags = np.zeros((2, len(episode)), bool)
    flags[:, -1] = episode.terminated, episode.truncated
    return as_dict(episode.obs), episode.actions, episode.rewards, *flags


def _padded(rows: Array) -> Array:
    """One row more: infos begin at the reset, and so do all columns in Arrow."""
    return np.concatenate([rows, np.zeros_like(rows[:1])])


def _env_spec(info: DemoInfo) -> str:
    """Gymnasium's description of the environment, as it is registered here."""
    registered = gym.registry.get(bare_id(info.env_id))
    if registered is not None and callable(registered.entry_point):  # only a name can be written
        registered = None
    plain = {} if registered is None else json.loads(registered.to_json())
    unknown: dict[str, Any] = {"entry_point": None, "additional_wrappers": []} if registered is None else {}
    kwargs = dict(info.env_kwargs)
    limit = {"max_episode_steps": kwargs.pop("max_episode_steps")} if "max_episode_steps" in kwargs else {}
    return json.dumps(plain | unknown | limit | {"id": bare_id(info.env_id), "kwargs": kwargs})


def _dataset_id(path: Path) -> str:
    """Of a data set in Minari's folder, or one that is made up from the name."""
    root = store("x").parent.resolve()
    # The folder is written under a name of its own first, `.NAME.1234.partial`.
    final = path.resolve()
    if final.name.endswith(".partial"):
        final = final.with_name(final.name[1:].rsplit(".", 2)[0])
    if final.is_relative_to(root):
        return final.relative_to(root).as_posix()
    return final.name if "-v" in final.name else f"{final.name}-v0"
