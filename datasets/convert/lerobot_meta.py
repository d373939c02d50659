"""Reads the `meta/` of a LeRobotDataset: features, episodes, and facts that our format can't hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from imitate.datasets.convert import arrow
from imitate.datasets.convert.foreign import Notes, most
from imitate.datasets.convert.recording import wide
from imitate.envs.fields import Fields
from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = ["MOST_ROWS", "chosen_of", "dict_of", "episodes_of", "features_of", "left_out", "row_bytes"]

MOST_ROWS = 1 << 16
"""Number of rows that are read at once."""

_EPISODE = ("episode_index", "length")
_PLACE = ("chunk_index", "file_index", "from_timestamp")


def features_of(info: Mapping[str, Any]) -> dict[str, Any]:
    """The features by name; pictures have the shape (H, W, C), also if their `names` begin with the channels."""
    features = info.get("features")
    if not isinstance(features, dict) or "action" not in features:
        raise InputError("its meta/info.json names no actions")
    for name, feature in features.items():
        shape = feature.get("shape") if isinstance(feature, dict) else None
        sound = isinstance(shape, list) and all(type(n) is int and 0 < n < 1 << 20 for n in shape)
        if not sound or not isinstance(feature.get("dtype"), str) or "/" in name:
            raise InputError(f"its feature {name!r} is not described by shape and dtype")
    return {name: _channels_last(feature) for name, feature in features.items()}


def _channels_last(feature: dict[str, Any]) -> dict[str, Any]:
    names, shape = feature.get("names"), feature["shape"]
    pictures = feature["dtype"] in ("image", "video") and len(shape) == 3
    if pictures and isinstance(names, list) and names[:1] in (["channel"], ["channels"]):
        return feature | {"shape": [*shape[1:], shape[0]]}
    return feature


def chosen_of(features: Mapping[str, Any], keys: Sequence[str], notes: Notes) -> list[str]:
    observed = [name for name in features if name.startswith("observation")]
    for key in keys:
        if key not in observed:
            raise InputError(f"no observation {key!r}; there are {', '.join(observed)}")
    chosen = list(keys) or observed
    notes.update(f"observations {name!r} are left out" for name in observed if name not in chosen)
    if not chosen:
        raise InputError("it has no observations")
    return chosen


def dict_of(features: Mapping[str, Any], chosen: Sequence[str]) -> Fields | None:
    """The Dict of the chosen observations, if there are pictures among several; their names lack `observation.`."""
    kinds = {name: features[name]["dtype"] for name in chosen}
    if len(chosen) < 2 or not {"video", "image"} & {*kinds.values()}:
        return None
    return Fields(
        {
            name.removeprefix("observation."): wide(
                np.dtype(np.uint8 if kind in ("video", "image") else kind), tuple(features[name]["shape"])
            )
            for name, kind in kinds.items()
        }
    )


def episodes_of(path: Path, videos: Sequence[str], notes: Notes) -> dict[str, Array]:
    """For each episode (E,), in order: its length, the place of its frames, and its `task`, "" if it has none."""
    names = [*_EPISODE, *(f"videos/{key}/{name}" for key in videos for name in _PLACE)]
    limit = most(path).episodes
    held = [dict.fromkeys(names, np.empty(0)) | {"task": np.empty(0, object)}]
    for file in sorted((path / "meta" / "episodes").glob("chunk-*/file-*.parquet")):
        for batch in arrow.parquet(file, names, rows=MOST_ROWS, optional=["tasks"]):
            held.append({name: arrow.numbers(arrow.column(batch, name)).reshape(-1) for name in names})
            tasks, several = [""] * batch.num_rows, False
            if "tasks" in batch.schema.names:
                tasks, several = arrow.first_texts(arrow.column(batch, "tasks"))
            held[-1]["task"] = np.array(tasks, object)
            notes["an episode has several tasks: the first is kept"] += several
            if sum(len(part["length"]) for part in held) > limit:
                raise InputError(f"it claims more than {limit} episodes, which files of its size can't hold")
    table = {name: np.concatenate([part[name] for part in held]) for name in (*names, "task")}
    order = np.argsort(table["episode_index"], kind="stable")
    return {name: rows[order] for name, rows in table.items()}


def left_out(info: Mapping[str, Any], features: Mapping[str, Any]) -> str:
    """One line that names everything that our format can't hold; "" if it holds all."""
    left = []
    if info.get("robot_type") is not None:
        left.append(f"the robot type {str(info['robot_type'])[:80]!r}")
    if any(feature.get("names") for feature in features.values()):
        left.append("names of features")
    return f"left out: {', '.join(left)}" if left else ""


def row_bytes(feature: Mapping[str, Any]) -> int:
    kind = feature["dtype"]
    size = 1 if kind in ("video", "image") else np.dtype(kind).itemsize
    return int(size * math.prod(feature["shape"]))
