"""Minari 0.5: a folder with `data/metadata.json` and `data/main_data.hdf5` (a group an episode), or Arrow files (a
folder an episode). https://minari.farama.org"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
from gymnasium import spaces

from imitate.datasets.convert import arrow, hdf5
from imitate.datasets.convert.recording import Notes, Recording, refused
from imitate.datasets.schema import DemoInfo, info_from_plain, info_to_plain
from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array, Space, space_from_json
from imitate.envs.trust import bare_id
from imitate.errors import InputError, one_line
from imitate.files import read_json

__all__ = ["FOLDER", "found", "losses", "read", "store", "write"]

FOLDER = True
VERSION = "0.5.4"
"""The version whose files we write."""

_LARGEST_METADATA = 64 << 20
_LARGEST_IMAGE = 1 << 26
_COLUMNS = ("observations", "actions", "rewards", "terminations", "truncations")


def store(dataset_id: str) -> Path:
    """Where Minari keeps a data set: MINARI_DATASETS_PATH, or ~/.minari/datasets. Raises InputError for no id."""
    root = os.environ.get("MINARI_DATASETS_PATH")
    parts = dataset_id.split("/")
    if not all(part and part.replace("-", "").replace("_", "").isalnum() for part in parts):
        raise InputError(f"minari:{dataset_id} is no id; wanted such as minari:D4RL/door/human-v2")
    return (Path(root) if root else Path.home() / ".minari" / "datasets").joinpath(*parts)


def found(path: Path) -> bool:
    return _data(path) is not None


@contextmanager
def read(path: Path, keys: Sequence[str], notes: Notes) -> Iterator[Recording]:
    data = _data(path) or path
    metadata = read_json(data / "metadata.json", dict[str, Any], limit=_LARGEST_METADATA)
    with ExitStack() as stack, refused(data):
        layout, count = metadata.get("data_format", "hdf5"), metadata.get("total_episodes")
        if layout not in ("hdf5", "arrow") or type(count) is not int or count < 0:
            raise InputError(f"it has {count!r} episodes in the layout {layout!r}; wanted hdf5 or arrow")
        spec = _json(metadata, "env_spec") or {}
        stored = [_json(metadata, name) for name in ("observation_space", "action_space")]
        if stored[0] is None or stored[1] is None:
            raise InputError("its metadata lack a space; write it again with Minari 0.5")
        action_space = _space(stored[1])
        if not isinstance(action_space, spaces.Box | spaces.Discrete):
            raise InputError(f"actions are {action_space}: wanted Box or Discrete")
        picked = _Picked(_space(stored[0]), keys, notes)
        if spec.get("additional_wrappers"):
            notes["wrappers of the environment are not applied"] += 1
        jpeg = bool(metadata.get("jpeg_encoding", True))
        if layout == "hdf5":
            file = stack.enter_context(hdf5.open_hdf5(data / "main_data.hdf5"))
            source: Any = partial(_from_hdf5, file, jpeg=jpeg)
        else:
            source = partial(_from_arrow, data, jpeg=jpeg)
        ours = metadata.get("imitate")
        info = info_from_plain(ours, data) if isinstance(ours, dict) else None

        def episodes() -> Iterator[Trajectory]:
            for number in range(count):
                with refused(f"{data}: episode {number}"):
                    yield source(number, picked, action_space, notes)

        yield Recording(
            episodes,
            env_id=str(spec.get("id") or ""),
            env_kwargs=_env_kwargs(spec),
            observation_space=picked.space,
            action_space=action_space,
            expert=str(metadata.get("algorithm_name") or ""),
            info=info,
            labelled=bool(info and metadata.get("imitate_labels")),
        )


def losses(info: DemoInfo, labelled: bool) -> list[str]:  # noqa: ARG001
    return []


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
        "observation_space": _space_to_text(info.observation_space),
        "action_space": _space_to_text(info.action_space),
        "env_spec": _env_spec(info),
        "dataset_id": _dataset_id(path),
        "minari_version": VERSION,
        "algorithm_name": info.expert,
        "dataset_size": round(sum(file.stat().st_size for file in data.rglob("*")) / 1e6, 1),
        "imitate": info_to_plain(info),
        "imitate_labels": labelled,
    }
    (data / "metadata.json").write_text(json.dumps(metadata), "utf-8")


class _Picked:
    """Which observations to take of a space, in one array: of a Dict the flat ones, as FlattenObservation does, or
    those that `keys` name."""

    def __init__(self, space: Space, keys: Sequence[str], notes: Notes) -> None:
        self._whole = space
        if not isinstance(space, spaces.Dict):
            if keys:
                raise InputError(f"the observations have no keys, they are {space}: leave --obs-keys out")
            self.space = space
            return
        names = keys or [name for name, one in space.items() if len(one.shape or ()) < 2]
        for name in names:
            if name not in space.spaces:
                raise InputError(f"no observation {name!r}; there are {', '.join(space)}")
        for name in space:
            if name not in names:
                notes[f"observations {name!r} are left out"] += 1
        self._chosen = spaces.Dict([(name, space[name]) for name in names])
        alone = space[names[0]] if len(names) == 1 else None
        self._alone = names[0] if isinstance(alone, spaces.Box) and len(alone.shape) > 1 else None
        self.space = alone if alone is not None and self._alone else gym.spaces.flatten_space(self._chosen)

    def take(self, values: Any, get: Any) -> Array:
        """(T+1, *shape), where get(values, name, space) reads one part of a Dict."""
        if not isinstance(self._whole, spaces.Dict):
            return np.asarray(get(values, None, self._whole))
        if self._alone is not None:
            return np.asarray(get(values, self._alone, self._chosen[self._alone]))
        parts = list(_flat(self._chosen, values, get))
        return np.concatenate(parts, axis=1).astype(self.space.dtype, copy=False)


def _flat(space: spaces.Dict, values: Any, get: Any) -> Iterator[Array]:
    for name, part in space.items():
        inside = get(values, name, part)
        if isinstance(part, spaces.Dict):
            yield from _flat(part, inside, get)
        elif isinstance(part, spaces.Discrete):
            yield np.eye(int(part.n), dtype=np.int64)[np.asarray(inside) - int(part.start)]
        elif isinstance(part, spaces.Box):
            yield np.asarray(inside).reshape(len(inside), -1)
        else:
            raise InputError(f"observations {name!r} are {part}: wanted Box, Discrete or Dict of these")


def _from_hdf5(
    file: h5py.File, number: int, picked: _Picked, _: Space, notes: Notes, *, jpeg: bool
) -> Trajectory:
    episode = hdf5.group(file, f"episode_{number}")
    infos = episode.get("infos")
    labels = None
    if isinstance(infos, h5py.Group):
        labels = hdf5.array(infos, "expert_actions")[:-1] if "expert_actions" in infos else None
        _note_infos(list(infos), notes)

    def get(parent: h5py.Group, name: str | None, space: Space) -> Any:
        name = "observations" if name is None else name
        if isinstance(space, spaces.Dict):
            return hdf5.group(parent, name)
        if jpeg and _is_image(space):
            return _images(list(hdf5_rows(parent, name)), space)
        return hdf5.array(parent, name)

    keyed = isinstance(episode.get("observations"), h5py.Group)
    return _trajectory(
        picked.take(hdf5.group(episode, "observations") if keyed else episode, get),
        *(hdf5.array(episode, name) for name in _COLUMNS[1:]),
        seed=episode.attrs.get("seed", -1),
        labels=labels,
    )


def hdf5_rows(parent: h5py.Group, name: str) -> h5py.Dataset:
    """A dataset of JPEG files: rows of bytes, of one length or not."""
    found = parent.get(name)
    if not isinstance(found, h5py.Dataset) or found.ndim not in (1, 2):
        raise InputError(f"{name} are no JPEG images")
    return found


def _from_arrow(
    data: Path, number: int, picked: _Picked, action_space: Space, notes: Notes, *, jpeg: bool
) -> Trajectory:
    table = arrow.table(sorted((data / str(number)).glob("*.arrow")))
    metadata = read_json(data / str(number) / "metadata.json", dict[str, Any])
    infos = arrow.parts(table, "infos") if "infos" in table.column_names else {}
    _note_infos(list(infos), notes)

    def get(parent: Any, name: str | None, space: Space) -> Any:
        column = arrow.column(table, "observations") if name is None else parent[name]
        if isinstance(space, spaces.Dict):
            return arrow.fields(column)
        if jpeg and _is_image(space):
            return _images(column.to_pylist(), space)
        return arrow.numbers(column).reshape(len(column), *(space.shape or ()))

    obs = picked.take(
        arrow.parts(table, "observations") if isinstance(picked._whole, spaces.Dict) else table, get
    )
    # Everything has a row as observations have, and the last one is padding.
    actions = arrow.numbers(arrow.column(table, "actions"))[:-1].reshape(-1, *(action_space.shape or ()))
    rest = [arrow.numbers(arrow.column(table, name))[:-1] for name in _COLUMNS[2:]]
    labels = infos.get("expert_actions")
    if labels is not None:
        labels = arrow.numbers(labels)[:-1].reshape(actions.shape)
    seed = metadata.get("seed")
    return _trajectory(obs, actions, *rest, seed=-1 if seed is None else seed, labels=labels)


def _trajectory(
    obs: Array,
    actions: Array,
    rewards: Array,
    terminations: Array,
    truncations: Array,
    *,
    seed: Any,
    labels: Any,
) -> Trajectory:
    for flags in (terminations, truncations):
        if flags.shape != (len(actions),) or flags[:-1].any():
            raise InputError("its flags are not those of one episode")
    return Trajectory(
        obs,
        actions,
        rewards,
        bool(terminations[-1:].any()),
        bool(truncations[-1:].any()),
        info={"seed": int(seed)},
        expert_actions=labels,
    )


def _note_infos(names: list[str], notes: Notes) -> None:
    for name in names:
        if name != "expert_actions":
            notes[f"infos {name!r} are left out"] += 1


def _images(rows: list[Any], space: Space) -> Array:
    """JPEG files to images (T+1, *shape)."""
    from PIL import Image

    images = np.empty((len(rows), *(space.shape or ())), np.uint8)
    for number, row in enumerate(rows):
        data = row if isinstance(row, bytes) else np.asarray(row, np.uint8).tobytes()
        with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
            if (
                image.width * image.height > _LARGEST_IMAGE
                or (image.height, image.width) != images.shape[1:3]
            ):
                raise InputError(f"an image has {image.size} pixels, wanted {images.shape[1:]}")
            images[number] = np.asarray(image)
    return images


def _is_image(space: Space) -> bool:
    """What Minari takes for images."""
    return (
        isinstance(space, spaces.Box)
        and len(space.shape) in (2, 3)
        and min(space.shape[:2]) >= 32
        and space.dtype == np.uint8
        and bool((space.low == 0).all() and (space.high == 255).all())
    )


def _add_hdf5(file: h5py.File, number: int, episode: Trajectory) -> None:
    group = file.create_group(f"episode_{number}")
    group.attrs.update({"id": number, "total_steps": len(episode)})
    if episode.info.get("seed", -1) >= 0:
        group.attrs["seed"] = episode.info["seed"]
    for name, rows in zip(_COLUMNS, _columns(episode), strict=True):
        compression = "gzip" if rows.ndim > 2 and rows.dtype == np.uint8 else None
        group.create_dataset(
            name, data=rows, chunks=True, maxshape=(None, *rows.shape[1:]), compression=compression
        )
    if episode.expert_actions is not None:
        group.create_dataset("infos/expert_actions", data=_padded(episode.expert_actions))


def _add_arrow(data: Path, number: int, episode: Trajectory) -> None:
    folder = data / str(number)
    folder.mkdir()
    obs, *rest = _columns(episode)
    columns: dict[str, Any] = {"observations": obs} | {
        name: _padded(rows) for name, rows in zip(_COLUMNS[1:], rest, strict=True)
    }
    if episode.expert_actions is not None:
        columns["infos"] = {"expert_actions": _padded(episode.expert_actions)}
    arrow.write(folder / "part-0.arrow", columns)
    seed = episode.info.get("seed", -1)
    metadata = {"id": number, "total_steps": len(episode)} | ({"seed": seed} if seed >= 0 else {})
    (folder / "metadata.json").write_text(json.dumps(metadata), "utf-8")


def _columns(episode: Trajectory) -> tuple[Array, ...]:
    flags = np.zeros((2, len(episode)), bool)
    flags[:, -1] = episode.terminated, episode.truncated
    return episode.obs, episode.actions, episode.rewards, *flags


def _padded(rows: Array) -> Array:
    """One row more: infos begin at the reset, and so do all columns in Arrow."""
    return np.concatenate([rows, np.zeros_like(rows[:1])])


def _space_to_text(space: Space) -> str:
    """Minari's description: as ours, with a number for every bound."""
    if isinstance(space, spaces.Discrete):
        plain: dict[str, Any] = {
            "type": "Discrete",
            "dtype": "int64",
            "start": int(space.start),
            "n": int(space.n),
        }
    else:
        assert isinstance(space, spaces.Box)
        plain = {"type": "Box", "dtype": str(space.dtype), "shape": list(space.shape)}
        plain |= {"low": space.low.tolist(), "high": space.high.tolist()}
    return json.dumps(plain)


