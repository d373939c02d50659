"""The common part of all formats: reads a foreign data set as a stream of episodes in our types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from imitate.datasets.convert.foreign import Notes, refused
from imitate.datasets.convert.pieces import NO_EPISODES, Episode
from imitate.datasets.storage.contain import check_env
from imitate.datasets.storage.fit import outside
from imitate.datasets.storage.schema import DemoInfo
from imitate.envs.answers import closing_env
from imitate.envs.fields import LEAVES
from imitate.envs.make import make_env
from imitate.envs.spaces import MOST_NUMBERS, Array, Space, lowest_actions
from imitate.envs.trust import bare_id
from imitate.errors import InputError

__all__ = ["Format", "Recording", "complete", "fitted", "typed", "wide"]


@dataclass(frozen=True)
class Recording:
    """An open data set.

    episodes   begins a new pass over all episodes, in order; each must be read before the next is asked for
    info       provenance that our own writer stored in the foreign file; None: another writer made it
    labelled   episodes have `expert_actions`
    acted      False: the data set has no actions, and anything may stand in their place
    decimal    numbers are read from decimal texts, such as 0.1, which is no binary number but a float32's text
    masks      passes over named parts of the data set, such as "train"
    state_size, has_texts, fps   as in `DemoInfo`
    failed_seeds   seeds of episodes that are missing because the environment failed in them

    Facts that the format does not have are empty or None.
    """

    episodes: Callable[[], Iterator[Episode]]
    env_id: str = ""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    observation_space: Space | None = None
    action_space: Space | None = None
    expert: str = ""
    info: DemoInfo | None = None
    labelled: bool = False
    acted: bool = True
    decimal: bool = False
    masks: Mapping[str, Callable[[], Iterator[Episode]]] = field(default_factory=dict)
    state_size: int = 0
    has_texts: bool = False
    fps: float = 0.0
    failed_seeds: Sequence[int] = ()


def nothing_lost(info: DemoInfo, labelled: bool) -> list[str]:  # noqa: ARG001
    return []


@dataclass(frozen=True)
class Format:
    """A format of data sets; each has a module.

    found    (path) -> whether an existing path holds this format; must be cheap
    read     (path, notes, **options) opens it; notes fill while episodes are read
    write    (path, info, episodes, labelled, **options) writes to a path that does not exist, or an empty folder;
             `labelled` episodes have `expert_actions`
    losses   (info, labelled) -> one line for everything that writing would lose; called before `write`. Raises
             InputError if the format can't hold such data
    folder   a data set is a folder, not a file
    dicts    it holds Dict observations
    without_actions   it can be written without actions
    kept     texts of episodes that it keeps, and "states" if it keeps those of the simulator
    read_options, write_options   options of `convert` that it takes, of those that not every format does
    """

    found: Callable[[Path], bool]
    read: Callable[..., AbstractContextManager[Recording]]
    write: Callable[..., None]
    losses: Callable[[DemoInfo, bool], list[str]] = nothing_lost
    folder: bool = False
    dicts: bool = False
    without_actions: bool = False
    kept: tuple[str, ...] = ()
    read_options: tuple[str, ...] = ()
    write_options: tuple[str, ...] = ("fps",)


def complete(recording: Recording, env_id: str | None, env_kwargs: Mapping[str, Any] | None) -> DemoInfo:
    """The recording's DemoInfo. Spaces that the data do not state are the environment's, or as wide as the data if the
    environment is not installed. The data's statements about the environment override the caller's.

    Raises InputError if neither the data nor the caller names the environment, or if data and environment disagree.
    """
    stored = recording.env_id if recording.info is None else recording.info.env_id
    if stored and env_id and bare_id(stored) != bare_id(env_id):
        raise InputError(f"the data are of {stored}, not of {env_id}: leave --env out")
    env_id = env_id or stored
    if not env_id:
        raise InputError("the data do not say of which environment they are: name it with --env")
    if recording.info is not None:
        return replace(recording.info, env_id=env_id)
    kwargs = {**(env_kwargs or {}), **recording.env_kwargs}
    observation, action = recording.observation_space, recording.action_space
    if observation is None or action is None:
        check_env(env_id, recording.env_kwargs)
        try:
            with closing_env(make_env(env_id, kwargs)) as env:
                observation = observation or env.observation_space
                action = action or env.action_space
        except InputError:
            if not recording.acted:
                raise
            seen = _as_wide_as(recording.episodes())
            observation, action = observation or seen[0], action or seen[1]
    assert observation is not None  # a Dict's is stated by its reader
    assert action is not None
    return DemoInfo(
        env_id,
        observation,
        action,
        env_kwargs=kwargs,
        expert=recording.expert,
        has_actions=recording.acted,
        state_size=recording.state_size,
        has_texts=recording.has_texts,
        fps=recording.fps,
        versions={},
    )


def fitted(recording: Recording, info: DemoInfo, notes: Notes, *, clip: bool = False) -> Iterator[Episode]:
    """The episodes in the spaces' types, without empty ones. Raises InputError if they do not fit."""
    for number, pieces in enumerate(recording.episodes()):
        fitting = _fitted(pieces, number, info, notes, clip, recording.decimal)
        first = next(fitting, None)
        if first is not None:
            yield chain([first], fitting)


