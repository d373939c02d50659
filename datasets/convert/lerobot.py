"""LeRobotDataset v3.0: a folder with `meta/`, Parquet files of steps and mp4 videos. https://github.com/huggingface/lerobot

Where our own writer made it, the final observations, which the format has no place for, are in a file beside.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from imitate.datasets.columns import LARGEST_EPISODE
from imitate.datasets.convert import arrow, video_files
from imitate.datasets.convert.lerobot_layout import (
    DATA_PATH,
    FINAL,
    PROVENANCE,
    VERSION,
    VIDEO_PATH,
    numbered,
)
from imitate.datasets.convert.lerobot_writer import losses, write
from imitate.datasets.convert.recording import Notes, Recording, ended, refused
from imitate.datasets.schema import info_from_plain
from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.files import read_json

__all__ = ["FOLDER", "found", "losses", "read", "write"]

FOLDER = True
_EPISODE = ("episode_index", "length")
_MOST_EPISODES = 1 << 24


def found(path: Path) -> bool:
    return (path / "meta" / "info.json").is_file()


@contextmanager
def read(path: Path, keys: Sequence[str], notes: Notes) -> Iterator[Recording]:
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
        features = _features(info)
        chosen = _chosen(features, keys, notes)
        table = _episodes(path, [key for key in chosen if features[key]["dtype"] == "video"])
        stored = path / PROVENANCE
        ours = info_from_plain(read_json(stored, dict[str, Any]), path) if stored.is_file() else None
        rows = _Rows(path, features, chosen, float(info["fps"]), notes)

        def episodes() -> Iterator[Trajectory]:
            final = _Final(path)
            with closing(rows.play(table)) as played:
                for number, episode in enumerate(played):
                    with refused(f"{path}: episode {number}"):
                        trajectory = _trajectory(episode, features, final, number, notes)
                    if trajectory is not None:
                        yield trajectory

        yield Recording(episodes, info=ours, labelled="expert_action" in features and ours is not None)


class _Rows:
    """The steps of the data set, an episode at a time."""

    def __init__(
        self, path: Path, features: Mapping[str, Any], chosen: Sequence[str], fps: float, notes: Notes
    ) -> None:
        self._path, self._features, self._chosen, self._fps = path, features, chosen, fps
        self._videos = [key for key in chosen if features[key]["dtype"] == "video"]
        others = ("action", "expert_action", "next.reward", "next.terminated", "next.truncated")
        self._columns = [
            *(key for key in (*chosen, *others) if key in features and key not in self._videos),
        ]
        if "next.reward" not in features:
            notes["rewards are absent and become 0"] += 1
        if "next.terminated" not in features:
            notes["all episodes count as truncated: `next.done` does not say why they end"] += 1

    def play(self, table: list[dict[str, Any]]) -> Generator[dict[str, Array], None, None]:
        """Columns and pictures of each episode."""
        steps = self._steps()
        open_videos: dict[str, tuple[Path, Iterator[tuple[float, Array]]]] = {}
        for episode in table:
            rows = next(steps, None)
            if rows is None or len(rows["action"]) != episode["length"]:
                raise InputError(
                    f"episode {episode['episode_index']} has other steps than meta/episodes says"
                )
            for key in self._videos:
                rows[key] = self._pictures(key, episode, open_videos)
            yield rows

    def _steps(self) -> Iterator[dict[str, Array]]:
        """Columns of each episode, from the Parquet files in order."""
        held: list[dict[str, Array]] = []
        current, nbytes = 0, 0
        for file in sorted((self._path / "data").glob("chunk-*/file-*.parquet")):
            for batch in arrow.parquet(file, ["episode_index", *self._columns]):
                arrays = {name: self._column(batch, name) for name in ["episode_index", *self._columns]}
                numbers = arrays.pop("episode_index").reshape(-1)
                cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
                for start, stop in pairwise(cuts):
                    if held and numbers[start] != current:
                        yield _joined(held)
                        held, nbytes = [], 0
                    current = numbers[start]
                    held.append({name: array[start:stop] for name, array in arrays.items()})
                    nbytes += sum(array.nbytes for array in held[-1].values())
                    if nbytes > LARGEST_EPISODE:
                        raise InputError(f"episode {current} has more than {LARGEST_EPISODE} bytes")
        if held:
            yield _joined(held)

    def _column(self, batch: Any, name: str) -> Array:
        column = arrow.column(batch, name)
        if self._features.get(name, {}).get("dtype") == "image":
            return _images(arrow.fields(column)["bytes"].to_pylist(), self._features[name]["shape"])
        rows = arrow.numbers(column)
        # A feature of shape (1,) is stored as plain numbers.
        return rows.reshape(len(rows), *self._features[name]["shape"]) if name in self._features else rows

    def _pictures(self, key: str, episode: dict[str, Any], opened: dict[str, Any]) -> Array:
        """(T, H, W, 3): the frames at the episode's times in the video that holds them."""
        chunk, number = (int(episode[f"videos/{key}/{name}"]) for name in ("chunk_index", "file_index"))
        file = self._path / "videos" / key / numbered(chunk, number, ".mp4")
        begin, length = float(episode[f"videos/{key}/from_timestamp"]), episode["length"]
        shape = tuple(self._features[key]["shape"])
        if length * int(np.prod(shape)) > LARGEST_EPISODE:
            raise InputError(
                f"episode {episode['episode_index']} has more than {LARGEST_EPISODE} bytes of {key}"
            )
        if key not in opened or opened[key][0] != file:
            if not file.is_file():
                raise InputError(f"there is no video {file}")
            opened[key] = file, video_files.frames(file, shape)
        pictures = np.empty((length, *shape), np.uint8)
        taken = 0
        for seconds, picture in opened[key][1]:
            at = (seconds - begin) * self._fps
            if at < -0.5:
                continue
            if round(at) != taken:
                break
            pictures[taken] = picture
            taken += 1
            if taken == length:
                return pictures
        raise InputError(f"{file.name} of {key} has {taken} frames of the {length} from {begin:.3f} s on")


