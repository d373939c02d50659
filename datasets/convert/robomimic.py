"""robomimic: one HDF5 file with `data/demo_i` and the environment's arguments. https://robomimic.github.io"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from gymnasium import spaces

from imitate.datasets.convert import hdf5
from imitate.datasets.convert.foreign import Notes, refused
from imitate.datasets.convert.pieces import Episode, Rows, assembled, marked, side_by_side, spans
from imitate.datasets.convert.recording import Format, Recording, wide
from imitate.datasets.convert.robomimic_texts import GYM, Texts, state_size
from imitate.datasets.storage.columns import row_bytes
from imitate.datasets.storage.schema import TEXTS, DemoInfo, info_from_plain, info_to_plain
from imitate.envs.fields import Fields, from_parts, leaves, part_of
from imitate.envs.spaces import Array, Space
from imitate.envs.trust import bare_id
from imitate.errors import InputError

__all__ = ["FORMAT"]

_FASTEST = 100_000  # steps a second


def found(path: Path) -> bool:
    if not hdf5.is_hdf5(path):
        return False
    with hdf5.open_hdf5(path) as file:
        data = file.get("data")
        return isinstance(data, h5py.Group) and any(name.startswith("demo_") for name in data)


@contextmanager
def read(
    path: Path, notes: Notes, obs_keys: Sequence[str] = (), *, clip: bool = False
) -> Iterator[Recording]:
    """Observations are those of `obs_keys`, or all: vectors are concatenated by name, pictures with others are a Dict.
    Our own files come back as they were. Actions outside of [-1, 1] are refused unless the caller clips them."""
    with hdf5.open_hdf5(path) as file, refused(path):
        data = hdf5.group(file, "data")
        arguments = hdf5.json_object(data, "env_args")
        stored = hdf5.json_object(data, "imitate")
        info = info_from_plain(stored, path) if stored else None
        if obs_keys and info is not None and isinstance(info.observation_space, Fields):
            info = None  # a part of it
        names = sorted((name for name in data if name.startswith("demo_")), key=_number)
        shown = hdf5.group(hdf5.group(data, names[0]), "obs") if names else None
        chosen = [] if shown is None else _chosen(shown, obs_keys)
        space = _space(shown, chosen) if info is None else info.observation_space
        masks = {name: hdf5.texts(file["mask"], name) for name in file["mask"]} if "mask" in file else {}
        is_gym = arguments.get("type") == GYM
        described = None if is_gym else hdf5.text(data, "env_args")
        texts = Texts(masks, described or "")
        size = state_size(data, names, notes)
        labelled = bool(stored and names and "expert_actions" in hdf5.group(data, names[0]))

        def episodes(names: Sequence[str] = names) -> Iterator[Episode]:
            for name in names:
                with refused(f"{path}: {name}"):
                    demo = hdf5.group(data, name)
                    about = {"seed": int(demo.attrs.get("seed", -1))} | texts.of(name, demo)
                    parts = _parts(demo, chosen, space, labelled, size > 0, clip, notes)
                yield assembled(f"{path}: {name}", parts, notes, about)

        actions = hdf5.dataset(hdf5.group(data, names[0]), "actions") if names else None
        kwargs = arguments.get("env_kwargs")
        kwargs = kwargs if isinstance(kwargs, dict) else {}
        rate = kwargs.get("control_freq")
        yield Recording(
            episodes,
            env_id=str(arguments.get("env_name") or ""),
            env_kwargs=kwargs if is_gym else {},
            observation_space=space if isinstance(space, Fields) else None,
            action_space=None if is_gym else _action_space(actions),
            info=info,
            labelled=labelled,
            state_size=size,
            fps=float(rate) if isinstance(rate, int | float) and 0 < rate <= _FASTEST else 0.0,
            has_texts=any(texts.of(name, hdf5.group(data, name)) for name in names),
            masks={name: partial(episodes, sorted(set(held), key=_number)) for name, held in masks.items()},
        )


def _action_space(actions: h5py.Dataset | None) -> spaces.Box:
    """[-1, 1] for each action, in the type of those that are stored."""
    if actions is None:
        return spaces.Box(-1.0, 1.0, (1,))
    dtype: Any = actions.dtype.type if actions.dtype.kind == "f" else np.float32
    return spaces.Box(-1.0, 1.0, actions.shape[1:], dtype)


def losses(info: DemoInfo, labelled: bool) -> list[str]:  # noqa: ARG001
    hdf5.check_names(info.observation_space)
    space = info.action_space
    if not isinstance(space, spaces.Box):
        raise InputError(f"robomimic's actions are continuous, these are {space}")
    if not ((space.low == -1).all() and (space.high == 1).all()):
        raise InputError(
            f"robomimic's actions are in [-1, 1], these are in {space}: record them with "
            "gymnasium.wrappers.RescaleAction around the environment"
        )
    if info.state_size:
        return []
    return ["simulator states are not known: robomimic can train and evaluate, not play back from states"]


def write(path: Path, info: DemoInfo, episodes: Iterable[Episode], labelled: bool) -> None:  # noqa: ARG001
    """Observations are called `flat`, as in robomimic's own EnvGym, or `image`; a Dict's parts have their own names."""
    with hdf5.create_hdf5(path) as file:
        data = file.create_group("data")
        arguments = {"env_name": bare_id(info.env_id), "type": GYM, "env_kwargs": dict(info.env_kwargs)}
        described, masks = "", dict[str, list[bytes]]()
        data.attrs["imitate"] = json.dumps(info_to_plain(info))
        steps = 0
        for number, episode in enumerate(episodes):
            name = f"demo_{number}"
            count, about = _add(data.create_group(name), info.observation_space, episode)
            steps += count
            if described and about.get("env_args", described) != described:
                raise InputError(
                    f"episode {number} has other env_args than one before it, a file of robomimic has one for all: "
                    "convert the files that were joined one by one"
                )
            described = about.get("env_args", described)
            if "\0" in described:
                raise InputError("the text env_args holds a NUL, which no text in HDF5 can")
            for mask in about.get("masks", ()):
                if mask in ("", ".") or "/" in mask or "\0" in mask:
                    raise InputError(f"a mask is called {mask!r}, which no name in HDF5 can be; rename it")
                masks.setdefault(mask, []).append(name.encode())
        data.attrs["env_args"], data.attrs["total"] = described or json.dumps(arguments), steps
        for mask, chosen in masks.items():
            file[f"mask/{mask}"] = np.array(chosen)


def _add(demo: h5py.Group, space: Space, episode: Episode) -> tuple[int, Mapping[str, Any]]:
    """Add an episode; returns its number of steps and its `Trajectory.info`."""
    steps = 0
    for piece, last in marked(episode):
        fixed = last and not steps
        dones = np.zeros(len(piece), np.int64)
        dones[-1] = last
        columns = {"actions": piece.actions, "rewards": piece.rewards, "dones": dones}
        for key, rows in _named(space, piece.obs).items():
            columns |= {f"obs/{key}": rows[:-1], f"next_obs/{key}": rows[1:]}
        if piece.expert_actions is not None:
            columns["expert_actions"] = piece.expert_actions
        if piece.states is not None:
            columns["states"] = piece.states
        for name, rows in columns.items():
            hdf5.extend(demo, name, rows, fixed=fixed)
        steps += len(piece)
    if "states" not in demo:
        demo.create_dataset("states", data=np.zeros((steps, 0), np.float32))
    if "\0" in piece.info.get("model_file", ""):
        raise InputError("the text model_file holds a NUL, which no text in HDF5 can")
    if "model_file" in piece.info:
        demo.attrs["model_file"] = piece.info["model_file"]
    if "task" in piece.info:
        demo.attrs["ep_meta"] = json.dumps({"lang": piece.info["task"]})
    demo.attrs["num_samples"], demo.attrs["seed"] = steps, piece.info.get("seed", -1)
    demo.attrs["terminated"], demo.attrs["truncated"] = piece.terminated, piece.truncated
    return steps, piece.info


def _named(space: Space, obs: Array) -> dict[str, Array]:
    """The observations (n, ...) under their names, `camera/left` in a Dict of a Dict."""
    if isinstance(space, Fields):
        return {name: part_of(obs, name) for name, *_ in leaves(space)}
    return {"flat" if obs.ndim <= 2 else "image": obs}


def _parts(
    demo: h5py.Group,
    chosen: Sequence[str],
    space: Space | None,
    labelled: bool,
    stated: bool,
    clip: bool,
    notes: Notes,
) -> Iterator[Rows]:
    names = [
        "actions",
        *(["rewards"] if "rewards" in demo else []),
        *(["expert_actions"] if labelled else []),
        *(["states"] if stated else []),
    ]
    steps = len(hdf5.dataset(demo, "actions"))
    columns = {name: hdf5.rows_of(demo, name, steps) for name in names}
    obs = hdf5.group(demo, "obs")
    notes.update(f"observations {name!r} are left out" for name in _names(obs) if name not in chosen)
    flags = {
        name: np.reshape(demo.attrs.get(name, name == "truncated"), 1) for name in ("terminated", "truncated")
    }
    if "terminated" not in demo.attrs:
        notes["all episodes count as truncated: `dones` marks both success and the last step"] += 1
    step_bytes = sum(map(row_bytes, [*columns.values(), *(hdf5.dataset(obs, name) for name in chosen)]))
    for start, stop in spans(steps, step_bytes):
        rows = flags | {name: hdf5.array(column, start, stop) for name, column in columns.items()}
        if stated:
            rows["states"] = rows["states"].astype(np.float64)
        if not clip and ((rows["actions"] < -1) | (rows["actions"] > 1)).any():
            raise InputError(
                "its actions leave [-1, 1]: normalise them first, as robomimic wants, or move them to its bounds with "
                "--clip"
            )
        rows["obs"] = _joined(obs, chosen, space, start, stop)
        if stop == steps and "next_obs" in demo:
            final = _joined(hdf5.group(demo, "next_obs"), chosen, space, steps - 1, steps)
            rows["obs"] = np.concatenate([rows["obs"], final])
        yield rows


def _names(obs: h5py.Group) -> list[str]:
    """The observations by name, "cams/left" in a group of the group."""
    names: list[str] = []
    obs.visititems(lambda name, found: names.append(name) if isinstance(found, h5py.Dataset) else None)
    return sorted(names)


def _chosen(obs: h5py.Group, keys: Sequence[str]) -> list[str]:
    names = _names(obs)
    for key in keys:
        if key not in names:
            raise InputError(f"no observation {key!r}; there are {', '.join(names)}")
    return list(keys) or names


def _space(obs: h5py.Group | None, chosen: Sequence[str]) -> Fields | None:
    """The Dict of the chosen observations; None if they become one array."""
    columns = {} if obs is None else {name: hdf5.dataset(obs, name) for name in chosen}
    if len(columns) < 2 or all(column.ndim <= 2 for column in columns.values()):
        return None
    return Fields({name: wide(column.dtype, column.shape[1:]) for name, column in columns.items()})


def _joined(obs: h5py.Group, chosen: Sequence[str], space: Space | None, start: int, stop: int) -> Array:
    columns = [hdf5.array(hdf5.dataset(obs, name), start, stop) for name in chosen]
    if isinstance(space, Fields):
        return from_parts(space, dict(zip(chosen, columns, strict=True)), stop - start)
    return side_by_side(columns)


def _number(name: str) -> tuple[int, str]:
    digits = name.removeprefix("demo_")
    return (int(digits) if digits.isdecimal() and len(digits) < 10 else 1 << 40, name)


FORMAT = Format(
    found, read, write, losses, dicts=True, kept=(*TEXTS, "states"), read_options=("obs_keys", "clip")
)
