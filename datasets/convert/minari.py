"""Minari 0.5: a folder with `data/metadata.json` and `data/main_data.hdf5` (one group per episode), or Arrow files (one
folder per episode). https://minari.farama.org"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np

from imitate.datasets.convert import arrow, hdf5
from imitate.datasets.convert.ends import as_flags
from imitate.datasets.convert.foreign import Notes, pictures_of, refused
from imitate.datasets.convert.minari_spaces import Picked, is_image, space_of
from imitate.datasets.convert.minari_writer import env_spec, store, write
from imitate.datasets.convert.pieces import Episode, Rows, assembled, marked, spans
from imitate.datasets.convert.recording import Format, Recording
from imitate.datasets.storage.columns import row_bytes
from imitate.datasets.storage.schema import DemoInfo, info_from_plain
from imitate.envs.fields import Array, Fields, Space
from imitate.envs.make import is_installed
from imitate.envs.spaces import multi_discrete
from imitate.errors import InputError, one_line
from imitate.files import plain_json, read_json

__all__ = ["ARROW", "FORMAT", "store"]

_LARGEST_METADATA = 64 << 20
_FLAT = {"rewards": "rewards", "terminated": "terminations", "truncated": "truncations"}


def found(path: Path) -> bool:
    return _data(path) is not None


@contextmanager
def read(path: Path, notes: Notes, obs_keys: Sequence[str] = ()) -> Iterator[Recording]:
    data = _data(path) or path
    metadata = read_json(data / "metadata.json", dict[str, Any], limit=_LARGEST_METADATA)
    with ExitStack() as stack, refused(data):
        layout, count = metadata.get("data_format", "hdf5"), metadata.get("total_episodes")
        if layout not in ("hdf5", "arrow") or type(count) is not int or count < 0:
            raise InputError(f"it has {count!r} episodes in the layout {layout!r}; wanted hdf5 or arrow")
        spec = _json(metadata, "env_spec") or {}
        observation_space, action_space = _spaces(metadata)
        picked = Picked(observation_space, obs_keys, notes)
        if spec.get("additional_wrappers"):
            notes["wrappers of the environment are not applied"] += 1
        ours = metadata.get("imitate")
        info = picked.described(info_from_plain(ours, data)) if isinstance(ours, dict) else None
        labelled = bool(info and metadata.get("imitate_labels"))
        jpeg = bool(metadata.get("jpeg_encoding", True))
        if layout == "hdf5":
            file = stack.enter_context(hdf5.open_hdf5(data / "main_data.hdf5"))
            stored: Callable[[], Iterable[Any]] = partial(repeat, file)
            source: Any = partial(_from_hdf5, jpeg=jpeg, labelled=labelled)
        else:
            stored = partial(_arrow_files, data, count)
            source = partial(_from_arrow, data, jpeg=jpeg, labelled=labelled)

        def episodes() -> Iterator[Episode]:
            for number, each in zip(range(count), stored(), strict=False):
                with refused(f"{data}: episode {number}"):
                    parts, seed = source(each, number, picked, action_space, notes)
                yield assembled(f"{data}: episode {number}", _checked(parts), notes, {"seed": int(seed)})

        yield Recording(
            episodes,
            env_id=str(spec.get("id") or ""),
            env_kwargs=_env_kwargs(spec) | picked.env_kwargs,
            observation_space=picked.space,
            action_space=action_space,
            expert=str(metadata.get("algorithm_name") or ""),
            info=info,
            labelled=labelled,
        )


def _spaces(metadata: Mapping[str, Any]) -> tuple[Space, Space]:
    """The spaces of observations and actions. Raises InputError if one is missing or not supported."""
    observations, actions = (_json(metadata, name) for name in ("observation_space", "action_space"))
    if observations is None or actions is None:
        raise InputError("its metadata lack a space; write it again with Minari 0.5")
    action_space = space_of(actions)
    if isinstance(action_space, Fields) and actions["type"] == "Tuple":
        action_space = multi_discrete([action_space[str(place)] for place in range(len(action_space))])
    if isinstance(action_space, Fields):
        raise InputError("actions are a Dict: wanted Box, Discrete, MultiDiscrete, MultiBinary or Tuple")
    return space_of(observations), action_space


def losses(info: DemoInfo, labelled: bool, layout: str = "hdf5") -> list[str]:  # noqa: ARG001
    if layout == "hdf5":
        hdf5.check_names(info.observation_space)
    if is_installed(info.env_id):
        ours = '"imitate.' in env_spec(info)  # an entry point, such as that of FireFirst
        return ["recover_environment needs this package beside Minari"] if ours else []
    own = info.env_id if ":" in info.env_id else f"MODULE:{info.env_id}"
    return [
        f"recover_environment will not work: {info.env_id} is not known here (--env {own} names one of yours)"
    ]


def _from_hdf5(
    file: h5py.File, number: int, picked: Picked, _: Space, notes: Notes, *, jpeg: bool, labelled: bool
) -> tuple[Iterator[Rows], Any]:
    """Read the rows of an episode, and its seed."""
    episode = hdf5.group(file, f"episode_{number}")
    infos = episode.get("infos")
    if isinstance(infos, h5py.Group):
        _note_infos(list(infos), notes, labelled)
    return _hdf5_parts(episode, infos if labelled else None, picked, jpeg), episode.attrs.get("seed", -1)


def _hdf5_parts(episode: h5py.Group, infos: Any, picked: Picked, jpeg: bool) -> Iterator[Rows]:
    keyed = isinstance(episode.get("observations"), h5py.Group)
    observed = hdf5.group(episode, "observations") if keyed else episode
    parts = episode.get("actions")
    if isinstance(parts, h5py.Group):  # of a Tuple
        actions = [hdf5.dataset(parts, f"_index_{place}") for place in range(len(parts))]
    else:
        actions = [hdf5.dataset(episode, "actions")]
    steps = len(actions[0]) if actions else 0
    columns = {ours: hdf5.rows_of(episode, theirs, steps) for ours, theirs in _FLAT.items()}
    if isinstance(infos, h5py.Group) and "expert_actions" in infos:
        columns["expert_actions"] = hdf5.rows_of(infos, "expert_actions", steps + 1)
    acted = sum(map(row_bytes, [*columns.values(), *actions]))
    for start, stop in spans(steps, picked.row_bytes + acted):
        end = stop + (stop == steps)

        def get(
            parent: h5py.Group, name: str | None, space: Space, start: int = start, end: int = end
        ) -> Any:
            name = "observations" if name is None else name
            name = f"_index_{name}" if f"_index_{name}" in parent else name  # a part of a Tuple
            if isinstance(space, Fields):
                return hdf5.group(parent, name)
            if jpeg and is_image(space):
                return _decoded(_jpegs(parent, name)[start:end], space)
            return hdf5.array(hdf5.rows_of(parent, name, steps + 1), start, end)

        rows = {name: hdf5.array(column, start, stop) for name, column in columns.items()}
        taken = [hdf5.array(column, start, stop) for column in actions]
        rows["actions"] = np.column_stack(taken) if isinstance(parts, h5py.Group) else taken[0]
        yield rows | {"obs": picked.take(observed, get)}


def _jpegs(parent: h5py.Group, name: str) -> h5py.Dataset:
    """A dataset of JPEG files: rows of bytes, which may differ in length."""
    found = parent.get(name)
    if not isinstance(found, h5py.Dataset) or found.ndim not in (1, 2):
        raise InputError(f"{name} are no JPEG images")
    return found


def _decoded(rows: Iterable[Any], space: Space) -> Array:
    """JPEG files, each bytes or an array of them, to images (n, *shape)."""
    files = [row if isinstance(row, bytes) else np.asarray(row, np.uint8).tobytes() for row in rows]
    return pictures_of(files, space.shape or (), ["JPEG"])


def _arrow_files(data: Path, count: int) -> Iterator[tuple[Sequence[Path], bool]]:
    """The files of each episode, and whether they are sound."""
    return arrow.checked(sorted((data / str(number)).glob("*.arrow")) for number in range(count))


def _from_arrow(
    data: Path,
    stored: tuple[Sequence[Path], bool],
    number: int,
    picked: Picked,
    action_space: Space,
    notes: Notes,
    *,
    jpeg: bool,
    labelled: bool,
) -> tuple[Iterator[Rows], Any]:
    seed = read_json(data / str(number) / "metadata.json", dict[str, Any]).get("seed")
    files, sound = stored
    if not files:
        raise InputError("it has no Arrow file")
    batches = chain.from_iterable(arrow.batches(file, sound=sound) for file in files)
    slices = (
        batch.slice(start, stop - start)
        for batch in batches
        for start, stop in spans(batch.num_rows, picked.row_bytes + 64)
    )
    # Every column has as many rows as observations, and the last row is padding.
    parts = (
        _arrow_rows(rows, last, picked, action_space, jpeg, labelled, notes) for rows, last in marked(slices)
    )
    return parts, -1 if seed is None else seed


def _arrow_rows(
    table: Any, last: bool, picked: Picked, action_space: Space, jpeg: bool, labelled: bool, notes: Notes
) -> Rows:
    infos = arrow.fields(arrow.column(table, "infos")) if "infos" in table.schema.names else {}
    if last:
        _note_infos(list(infos), notes, labelled)

    def get(parent: Any, name: str | None, space: Space) -> Any:
        column = arrow.column(table, "observations") if name is None else parent[name]
        if isinstance(space, Fields):
            return arrow.fields(column)
        if jpeg and is_image(space):
            return _decoded(column.to_pylist(), space)
        return arrow.numbers(column).reshape(len(column), *(space.shape or ()))

    is_dict = isinstance(picked.space_as_stored, Fields)
    obs = picked.take(arrow.fields(arrow.column(table, "observations")) if is_dict else table, get)
    column = arrow.column(table, "actions")
    if arrow.is_struct(column):  # a part of a Tuple
        fields = arrow.fields(column)
        actions = np.column_stack([arrow.numbers(fields[str(place)]) for place in range(len(fields))])
    else:
        actions = arrow.numbers(column).reshape(-1, *(action_space.shape or ()))
    rows = {"actions": actions} | {
        ours: arrow.numbers(arrow.column(table, theirs)) for ours, theirs in _FLAT.items()
    }
    if labelled and "expert_actions" in infos:
        rows["expert_actions"] = arrow.numbers(infos["expert_actions"]).reshape(actions.shape)
    return {"obs": obs} | {name: each[: len(each) - last] for name, each in rows.items()}


def _checked(parts: Iterable[Rows]) -> Iterator[Rows]:
    """The rows of one episode. Raises InputError if a flag is set before the last one."""
    ended = False
    for rows in parts:
        for name in ("rewards", "terminated", "truncated"):
            if rows[name].shape != (len(rows["actions"]),):
                raise InputError(
                    f"{name} have shape {rows[name].shape}, there are {len(rows['actions'])} actions"
                )
        ends = as_flags(rows["terminated"], "terminations") | as_flags(rows["truncated"], "truncations")
        if len(ends) and (ended or ends[:-1].any()):
            raise InputError("its flags are not those of one episode")
        ended |= bool(ends[-1:].any())  # the last slice may hold the final observation alone
        yield rows


def _note_infos(names: list[str], notes: Notes, labelled: bool) -> None:
    for name in names:
        if name != "expert_actions" or not labelled:
            notes[f"infos {name!r} are left out"] += 1


def _env_kwargs(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of the environment, including a time limit that differs from the registered one."""
    kwargs = spec.get("kwargs")
    kwargs = dict(kwargs) if isinstance(kwargs, dict) else {}
    registered = gym.registry.get(str(spec.get("id")))
    limit = spec.get("max_episode_steps")
    if registered is not None and type(limit) is int and limit != registered.max_episode_steps:
        kwargs["max_episode_steps"] = limit
    return kwargs


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
        value = plain_json(metadata[name])
    except (TypeError, AttributeError, ValueError, RecursionError) as error:
        raise InputError(f"its {name} is no JSON: {one_line(error)[:100]}") from error
    if not isinstance(value, dict):
        raise InputError(f"its {name} is no JSON object")
    return value


FORMAT = Format(found, read, write, losses, folder=True, dicts=True, read_options=("obs_keys",))
ARROW = replace(
    FORMAT,
    found=lambda path: False,  # noqa: ARG005
    losses=partial(losses, layout="arrow"),
    write=partial(write, layout="arrow"),
)
"""Writes the Arrow layout; `FORMAT` reads both."""
