"""Writes a LeRobotDataset v3.0 as complete as after `finalize()`, so that LeRobot's own reader opens it."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from imitate.datasets.convert import arrow, video_files
from imitate.datasets.convert.foreign import needs
from imitate.datasets.convert.lerobot_layout import (
    CHUNK,
    DATA_PATH,
    FINAL,
    PROVENANCE,
    VERSION,
    VIDEO_PATH,
    Codec,
    features_of_space,
    is_picture,
    numbered,
)
from imitate.datasets.convert.lerobot_stats import Stats
from imitate.datasets.convert.pieces import Episode, marked
from imitate.datasets.storage.contain import check_env
from imitate.datasets.storage.schema import DemoInfo, info_to_plain
from imitate.datasets.trajectory import Trajectory
from imitate.envs.answers import closing_env
from imitate.envs.fields import part_of
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = ["losses", "write"]

_FPS = 30  # LeRobot's own default
_FILE_BYTES = 100 << 20  # LeRobot's own `data_files_size_in_mb`
_COUNTERS = ("timestamp", "frame_index", "episode_index", "index", "task_index")


def losses(info: DemoInfo, labelled: bool) -> list[str]:  # noqa: ARG001
    for _, part in features_of_space(info.observation_space).values():
        shape = part.shape or ()
        if info.frame_stack > 1 or (len(shape) > 1 and not is_picture(part)):
            raise InputError(
                f"LeRobot's pictures are (H, W, 3) of uint8, these observations are {shape} of {part.dtype}: record "
                "single frames in colour, or use another format"
            )
    if info.fps % 1:
        raise InputError(f"LeRobot's frames a second are whole, these are {info.fps}: say another --fps")
    rate = info.fps or _render_fps(info)
    guess = f"frames a second are {rate}, the render_fps of {info.env_id} (--fps says others)"
    said = [guess] if rate and not info.fps else []
    unknown = {} if rate else {str(_FPS): "frames a second (--fps)"}
    unknown |= {} if info.has_texts else {"the environment's id": "tasks"}
    if not unknown:
        return said
    verb = "is" if [*unknown] == ["the environment's id"] else "are"
    return [*said, f"{' and '.join(unknown.values())} are not known: {' and '.join(unknown)} {verb} written"]


def _render_fps(info: DemoInfo) -> int | None:
    """The `render_fps` of the environment's metadata; None if it is not installed, or they are not whole."""
    try:
        check_env(info.env_id, info.env_kwargs)
        with closing_env(make_env(info.env_id, info.env_kwargs)) as env:
            rate = env.metadata.get("render_fps")
    except InputError:
        return None
    return int(rate) if isinstance(rate, int | float) and 0 < rate < math.inf and not rate % 1 else None


def write(
    path: Path, info: DemoInfo, episodes: Iterable[Episode], labelled: bool, *, codec: Codec = "h264"
) -> None:
    writer = _Writer(path, info, labelled, codec)
    with closing(writer):
        for episode in episodes:
            writer.add(episode)
    features = writer.features
    document = {
        "codebase_version": VERSION,
        "robot_type": None,
        "total_episodes": writer.episodes,
        "total_frames": writer.steps,
        "total_tasks": len(writer.tasks),
        "chunks_size": CHUNK,
        "data_files_size_in_mb": _FILE_BYTES >> 20,
        "video_files_size_in_mb": 200,
        "fps": writer.fps,
        "splits": {"train": f"0:{writer.episodes}"},
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if writer.videos else None,
        "features": features,
    }
    for name, data in (
        ("meta/info.json", document),
        ("meta/stats.json", {name: stats.plain() for name, stats in writer.stats.items()}),
        (PROVENANCE, info_to_plain(info)),
    ):
        (path / name).write_text(json.dumps(data, indent=4), "utf-8")
    _write_tasks(path / "meta" / "tasks.parquet", writer.tasks)


