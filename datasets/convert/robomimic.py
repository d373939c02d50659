"""robomimic: one HDF5 file with `data/demo_i` and the environment's arguments. https://robomimic.github.io"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from gymnasium import spaces

from imitate.datasets.convert import hdf5
from imitate.datasets.convert.recording import Notes, Recording, ended, refused
from imitate.datasets.schema import DemoInfo, info_from_plain, info_to_plain
from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array
from imitate.envs.trust import bare_id
from imitate.errors import InputError

__all__ = ["FOLDER", "found", "losses", "read", "write"]

FOLDER = False
_GYM = 2  # robomimic.envs.env_base.EnvType.GYM_TYPE


def found(path: Path) -> bool:
    if not hdf5.is_hdf5(path):
        return False
    with hdf5.open_hdf5(path) as file:
        data = file.get("data")
        return isinstance(data, h5py.Group) and any(name.startswith("demo_") for name in data)


@contextmanager
def read(path: Path, keys: Sequence[str], notes: Notes) -> Iterator[Recording]:
    """Observations are those of `keys`, or all flat ones, concatenated by name."""
    with hdf5.open_hdf5(path) as file, refused(path):
        data = hdf5.group(file, "data")
        arguments = _json(hdf5.text(data, "env_args"))
        stored = _json(hdf5.text(data, "imitate"))
        names = sorted((name for name in data if name.startswith("demo_")), key=_number)
        masks = {name: hdf5.texts(file["mask"], name) for name in file["mask"]} if "mask" in file else {}
        labelled = bool(stored and names and "expert_actions" in hdf5.group(data, names[0]))

        def episodes(names: Sequence[str] = names) -> Iterator[Trajectory]:
            for name in names:
                with refused(f"{path}: {name}"):
                    episode = _episode(hdf5.group(data, name), keys, labelled, notes)
                    if episode is not None:
                        yield episode

        actions = hdf5.dataset(hdf5.group(data, names[0]), "actions") if names else None
        width = actions.shape[1:] if actions is not None else (1,)
        dtype: Any = np.float32 if actions is None or actions.dtype.kind != "f" else actions.dtype.type
        kwargs = arguments.get("env_kwargs")
        yield Recording(
            episodes,
            env_id=str(arguments.get("env_name") or ""),
            env_kwargs=kwargs if isinstance(kwargs, dict) and arguments.get("type") == _GYM else {},
            action_space=spaces.Box(-1.0, 1.0, width, dtype) if arguments.get("type") != _GYM else None,
            info=info_from_plain(stored, path) if stored else None,
            labelled=labelled,
            masks={
                name: partial(episodes, sorted(set(chosen), key=_number)) for name, chosen in masks.items()
            },
        )


def losses(info: DemoInfo, labelled: bool) -> list[str]:  # noqa: ARG001
    space = info.action_space
    if not isinstance(space, spaces.Box):
        raise InputError(f"robomimic's actions are continuous, these are {space}")
    if not ((space.low == -1).all() and (space.high == 1).all()):
        raise InputError(
            f"robomimic's actions are in [-1, 1], these are in {space}: record them with "
            "gymnasium.wrappers.RescaleAction around the environment"
        )
    return ["simulator states are not known: robomimic can train and evaluate, not play back from states"]


def write(path: Path, info: DemoInfo, episodes: Iterable[Trajectory], labelled: bool) -> None:
    """Observations are called `flat`, as robomimic's own EnvGym does, or `image`."""
    losses(info, labelled)
    key = "flat" if len(info.observation_space.shape or ()) < 2 else "image"
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        arguments = {"env_name": bare_id(info.env_id), "type": _GYM, "env_kwargs": dict(info.env_kwargs)}
        data.attrs["env_args"] = json.dumps(arguments)
        data.attrs["imitate"] = json.dumps(info_to_plain(info))
        steps = 0
        for number, episode in enumerate(episodes):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = len(episode)
            demo.attrs["seed"] = episode.info.get("seed", -1)
            demo.attrs["terminated"], demo.attrs["truncated"] = episode.terminated, episode.truncated
            dones = np.zeros(len(episode), np.int64)
            dones[-1] = 1
            compression = "gzip" if key == "image" else None
            for name, rows in (("obs", episode.obs[:-1]), ("next_obs", episode.obs[1:])):
                demo.create_dataset(f"{name}/{key}", data=rows, compression=compression)
            demo.create_dataset("actions", data=episode.actions)
            demo.create_dataset("rewards", data=episode.rewards)
            demo.create_dataset("dones", data=dones)
            demo.create_dataset("states", data=np.zeros((len(episode), 0), np.float32))
            if episode.expert_actions is not None:
                demo.create_dataset("expert_actions", data=episode.expert_actions)
            steps += len(episode)
        data.attrs["total"] = steps


def _episode(demo: h5py.Group, keys: Sequence[str], labelled: bool, notes: Notes) -> Trajectory | None:
    actions = hdf5.array(demo, "actions")
    steps = len(actions)
    outside = (actions < -1) | (actions > 1)
    if outside.any():
        raise InputError("its actions leave [-1, 1]: normalise them first, as robomimic wants")
    rewards = hdf5.array(demo, "rewards", 0, steps) if "rewards" in demo else np.zeros(steps, np.float32)
    notes["rewards are absent and become 0"] += int("rewards" not in demo)
    chosen = _chosen(hdf5.group(demo, "obs"), keys, notes)
    obs = _joined(hdf5.group(demo, "obs"), chosen, 0, steps)
    labels = hdf5.array(demo, "expert_actions", 0, steps) if labelled else None
    info = {"seed": int(demo.attrs.get("seed", -1))}
    terminated = bool(demo.attrs.get("terminated", False))
    truncated = bool(demo.attrs.get("truncated", True))
    if "terminated" not in demo.attrs:
        notes["all episodes count as truncated: `dones` says of success or the last step alike"] += 1
    more: dict[str, Any] = {"info": info, "expert_actions": labels}
    if "next_obs" not in demo:
        return ended(obs, actions, rewards, terminated, truncated, notes, **more)
    last = _joined(hdf5.group(demo, "next_obs"), chosen, steps - 1, steps)
    return Trajectory(np.concatenate([obs, last]), actions, rewards, terminated, truncated, **more)


def _chosen(obs: h5py.Group, keys: Sequence[str], notes: Notes) -> list[str]:
    for key in keys:
        if key not in obs:
            raise InputError(f"no observation {key!r}; there are {', '.join(obs)}")
    flat = [name for name in sorted(obs) if hdf5.dataset(obs, name).ndim <= 2]
    chosen = list(keys) or flat or sorted(obs)[:1]
    for name in obs:
        if name not in chosen:
            notes[f"observations {name!r} are left out (--obs-keys takes them)"] += 1
    return chosen


def _joined(obs: h5py.Group, chosen: Sequence[str], start: int, stop: int) -> Array:
    columns = [hdf5.array(obs, name, start, stop) for name in chosen]
    if len(columns) == 1:
        return columns[0]
    return np.concatenate([column.reshape(len(column), -1) for column in columns], axis=1)


def _json(value: str | None) -> dict[str, Any]:
    try:
        data = json.loads(value or "{}")
    except (ValueError, RecursionError):
        raise InputError("its env_args are no JSON; restore it or make it again") from None
    return data if isinstance(data, dict) else {}


def _number(name: str) -> tuple[int, str]:
    digits = name.removeprefix("demo_")
    return (int(digits) if digits.isdecimal() and len(digits) < 10 else 1 << 40, name)
