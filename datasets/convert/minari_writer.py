"""Writes Minari 0.5, in both of its layouts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from gymnasium.envs.registration import EnvSpec, WrapperSpec
from gymnasium.wrappers import TimeLimit

from imitate.datasets.convert import arrow, hdf5
from imitate.datasets.convert.minari_spaces import space_to_text
from imitate.datasets.convert.pieces import Episode, marked, whole
from imitate.datasets.storage.contain import check_env
from imitate.datasets.storage.schema import DemoInfo, info_to_plain
from imitate.datasets.trajectory import Trajectory
from imitate.envs.answers import closing_env
from imitate.envs.fields import Array, as_dict
from imitate.envs.make import Env, make_env
from imitate.envs.structured import structured
from imitate.envs.trust import bare_id
from imitate.errors import InputError
from imitate.files import home

__all__ = ["env_spec", "store", "write"]

VERSION = "0.5.4"
"""The version of Minari whose files are written."""

_ID = re.compile(r"(?:[-\w][-\w/]*[-\w]/)?[-\w]+-v\d+")
"""minari.dataset.minari_dataset.DATASET_ID_RE, with a version, which its parser needs."""

COLUMNS = ("observations", "actions", "rewards", "terminations", "truncations")


def store(dataset_id: str) -> Path:
    """The folder of a data set in MINARI_DATASETS_PATH, or ~/.minari/datasets. Raises InputError if it is not an id."""
    check_id(dataset_id)
    return _root().joinpath(*dataset_id.split("/"))


def check_id(dataset_id: str) -> None:
    """Raise InputError for ids that Minari can't parse. A single one in its folder would keep Minari from listing any
    data set."""
    if not _ID.fullmatch(dataset_id) or "" in dataset_id.split("/"):
        raise InputError(
            f"minari:{dataset_id} is no id of Minari's; wanted a version, and namespaces of two letters or more, such "
            "as minari:D4RL/door/human-v2"
        )


def _root() -> Path:
    root = os.environ.get("MINARI_DATASETS_PATH")
    return Path(root) if root else home() / ".minari" / "datasets"


def write(
    path: Path, info: DemoInfo, episodes: Iterable[Episode], labelled: bool, *, layout: str = "hdf5"
) -> None:
    """Images are stored raw, not as JPEG. Labels and provenance are in infos and metadata, from which `read` restores
    them."""
    data, dataset_id = path / "data", _dataset_id(path)
    data.mkdir()
    count = steps = 0
    with ExitStack() as stack:
        add: Any = partial(_add_arrow, data)
        if layout == "hdf5":
            file = stack.enter_context(hdf5.create_hdf5(data / "main_data.hdf5", track_order=True))
            add = partial(_add_hdf5, file)
        for episode in episodes:
            steps += add(count, episode)
            count += 1
    metadata = {
        "total_episodes": count,
        "total_steps": steps,
        "data_format": layout,
        "jpeg_encoding": False,
        "observation_space": space_to_text(info.observation_space),
        "action_space": space_to_text(info.action_space),
        "env_spec": env_spec(info),
        "dataset_id": dataset_id,
        "minari_version": VERSION,
        "algorithm_name": info.expert,
        "dataset_size": round(sum(file.stat().st_size for file in data.rglob("*")) / 1e6, 1),
        "imitate": info_to_plain(info),
        "imitate_labels": labelled,
    }
    (data / "metadata.json").write_text(json.dumps(metadata), "utf-8")


def _add_hdf5(file: h5py.File, number: int, episode: Episode) -> int:
    """Add an episode; returns its number of steps."""
    group, steps = file.create_group(f"episode_{number}"), 0
    for piece, last in marked(episode):
        for name, rows in zip(COLUMNS, _columns(piece, last), strict=True):
            _add_rows(group, name, rows, skip=int(name == "observations" and steps > 0))
        if piece.expert_actions is not None:
            labels = _padded(piece.expert_actions) if last else piece.expert_actions
            hdf5.extend(group, "infos/expert_actions", labels)
        steps += len(piece)
    group.attrs.update({"id": number, "total_steps": steps})
    if piece.info.get("seed", -1) >= 0:
        group.attrs["seed"] = piece.info["seed"]
    return steps


def _add_rows(group: h5py.Group, name: str, rows: Any, *, skip: int) -> None:
    """Append rows except the first `skip`, which are there already."""
    if isinstance(rows, dict):
        for key, part in rows.items():
            _add_rows(group.require_group(name), key, part, skip=skip)
    else:
        hdf5.extend(group, name, rows[skip:])


def _add_arrow(data: Path, number: int, pieces: Episode) -> int:
    """Add an episode as one batch, which is what Minari reads; returns its number of steps."""
    episode = whole(pieces, "minari-arrow")
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
    return len(episode)


def _columns(episode: Trajectory, last: bool = True) -> tuple[Any, ...]:
    flags = np.zeros((2, len(episode)), bool)
    flags[:, -1] = episode.terminated and last, episode.truncated and last
    return as_dict(episode.obs), episode.actions, episode.rewards, *flags


def _padded(rows: Array) -> Array:
    """The rows with a row of zeros appended: infos, and all columns in Arrow, have as many rows as observations."""
    return np.concatenate([rows, np.zeros_like(rows[:1])])


def env_spec(info: DemoInfo) -> str:
    """Gymnasium's description of the environment, from which `gymnasium.make` makes it with its wrappers (Minari's
    `recover_environment`). If it is not installed here, it has no entry point."""
    try:
        check_env(info.env_id, info.env_kwargs)
        with closing_env(make_env(info.env_id, info.env_kwargs)) as env:
            return _foreign(env).to_json()
    except (InputError, ValueError):  # not installed, or written in a way that no text can name
        kwargs = dict(info.env_kwargs)
        limit = (
            {"max_episode_steps": kwargs.pop("max_episode_steps")} if "max_episode_steps" in kwargs else {}
        )
        unknown: dict[str, Any] = {"entry_point": None, "additional_wrappers": []}
        return json.dumps(unknown | limit | {"id": bare_id(info.env_id), "kwargs": kwargs})


def _foreign(env: Env) -> EnvSpec:
    """The environment's description with a name as entry point, and with spaces as Minari holds them, without our
    wrappers of these."""
    spec = env.spec
    assert spec is not None
    entry = spec.entry_point
    name = f"{entry.__module__}:{getattr(entry, '__qualname__', '')}" if callable(entry) else entry
    kept = [
        each for each in spec.additional_wrappers if not each.entry_point.startswith(structured.__module__)
    ]
    limit = spec.max_episode_steps
    if kept and isinstance(env, TimeLimit):
        # `gymnasium.make` would cut inside the other wrappers, where a game counts frames and no-ops.
        kept.append(WrapperSpec("TimeLimit", "gymnasium.wrappers:TimeLimit", {"max_episode_steps": limit}))
        limit = None
    return replace(spec, entry_point=name, additional_wrappers=tuple(kept), max_episode_steps=limit)


def _dataset_id(path: Path) -> str:
    """The id of a data set in Minari's folder; elsewhere one is made up from the name."""
    root = _root().resolve()
    # The folder is first written under a temporary name, `.NAME.1234.partial`.
    final = path.resolve()
    if final.name.endswith(".partial"):
        final = final.with_name(final.name[1:].rsplit(".", 2)[0])
    if final.is_relative_to(root):
        dataset_id = final.relative_to(root).as_posix()
        check_id(dataset_id)
        return dataset_id
    name = re.sub(r"[^-\w]", "-", final.name)
    return name if _ID.fullmatch(name) else f"{name}-v0"
