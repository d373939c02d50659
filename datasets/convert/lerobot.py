"""LeRobotDataset v3.0: a folder with `meta/`, Parquet files of steps and mp4 videos. https://github.com/huggingface/lerobot

The format has no place for final observations; our own writer stores them in an extra file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from imitate.datasets.convert import arrow, video_files
from imitate.datasets.convert.foreign import Notes, pictures_of, refused
from imitate.datasets.convert.lerobot_layout import (
    DATA_PATH,
    FINAL,
    PROVENANCE,
    VERSION,
    VIDEO_PATH,
    features_of_space,
    numbered,
)
from imitate.datasets.convert.lerobot_meta import (
    MOST_ROWS,
    chosen_of,
    dict_of,
    episodes_of,
    features_of,
    left_out,
    row_bytes,
)
from imitate.datasets.convert.lerobot_writer import losses, write
from imitate.datasets.convert.pieces import Episode, Rows, assembled, marked, rows_within, side_by_side
from imitate.datasets.convert.recording import Format, Recording
from imitate.datasets.storage.schema import DemoInfo, info_from_plain
from imitate.envs.fields import Fields, from_parts, leaves
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.files import read_json

__all__ = ["FORMAT"]

_OTHERS = {
    "rewards": "next.reward",
    "expert_actions": "expert_action",
    "terminated": "next.terminated",
    "truncated": "next.truncated",
}


def found(path: Path) -> bool:
    return (path / "meta" / "info.json").is_file()


@contextmanager
def read(path: Path, notes: Notes, obs_keys: Sequence[str] = ()) -> Iterator[Recording]:
    with refused(path):
        info = read_json(path / "meta" / "info.json", dict[str, Any])
        if info.get("codebase_version") != VERSION:
            raise InputError(
                f"it is LeRobotDataset {info.get('codebase_version')!r}, wanted {VERSION}; LeRobot's own "
                "convert_dataset_v21_to_v30.py brings older ones up to date"
            )
        for name, wanted in (("data_path", DATA_PATH), ("video_path", VIDEO_PATH)):
            if info.get(name) not in (wanted, None):
                raise InputError(f"its {name} is {info[name]!r}, wanted {wanted!r}")
        features = features_of(info)
        stored = path / PROVENANCE
        ours = info_from_plain(read_json(stored, dict[str, Any]), path) if stored.is_file() else None
        labelled = "expert_action" in features and ours is not None
        if not labelled and features.pop("expert_action", None):
            notes["feature 'expert_action' is left out"] += 1
        whole, observed = _observed(ours, features, obs_keys, notes)
        films = [key for key in observed.parts if features[key]["dtype"] == "video"]
        table = episodes_of(path, films, notes)
        if ours is not None:  # without a task our writer puts the environment in its place
            table["task"] = np.where((table["task"] == ours.env_id) | (not ours.has_texts), "", table["task"])
        elif left := left_out(info, features):
            notes[left] += 1
        rows = _Rows(path, features, observed, float(info["fps"]), notes)

        def episodes() -> Iterator[Episode]:
            with closing(rows.play(table)) as played:
                for number, (parts, about) in enumerate(played):
                    yield assembled(f"{path}: episode {number}", parts, notes, about)

        yield Recording(
            episodes,
            env_id="" if ours is None else ours.env_id,
            env_kwargs={} if ours is None else ours.env_kwargs,
            observation_space=observed.space,
            action_space=None if ours is None else ours.action_space,
            expert="" if ours is None else ours.expert,
            info=whole,
            labelled=labelled,
            has_texts=bool((table["task"] != "").any()),
            fps=float(info["fps"]),
        )


@dataclass(frozen=True)
class _Observed:
    """The features that are observations.

    parts   the part of the Dict, named as in `leaves`, that each feature becomes
    space   the Dict; None: the features are joined in one array
    whole   they are all that our own writer stored, which has final observations then
    """

    parts: Mapping[str, str]
    space: Fields | None
    whole: bool = True


def _observed(
    ours: DemoInfo | None, features: Mapping[str, Any], keys: Sequence[str], notes: Notes
) -> tuple[DemoInfo | None, _Observed]:
    """The features to read, and `ours` unless it describes a Dict of which a part is read."""
    if ours is not None and isinstance(ours.observation_space, Fields):
        named = {name: part for name, (part, _) in features_of_space(ours.observation_space).items()}
        if not keys and named.keys() <= features.keys():
            return ours, _Observed(named, ours.observation_space)
        ours = None
    chosen = chosen_of(features, keys, notes)
    named = {name: name.removeprefix("observation.") for name in chosen}
    return ours, _Observed(named, dict_of(features, chosen), whole=ours is not None)


class _Rows:
    """The steps of the data set, one episode at a time."""

    def __init__(
        self, path: Path, features: Mapping[str, Any], observed: _Observed, fps: float, notes: Notes
    ) -> None:
        self._path, self._features, self._observed, self._fps = path, features, observed, fps
        self._notes = notes
        self._videos = [key for key in observed.parts if features[key]["dtype"] == "video"]
        wanted = (*observed.parts, "action", *_OTHERS.values())
        self._columns = [name for name in wanted if name in features and name not in self._videos]
        if "next.terminated" not in features:
            notes["all episodes count as truncated: `next.done` does not say why they end"] += 1
        self._step_bytes = 8 + sum(
            map(row_bytes, (features[name] for name in (*self._columns, *self._videos)))
        )

    def play(
        self, table: Mapping[str, Array]
    ) -> Generator[tuple[Iterator[Rows], dict[str, Any]], None, None]:
        """The rows of each episode, including pictures, and its seed and task."""
        episodes = groupby(self._steps(), key=lambda part: part[0])
        final = _Final(self._path if self._observed.whole else None, rows_within(self._step_bytes))
        self._opened: dict[str, tuple[Path, Iterator[tuple[float, Array]]]] = {}
        for number, index in enumerate(map(int, table["episode_index"])):
            last, parts = final.take(index), self._parts(episodes, index)
            episode = {name: rows[number] for name, rows in table.items()}
            about = {"task": episode["task"]} if episode["task"] else {}
            about |= {} if last is None else {"seed": last[1]}
            yield self._episode(parts, episode, last), about
        self._parts(episodes, None)

    def _parts(self, episodes: Iterator[tuple[int, Iterator[Any]]], index: int | None) -> Iterator[Any]:
        """The blocks of the episode with this index, after those that meta/episodes lacks; none if the data lack it."""
        for found, parts in episodes:
            if found == index:
                return parts
            self._notes["data of episodes that meta/episodes lacks are left out"] += 1
        return iter(())

    def _episode(self, parts: Iterator[Any], episode: Mapping[str, Any], final: Any) -> Iterator[Rows]:
        taken, length = 0, int(episode["length"])
        for (_, columns), last in marked(parts):
            count = len(columns["action"])
            if taken + count > length or (last and taken + count < length):
                break
            for key in self._videos:
                columns[key] = self._pictures(key, episode, taken, count)
            taken += count
            yield self._rows(columns, final if last else None)
        if taken != length:
            raise InputError(f"episode {episode['episode_index']} has other steps than meta/episodes says")

    def _rows(self, columns: Rows, final: Any) -> Rows:
        steps = len(columns["action"])
        obs = self._joined(columns, steps)
        if final is not None:
            obs = np.concatenate([obs, _final_row(final[0], obs)])
        rows = {"obs": obs, "actions": columns["action"]}
        for ours, theirs in _OTHERS.items():
            if theirs in columns:
                rows[ours] = columns[theirs] if ours == "expert_actions" else columns[theirs].reshape(-1)
        if "terminated" not in rows:
            rows["truncated"] = np.ones(steps, bool)
        elif "truncated" not in rows:
            rows["truncated"] = ~rows["terminated"].astype(bool)
        return rows

    def _joined(self, columns: Rows, steps: int) -> Array:
        """The observations (T, ...)."""
        observed = {part: columns[key] for key, part in self._observed.parts.items()}
        space = self._observed.space
        if space is None:
            return side_by_side([*observed.values()])
        numbers = {name for name, part, _ in leaves(space) if not part.shape}  # stored as (T, 1)
        return from_parts(space, observed | {name: observed[name].reshape(-1) for name in numbers}, steps)

    def _steps(self) -> Iterator[tuple[int, Rows]]:
        """Blocks of rows with their episode's number, from the Parquet files in order."""
        names = ["episode_index", *self._columns]
        rows = min(rows_within(self._step_bytes), MOST_ROWS)
        for file in sorted((self._path / "data").glob("chunk-*/file-*.parquet")):
            for batch in arrow.parquet(file, names, rows=rows):
                arrays = {name: self._column(batch, name) for name in names}
                numbers = arrays.pop("episode_index").reshape(-1)
                cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
                for start, stop in pairwise(cuts):
                    yield int(numbers[start]), {name: array[start:stop] for name, array in arrays.items()}

    def _column(self, batch: Any, name: str) -> Array:
        column = arrow.column(batch, name)
        if self._features.get(name, {}).get("dtype") == "image":
            files = arrow.fields(column)["bytes"].to_pylist()
            return pictures_of(files, self._features[name]["shape"], ["PNG", "JPEG"])
        rows = arrow.numbers(column)
        # A feature of shape (1,) is stored as plain numbers.
        return rows.reshape(len(rows), *self._features[name]["shape"]) if name in self._features else rows

    def _pictures(self, key: str, episode: Mapping[str, Any], taken: int, count: int) -> Array:
        """Frames (count, H, W, 3) of the episode's steps from `taken` on, read from its video."""
        chunk, number = (int(episode[f"videos/{key}/{name}"]) for name in ("chunk_index", "file_index"))
        file = self._path / "videos" / key / numbered(chunk, number, ".mp4")
        begin, shape = float(episode[f"videos/{key}/from_timestamp"]), tuple(self._features[key]["shape"])
        if key not in self._opened or self._opened[key][0] != file:
            if not file.is_file():
                raise InputError(f"there is no video {file}")
            self._opened[key] = file, video_files.frames(file, shape)
        pictures, end = np.empty((count, *shape), np.uint8), taken + count
        for seconds, picture in self._opened[key][1]:
            at = (seconds - begin) * self._fps
            if at < -0.5:
                continue
            if round(at) != taken:
                break
            pictures[taken - end] = picture
            taken += 1
            if taken == end:
                return pictures
        raise InputError(
            f"{file.name} of {key} has {taken} frames of the {episode['length']} from {begin:.3f} s on"
        )