class _Writer:
    """Adds episodes: their steps go to Parquet files, their pictures there too or to one video each.

    tasks   the texts of tasks so far, in the order of their `task_index`
    """

    def __init__(self, path: Path, info: DemoInfo, labelled: bool, codec: Codec) -> None:
        self._path, self._labelled, self._unnamed = path, labelled, info.env_id
        self.fps, self.tasks = int(info.fps) or _render_fps(info) or _FPS, list[str]()
        self._observed = features_of_space(info.observation_space)
        pictures = [name for name, (_, part) in self._observed.items() if is_picture(part)]
        self.videos, self._images = (pictures, []) if codec == "h264" else ([], pictures)
        self.features = _features(info, self.fps, labelled, codec)
        self.stats = {name: Stats() for name in self.features}
        self.episodes = self.steps = 0
        self._file, self._bytes = -1, _FILE_BYTES
        self._open: dict[str, ExitStack] = {}
        self._writers: dict[str, Any] = {}

    def add(self, episode: Episode) -> None:
        number, length = self.episodes, 0
        if self._bytes >= _FILE_BYTES:
            self._file, self._bytes = self._file + 1, 0
        place, video = divmod(self._file, CHUNK), numbered(*divmod(number, CHUNK), ".mp4")
        stats = {name: Stats() for name in self.features}
        with ExitStack() as stack:
            films = {
                name: stack.enter_context(
                    video_files.writing(
                        self._path / "videos" / name / video, self._observed[name][1].shape or (), self.fps
                    )
                )
                for name in self.videos
            }
            for piece, last in marked(episode):
                seen, columns = self._observations(piece), self._columns(piece, length, last)
                pictures = {name: seen.pop(name) for name in (*films, *self._images)}
                columns |= {name: _flat(rows) for name, rows in seen.items()}
                for name, rows in (columns | pictures).items():
                    self.stats[name].add(rows)
                    stats[name].add(rows)
                for name, film in films.items():
                    film(pictures[name])
                stored: dict[str, Any] = {
                    name: rows[:, 0] if rows.shape[1:] == (1,) else rows for name, rows in columns.items()
                }
                stored |= {name: arrow.files(_pngs(pictures[name])) for name in self._images}
                self._append("data/" + numbered(*place, ".parquet"), stored, "data")
                self._bytes += sum(rows.nbytes for rows in stored.values())
                length += len(piece)
        row = self._row(self._task(piece), length, place, stats)
        self._append(
            "meta/episodes/" + numbered(0, 0, ".parquet"), {k: [v] for k, v in row.items()}, "episodes"
        )
        self._append(FINAL, _final(piece), "final")
        self.episodes, self.steps = number + 1, self.steps + length

    def _row(
        self, task: str, length: int, place: tuple[int, int], stats: Mapping[str, Stats]
    ) -> dict[str, Any]:
        """The row of the next episode, whose steps are in the data file at `place`, in the table of episodes."""
        number = self.episodes
        row: dict[str, Any] = {
            "episode_index": number,
            "tasks": [task],
            "length": length,
            "data/chunk_index": place[0],
            "data/file_index": place[1],
            "dataset_from_index": self.steps,
            "dataset_to_index": self.steps + length,
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
        }
        chunk, file = divmod(number, CHUNK)
        where = {"chunk_index": chunk, "file_index": file, "from_timestamp": 0.0}
        where["to_timestamp"] = length / self.fps
        row |= {f"videos/{video}/{name}": value for video in self.videos for name, value in where.items()}
        for name, one in stats.items():
            row |= {f"stats/{name}/{key}": value for key, value in one.plain().items()}
        return row

    def _task(self, episode: Trajectory) -> str:
        """The text of an episode's task, or the environment's id."""
        task = str(episode.info.get("task") or self._unnamed)
        if task not in self.tasks:
            self.tasks.append(task)
        return task

    def _observations(self, episode: Trajectory) -> dict[str, Array]:
        """The features (T, *shape) of the observations."""
        obs = episode.obs[:-1]
        return {name: part_of(obs, part) if part else obs for name, (part, _) in self._observed.items()}

    def close(self) -> None:
        with ExitStack() as every:  # also if one raises
            for stack in self._open.values():
                every.callback(stack.close)

    def _columns(self, episode: Trajectory, first: int, ends: bool) -> dict[str, Array]:
        """Columns (T, D) for every feature in the Parquet files. The piece begins with step `first` of its episode."""
        length = len(episode)
        steps = first + np.arange(length)
        last = (np.arange(length) == length - 1) & ends
        columns = {"action": episode.actions}
        columns |= {"expert_action": episode.labels} if self._labelled else {}
        columns |= {
            "next.reward": episode.rewards,
            "next.done": last,
            "next.terminated": last & episode.terminated,
            "next.truncated": last & episode.truncated,
            "timestamp": (steps / self.fps).astype(np.float32),
            "frame_index": steps,
            "episode_index": np.full(length, self.episodes),
            "index": self.steps + steps,
            "task_index": np.full(length, self.tasks.index(self._task(episode))),
        }
        return {name: _flat(rows) for name, rows in columns.items()}

    def _append(self, name: str, columns: Mapping[str, Any], kind: str) -> None:
        """Append rows to the file `name`; an open file of the same kind with another name is closed."""
        if name not in self._writers:
            if kind in self._open:
                self._open.pop(kind).close()
            (self._path / name).parent.mkdir(parents=True, exist_ok=True)
        table = arrow.as_table(columns)
        if name not in self._writers:
            stack = self._open[kind] = ExitStack()
            self._writers[name] = stack.enter_context(arrow.parquet_writer(self._path / name, table.schema))
        self._writers[name].write_table(table)