def _fitted(pieces: Episode, number: int, info: DemoInfo, notes: Notes, clip: bool, decimal: bool) -> Episode:
    seen = Notes()
    fit = partial(typed, notes=seen, decimal=decimal)
    for piece in pieces:
        with refused(f"episode {number}"):
            obs = fit(piece.obs, info.observation_space, "observations")
            if info.has_actions:
                actions = fit(piece.actions, info.action_space, "actions")
                labels = piece.expert_actions
                labels = None if labels is None else fit(labels, info.action_space, "labels")
            else:
                actions, labels = lowest_actions(info.action_space, len(piece)), None
            if clip and info.has_actions and isinstance(info.action_space, spaces.Box):
                actions = _clipped(actions, info.action_space, seen)
                labels = None if labels is None else _clipped(labels, info.action_space, seen)
            rewards = np.asarray(piece.rewards, np.float32)
            seen["rewards are rounded to float32"] += int(_lossy(rewards, piece.rewards, decimal))
            unsaid = not (piece.terminated or piece.truncated)
            seen["an episode that ends without a reason counts as truncated"] += int(unsaid)
            fitting = replace(
                piece,
                obs=obs,
                actions=actions,
                rewards=rewards,
                expert_actions=labels,
                truncated=piece.truncated or unsaid,
            )
        yield fitting
    notes.update(note for note, count in seen.items() if count)


def _clipped(actions: Array, space: spaces.Box, notes: Notes) -> Array:
    notes["actions are clipped to the action space"] += int(outside(space, actions).any())
    return np.clip(actions, space.low, space.high)


def typed(array: Array, space: Space, what: str, notes: Notes, *, decimal: bool = False) -> Array:
    """The rows in the space's type; a column (n, 1) is also n single numbers, and the reverse.

    `decimal` is as in `Recording`.

    Raises InputError if they do not fit the space.
    """
    if isinstance(space, LEAVES) and space.shape == () and array.shape[1:] == (1,):
        array = array[:, 0]
    elif space.shape == (1,) and array.ndim == 1:
        array = array[:, None]
    if array.shape[1:] != space.shape:
        raise InputError(f"{what} have shape {array.shape[1:]}, wanted {space.shape} as in {space}")
    if array.dtype == space.dtype:
        return array
    new = array.astype(space.dtype)
    if new.dtype.kind == "f":
        notes[f"{what} are rounded to {space.dtype}"] += int(_lossy(new, array, decimal))
    elif not np.array_equal(new, array):
        raise InputError(f"{what} are {array.dtype} with fractions or out of range, wanted {space}")
    return new


def _lossy(new: Array, array: Array, decimal: bool) -> bool:
    """True if the conversion to `new` has changed a number. A decimal text has not changed if `new` has the same."""
    if array.dtype.kind in "iu":  # which NumPy would compare as floats
        with np.errstate(invalid="ignore"):
            new = new.astype(array.dtype)
    elif decimal and not np.array_equal(new, array):
        new = new.astype(str).astype(array.dtype)
    return not np.array_equal(new, array)


def wide(dtype: Any, shape: tuple[int, ...]) -> spaces.Box:
    """The space of all arrays of this type and shape, in this machine's byte order."""
    dtype = dtype.newbyteorder("=")
    if dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, shape, dtype=dtype)
    if dtype.kind == "b":
        return spaces.Box(0, 1, shape, dtype=dtype)
    return spaces.Box(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype=dtype)


def _as_wide_as(episodes: Iterator[Episode]) -> tuple[Space | None, Space]:
    """Spaces that hold all observations (without bounds; None for those of a Dict) and actions.

    Whole-number actions are discrete, from 0 or the lowest negative one; several columns are MultiDiscrete.
    """
    pieces = (piece for episode in episodes for piece in episode)
    first = next(pieces, None)
    if first is None:
        raise InputError(f"the data hold {NO_EPISODES}")
    obs, actions = first.obs.dtype, first.actions.dtype
    low, high = first.actions.min(0), first.actions.max(0)
    for piece in chain([first], pieces):
        obs, actions = np.result_type(obs, piece.obs), np.result_type(actions, piece.actions)
        for taken in (piece.actions, piece.labels):
            low, high = np.minimum(low, taken.min(0)), np.maximum(high, taken.max(0))
    observation = None if obs.names else wide(obs, first.obs.shape[1:])
    if actions.kind not in "biu":
        return observation, spaces.Box(low, high, dtype=actions)
    start = [min(int(least), 0) for least in np.ravel(low)]
    counts = [int(most) - least + 1 for most, least in zip(np.ravel(high), start, strict=True)]
    if sum(counts) > MOST_NUMBERS:
        raise InputError(
            f"actions are whole numbers from {min(start)} to {int(np.max(high))}, but a discrete space has at most "
            f"{MOST_NUMBERS}: write amounts with a decimal point, such as 1.0, or as floats"
        )
    if len(counts) > 1:
        return observation, spaces.MultiDiscrete(counts, start=start)
    return observation, spaces.Discrete(counts[0], start=start[0])