class _Final:
    """The final observations and seeds that our own writer stored beside."""

    def __init__(self, path: Path) -> None:
        file = path / FINAL
        self._batches = arrow.parquet(file, ["seed", "observation"]) if file.is_file() else iter(())
        self._held: Any = None
        self._first = 0

    def take(self, number: int, shape: tuple[int, ...]) -> tuple[Array, int] | None:
        """Observation (*shape) and seed of an episode, which are asked for in order; None: none are stored."""
        while self._held is None or number >= self._first + self._held.num_rows:
            self._first += 0 if self._held is None else self._held.num_rows
            self._held = next(self._batches, None)
            if self._held is None:
                return None
        row = self._held.slice(number - self._first, 1)
        obs = arrow.numbers(arrow.column(row, "observation"))[0].reshape(shape)
        return obs, int(arrow.numbers(arrow.column(row, "seed"))[0])


def _trajectory(
    episode: dict[str, Array], features: Mapping[str, Any], final: _Final, number: int, notes: Notes
) -> Trajectory | None:
    actions = episode["action"]
    steps = len(actions)
    observed = [rows for name, rows in episode.items() if name.startswith("observation")]
    flat = [rows.reshape(steps, -1) for rows in observed]
    obs = observed[0] if len(observed) == 1 else np.concatenate(flat, axis=1)
    rewards = episode.get("next.reward", np.zeros(steps, np.float32)).reshape(-1)
    terminated = bool(episode["next.terminated"][-1]) if "next.terminated" in features else False
    truncated = bool(episode["next.truncated"][-1]) if "next.truncated" in features else not terminated
    labels = episode.get("expert_action")
    last = final.take(number, obs.shape[1:])
    if last is None:
        return ended(obs, actions, rewards, terminated, truncated, notes, expert_actions=labels)
    whole = np.concatenate([obs, last[0][None].astype(obs.dtype)])
    return Trajectory(
        whole, actions, rewards, terminated, truncated, info={"seed": last[1]}, expert_actions=labels
    )


def _features(info: Mapping[str, Any]) -> dict[str, Any]:
    features = info.get("features")
    if not isinstance(features, dict) or "action" not in features:
        raise InputError("its meta/info.json names no actions")
    for name, feature in features.items():
        shape = feature.get("shape") if isinstance(feature, dict) else None
        sound = isinstance(shape, list) and all(type(n) is int and 0 < n < 1 << 20 for n in shape)
        if not sound or not isinstance(feature.get("dtype"), str) or "/" in name or ".." in name:
            raise InputError(f"its feature {name!r} is not described by shape and dtype")
    return features


def _chosen(features: Mapping[str, Any], keys: Sequence[str], notes: Notes) -> list[str]:
    observed = [name for name in features if name.startswith("observation")]
    for key in keys:
        if key not in observed:
            raise InputError(f"no observation {key!r}; there are {', '.join(observed)}")
    pictures = [name for name in observed if features[name]["dtype"] in ("video", "image")]
    chosen = list(keys) or [name for name in observed if name not in pictures] or pictures[:1]
    if len(chosen) > 1 and set(chosen) & set(pictures):
        raise InputError(f"pictures can't be taken together with other observations: choose one of {chosen}")
    for name in observed:
        if name not in chosen:
            notes[f"observations {name!r} are left out (--obs-keys takes them)"] += 1
    if not chosen:
        raise InputError("it has no observations")
    return chosen


def _episodes(path: Path, videos: Sequence[str]) -> list[dict[str, Any]]:
    """Of each episode its length and where its frames are, by number."""
    names = [
        f"videos/{key}/{name}" for key in videos for name in ("chunk_index", "file_index", "from_timestamp")
    ]
    rows: list[dict[str, Any]] = []
    for file in sorted((path / "meta" / "episodes").glob("chunk-*/file-*.parquet")):
        for batch in arrow.parquet(file, [*_EPISODE, *names]):
            rows += batch.to_pylist()
            if len(rows) > _MOST_EPISODES:
                raise InputError(f"it has more than {_MOST_EPISODES} episodes")
    if any(value is None for row in rows for value in row.values()):
        raise InputError("its meta/episodes lack values")
    return sorted(rows, key=lambda row: int(row["episode_index"]))


def _images(files: list[bytes], shape: Sequence[int]) -> Array:
    from PIL import Image

    images = np.empty((len(files), *shape), np.uint8)
    for number, data in enumerate(files):
        with Image.open(io.BytesIO(data), formats=["PNG", "JPEG"]) as image:
            if (image.height, image.width) != tuple(shape[:2]):
                raise InputError(f"an image has {image.size} pixels, wanted {tuple(shape)}")
            images[number] = np.asarray(image.convert("RGB"))
    return images


def _joined(held: list[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.concatenate([part[name] for part in held]) for name in held[0]}