def _final(piece: Trajectory) -> dict[str, Any]:
    """The final observation and the seed of an episode, which LeRobot has no place for, from its last piece."""
    last_obs = piece.obs[-1:]
    if last_obs.dtype.names is not None:  # a row of a Dict, as its bytes
        last_obs = np.frombuffer(last_obs.tobytes(), np.uint8)
    return {"seed": [int(piece.info.get("seed", -1))], "observation": [last_obs.reshape(-1)]}


def _flat(rows: Array) -> Array:
    """(T, *shape) as (T, D)."""
    return rows.reshape(len(rows), -1)


def _pngs(pictures: Array) -> list[bytes]:
    """The pictures (T, H, W, 3) as PNG files."""
    image, files = needs("PIL.Image"), []
    for picture in pictures:
        image.fromarray(picture).save(file := io.BytesIO(), "PNG")
        files.append(file.getvalue())
    return files


def _features(info: DemoInfo, fps: int, labelled: bool, codec: Codec) -> dict[str, Any]:
    def feature(dtype: str, shape: tuple[int, ...] = (1,)) -> dict[str, Any]:
        return {"dtype": dtype, "shape": list(shape or (1,)), "names": None}

    action = feature(str(info.action_space.dtype), info.action_space.shape or ())
    features = {
        name: _picture_feature(part.shape or (), fps, codec)
        if is_picture(part)
        else feature(str(part.dtype), part.shape or ())
        for name, (_, part) in features_of_space(info.observation_space).items()
    }
    features |= {"action": action} | ({"expert_action": action} if labelled else {})
    features |= {"next.reward": feature("float32")}
    features |= {f"next.{name}": feature("bool") for name in ("done", "terminated", "truncated")}
    return features | {name: feature("float32" if name == "timestamp" else "int64") for name in _COUNTERS}


def _picture_feature(shape: tuple[int, ...], fps: int, codec: Codec) -> dict[str, Any]:
    named = {"shape": list(shape), "names": ["height", "width", "channels"]}
    if codec == "png":
        return {"dtype": "image"} | named
    video = {
        "video.height": shape[0],
        "video.width": shape[1],
        "video.codec": "h264",
        "video.pix_fmt": "gbrp",
        "video.is_depth_map": False,
        "video.fps": fps,
        "video.channels": 3,
        "has_audio": False,
    }
    return {"dtype": "video"} | named | {"info": video}


def _write_tasks(path: Path, tasks: list[str]) -> None:
    """A data frame of pandas whose index are the tasks' descriptions."""
    column = {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64"}
    index = {
        "name": None,
        "field_name": "__index_level_0__",
        "pandas_type": "unicode",
        "numpy_type": "object",
    }
    pandas = {
        "index_columns": ["__index_level_0__"],
        "column_indexes": [],
        "columns": [column | {"metadata": None}, index | {"metadata": None}],
        "creator": {"library": "pyarrow", "version": ""},
        "pandas_version": "2.2.0",
    }
    table = arrow.as_table({"task_index": np.arange(len(tasks)), "__index_level_0__": tasks})
    table = table.replace_schema_metadata({"pandas": json.dumps(pandas)})
    with arrow.parquet_writer(path, table.schema) as writer:
        writer.write_table(table)