class _Final:
    """The final observations and seeds from our own writer's extra file."""

    def __init__(self, path: Path | None, rows: int) -> None:
        stored = path is not None and (path / FINAL).is_file()
        self._batches = (
            arrow.parquet(path / FINAL, ["seed", "observation"], rows=rows) if path and stored else iter(())
        )
        self._held: Any = None
        self._first = 0

    def take(self, number: int) -> tuple[Array, int] | None:
        """The final observation (D,) and the seed of an episode, None if none are stored. Episodes must be asked for in
        order."""
        while self._held is None or number >= self._first + self._held.num_rows:
            self._first += 0 if self._held is None else self._held.num_rows
            self._held = next(self._batches, None)
            if self._held is None:
                return None
        row = self._held.slice(number - self._first, 1)
        obs = arrow.numbers(arrow.column(row, "observation"))[0]
        return obs, int(arrow.numbers(arrow.column(row, "seed"))[0])


def _final_row(stored: Array, obs: Array) -> Array:
    """The final observation (1, ...) in the type of the others; that of a Dict is stored as its bytes."""
    if obs.dtype.names is None:
        return stored.reshape(1, *obs.shape[1:]).astype(obs.dtype)
    if stored.dtype != np.uint8 or stored.size != obs.dtype.itemsize:
        raise InputError(f"a final observation has {stored.size} bytes, wanted {obs.dtype.itemsize}")
    return np.ascontiguousarray(stored).view(obs.dtype)


FORMAT = Format(
    found,
    read,
    write,
    losses,
    folder=True,
    dicts=True,
    kept=("task",),
    read_options=("obs_keys",),
    write_options=("codec", "fps"),
)