def _space(data: Mapping[str, Any], depth: int = 0) -> Space:
    """The space of Minari's description. Raises InputError for others than Box, Discrete and Dict of these."""
    if data.get("type") != "Dict":
        return space_from_json(data)
    parts = data.get("subspaces")
    if not isinstance(parts, dict) or depth > 4 or not all(isinstance(part, dict) for part in parts.values()):
        raise InputError("not the description of a Dict space")
    return spaces.Dict([(str(name), _space(part, depth + 1)) for name, part in parts.items()])


def _env_spec(info: DemoInfo) -> str:
    """Gymnasium's description of the environment, as it is registered here."""
    registered = gym.registry.get(bare_id(info.env_id))
    plain = {} if registered is None else json.loads(registered.to_json())
    unknown: dict[str, Any] = {"entry_point": None, "additional_wrappers": []} if registered is None else {}
    kwargs = dict(info.env_kwargs)
    limit = {"max_episode_steps": kwargs.pop("max_episode_steps")} if "max_episode_steps" in kwargs else {}
    return json.dumps(plain | unknown | limit | {"id": bare_id(info.env_id), "kwargs": kwargs})


def _env_kwargs(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of the environment, among them a time limit that is not the registered one."""
    kwargs = spec.get("kwargs")
    kwargs = dict(kwargs) if isinstance(kwargs, dict) else {}
    registered = gym.registry.get(str(spec.get("id")))
    limit = spec.get("max_episode_steps")
    if registered is not None and type(limit) is int and limit != registered.max_episode_steps:
        kwargs["max_episode_steps"] = limit
    return kwargs


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


def _data(path: Path) -> Path | None:
    for folder in (path / "data", path, path.parent):
        if (folder / "metadata.json").is_file() and (
            (folder / "main_data.hdf5").is_file() or (folder / "0" / "metadata.json").is_file()
        ):
            return folder if folder != path.parent or path.name == "main_data.hdf5" else None
    return None


def _json(metadata: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """A JSON object that is stored as text."""
    if metadata.get(name) is None:
        return None
    try:
        value = json.loads(metadata[name])
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"its {name} is no JSON: {one_line(error)[:100]}") from error
    if not isinstance(value, dict):
        raise InputError(f"its {name} is no JSON object")
    return value
