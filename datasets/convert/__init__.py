"""Converts between other projects' data sets and ours: `imitate data convert`.

A `Format` reads a data set as a stream of episodes, and writes one from such a stream, in pieces of about 32 MB.
Foreign files are treated as data: nothing in them is unpickled, imported or executed, and sizes, types and shapes are
checked before reading.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gymnasium import spaces

from imitate.datasets.convert import csv_files, d4rl, imitation, lerobot, minari, npz, ours, robomimic
from imitate.datasets.convert.foreign import Notes, most
from imitate.datasets.convert.lerobot_layout import Codec
from imitate.datasets.convert.outliers import Outliers
from imitate.datasets.convert.pieces import NO_EPISODES, Episode, within
from imitate.datasets.convert.recording import Format, Recording, complete, fitted
from imitate.datasets.storage.fit import check_fit
from imitate.datasets.storage.schema import TEXTS, Compression, DemoInfo
from imitate.datasets.storage.zstd import register
from imitate.datasets.trajectory import Trajectory
from imitate.envs.fields import Fields
from imitate.envs.make import is_installed, resolve_env_id
from imitate.errors import InputError, did_you_mean
from imitate.files import atomic, atomic_folder, make_parent

__all__ = ["FORMATS", "Converted", "convert", "env_of", "format_of"]

# Specific formats come first. `ours` is last, since its reader explains what is wrong with an unknown file.
FORMATS: dict[str, Format] = {
    "minari": minari.FORMAT,
    "minari-arrow": minari.ARROW,
    "lerobot": lerobot.FORMAT,
    "imitation": imitation.FORMAT,
    "robomimic": robomimic.FORMAT,
    "d4rl": d4rl.FORMAT,
    "npz": npz.FORMAT,
    "csv": csv_files.FORMAT,
    "imitate": ours.FORMAT,
}

_CALLED = {
    "task": "texts of tasks are",
    "states": "states of the simulator are",
    "model_file": "models of the simulator are",
    "env_args": "robomimic's description of the environment is",
}

_SUFFIXES = {".h5": "imitate", ".npz": "npz", ".csv": "csv"}


@dataclass(frozen=True)
class Converted:
    """The result of a conversion, or of a dry run; `notes` list what was lost or guessed."""

    source_format: str
    format: str
    env_id: str
    episodes: int
    steps: int
    notes: list[str]


def format_of(path: Path) -> str:
    """The name of the format of an existing data set, by its content. Raises InputError if none fits."""
    if not path.exists():
        raise InputError(f"no data set at {path}; check the path")
    if not (path.is_file() or path.is_dir()):
        raise InputError(f"{path} is neither a file nor a folder; check the path")
    for name, format in FORMATS.items():
        if format.found(path):
            return name
    if path.suffix.lower() == ".npz":
        raise InputError(f"{path} is no .npz, or was cut short: restore it or make it again")
    raise InputError(f"{path} is none of the known formats: {', '.join(FORMATS)}")


def env_of(path: Path) -> str:
    """The id of the environment that a data set is of; empty if it does not say. Raises InputError if it is damaged."""
    with FORMATS[format_of(path)].read(path, Notes()) as recording:
        return recording.env_id if recording.info is None else recording.info.env_id


def convert(
    source: str | Path,
    out: str | Path,
    *,
    format: str | None = None,
    env_id: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    obs_keys: Sequence[str] = (),
    columns: Sequence[str] = (),
    mask: str | None = None,
    clip: bool = False,
    actions: bool = True,
    compression: Compression | None = None,
    fps: float | None = None,
    codec: Codec | None = None,
    dry_run: bool = False,
) -> Converted:
    """Write the data set `source` as `out`, whole or not at all.

    format    of `out`; by default after its suffix (.h5, .npz, .csv)
    env_id    the environment, if the source names none; it need not be installed, unless it is `module:Env-v0`
    obs_keys  keys of the observations to take; by default all. robomimic's and LeRobot's become a Dict if there are
              pictures among several, otherwise one array; some of a Dict of Minari or ours become one array
    columns   names of the columns in a CSV or .npz, such as ["obs=level,velocity", "action=valve", "reward=r"]
    mask      name of the part of the source to take (robomimic's filter keys); by default everything
    clip      move actions that leave the action space to its bounds
    actions   False: leave them out, as in demonstrations of observations alone
    compression   of pictures in our format; by default the source's
    fps       steps a second; by default what the source says
    codec     of the pictures in a LeRobotDataset; both are lossless: "h264" (the default) makes videos, "png" images
    dry_run   read everything, write nothing

    Raises InputError if `out` exists or can't be written, the source is damaged or of no known format, `out` can't hold
    it, or the module of `env_id` registers no such environment.
    """
    source, out = Path(source), Path(out)
    target_name, source_name = _target_name(format, out), format_of(source)
    _check_source(source_name, obs_keys, columns)
    _check_target(target_name, compression, fps, codec)
    if env_id and ":" in env_id:  # an id without a module need not be installed
        resolve_env_id(env_id)
    if out.exists():
        raise InputError(f"{out} exists already: choose another name")
    if compression == "zstd":
        register(out)  # refuses by this name; the file has another one while it is written
    source_format, target, notes = FORMATS[source_name], FORMATS[target_name], Notes()
    given = {"obs_keys": obs_keys, "columns": columns, "actions": actions, "clip": clip}
    options = {name: given[name] for name in source_format.read_options}
    with source_format.read(source, notes, **options) as recording:
        recording = _chosen_part(recording, source, mask, notes, kept="masks" in target.kept)
        recording = recording if source_name == "imitate" else _bounded(recording, source)
        info = _described(recording, env_id, env_kwargs, notes)
        info = replace(info, compression=compression or info.compression, fps=fps or info.fps)
        info = _as_target(info, target_name, actions)
        lost = target.losses(info, recording.labelled)
        fitting = fitted(recording, info, notes, clip=clip)
        counts = Counter[str]()
        counted = _counted((_kept(target.kept, pieces, notes) for pieces in fitting), counts)
        guessed = _guessed(recording, info.env_id)
        seen = Outliers(counted)
        watched = bool(guessed) and info.has_actions and isinstance(info.action_space, spaces.Box)
        stream = _not_empty(seen if watched else counted, source)
        if dry_run:
            for piece in itertools.chain.from_iterable(stream):
                if target_name == "imitate":
                    check_fit(piece, info, out, labels=recording.labelled)
        else:
            extra: dict[str, Any] = {} if codec is None else {"codec": codec}
            if target_name == "imitate":
                extra["failed_seeds"] = recording.failed_seeds
            _write(target, out, info, stream, recording.labelled, extra)
    said = [f"{note} ({count})" if count > 1 else note for note, count in notes.items() if count]
    said += guessed + seen.notes() + lost
    return Converted(source_name, target_name, info.env_id, counts["episodes"], counts["steps"], said)


def _bounded(recording: Recording, source: Path) -> Recording:
    """The recording with no more steps and bytes than files of the source's size can hold."""
    begin, limit = recording.episodes, most(source)
    return replace(recording, episodes=lambda: within(limit, begin()))


def _check_source(name: str, obs_keys: Sequence[str], columns: Sequence[str]) -> None:
    """Raise InputError for options that this format can't be read with."""
    taken = FORMATS[name].read_options
    if obs_keys and "obs_keys" not in taken:
        raise InputError(f"the observations of {name} have no keys: leave --obs-keys out")
    if columns and "columns" not in taken:
        raise InputError(f"{name} says itself what its columns are: leave --columns out")


def _check_target(name: str, compression: Compression | None, fps: float | None, codec: Codec | None) -> None:
    """Raise InputError for options that this format can't be written with."""
    taken = FORMATS[name].write_options
    if compression is not None and "compression" not in taken:
        raise InputError(f"{name} has its own compression: leave --compression out")
    if codec is not None and "codec" not in taken:
        raise InputError(f"{name} has no videos: leave --codec out")
    if fps is not None and "fps" not in taken:
        raise InputError(f"{name} has no place for steps a second: leave --fps out")
    if fps is not None and fps <= 0:
        raise InputError(f"--fps must be above 0, got {fps}")


def _as_target(info: DemoInfo, name: str, actions: bool) -> DemoInfo:
    """The description of the data in the format with this name, which may hold less. Raises InputError if it can't hold
    them."""
    format = FORMATS[name]
    if isinstance(info.observation_space, Fields) and not format.dicts:
        others = ", ".join(other for other, each in FORMATS.items() if each.dicts)
        raise InputError(
            f"{name} holds no Dict observations: use --format {others}, or take some of them in one array with "
            "--obs-keys"
        )
    has_actions = info.has_actions and actions
    if not has_actions and not format.without_actions:
        others = ", ".join(other for other, each in FORMATS.items() if each.without_actions)
        raise InputError(f"{name} holds no demonstrations without actions: use --format {others}")
    return replace(
        info,
        has_actions=has_actions,
        has_texts=info.has_texts and bool(format.kept),
        state_size=info.state_size if "states" in format.kept else 0,
    )


def _target_name(format: str | None, out: Path) -> str:
    """The format to write. Raises InputError for an unknown one, or if neither `format` nor the suffix of `out` gives
    it."""
    name = format or _SUFFIXES.get(out.suffix.lower())
    if name is None:
        raise InputError(f"the name {out} does not tell the format: say --format {', '.join(FORMATS)}")
    if name not in FORMATS:
        raise InputError(f"no format {name!r}{did_you_mean(name, FORMATS)}; known: {', '.join(FORMATS)}")
    return name


def _chosen_part(
    recording: Recording, source: Path, mask: str | None, notes: Notes, *, kept: bool
) -> Recording:
    """The part of a recording that `mask` names, or all of it. Raises InputError if it has no such part."""
    masks = recording.masks
    if mask is None:
        if masks and not kept:
            notes[f"parts are not kept apart: {', '.join(masks)} (`data convert --mask` takes one)"] += 1
        return recording
    if mask not in masks:
        known = ", ".join(masks) or "none"
        raise InputError(f"{source} has no part {mask!r}{did_you_mean(mask, masks)}; it has {known}")
    # A part of a collection is not a collection, since it lacks seeds.
    info = None if recording.info is None else replace(recording.info, seed=None)
    return replace(recording, episodes=masks[mask], info=info, failed_seeds=())


def _described(
    recording: Recording, env_id: str | None, env_kwargs: Mapping[str, Any] | None, notes: Notes
) -> DemoInfo:
    """`complete`, without the notes of its pass that looks for bounds; the episodes are read again."""
    at_opening = notes.copy()
    info = complete(recording, env_id, env_kwargs)
    notes.clear()
    notes.update(at_opening)
    return info


def _guessed(recording: Recording, env_id: str) -> list[str]:
    """A note if neither the data nor the environment states the spaces."""
    stated = recording.observation_space is not None and recording.action_space is not None
    if recording.info is not None or stated or is_installed(env_id):
        return []
    return [
        f"{env_id} is not installed here (MODULE:{env_id} would name one of yours): its spaces are as wide as the data"
    ]


def _not_empty(episodes: Iterable[Episode], source: Path) -> Iterator[Episode]:
    """The same episodes. Raises InputError if there are none."""
    stream = iter(episodes)
    first = next(stream, None)
    if first is None:
        raise InputError(f"{source} holds {NO_EPISODES}")
    return itertools.chain([first], stream)


def _kept(kept: Sequence[str], pieces: Episode, notes: Notes) -> Episode:
    """An episode without the texts and states that the target can't hold; masks are noted elsewhere."""
    lost: dict[str, None] = {}
    for piece in pieces:
        texts = [name for name in TEXTS if name in piece.info and name not in kept]
        states = piece.states if "states" in kept else None
        lost |= dict.fromkeys([*texts, *(["states"] if piece.states is not states else [])])
        yield replace(piece, info={k: v for k, v in piece.info.items() if k not in texts}, states=states)
    notes.update(f"{_CALLED[name]} left out" for name in lost if name in _CALLED)


def _write(
    target: Format,
    out: Path,
    info: DemoInfo,
    episodes: Iterable[Episode],
    labelled: bool,
    options: Mapping[str, Any],
) -> None:
    make_parent(out)
    try:
        with atomic_folder(out) if target.folder else atomic(out, new=True) as temporary:
            target.write(temporary, info, episodes, labelled, **options)
    except FileExistsError as error:
        raise InputError(f"{out} exists already: choose another name") from error


def _counted(episodes: Iterable[Episode], counts: Counter[str]) -> Iterator[Episode]:
    """The same episodes; counts them and their steps."""

    def seen(piece: Trajectory) -> Trajectory:
        counts["steps"] += len(piece)
        return piece

    for pieces in episodes:
        counts["episodes"] += 1
        yield map(seen, pieces)
