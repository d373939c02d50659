"""What all formats have in common: a foreign data set as a stream of trajectories, and how it becomes ours."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from imitate.datasets.schema import DemoInfo
from imitate.datasets.trajectory import Trajectory
from imitate.envs.make import make_env
from imitate.envs.spaces import Array, Space
from imitate.envs.trust import bare_id
from imitate.errors import InputError, one_line

__all__ = ["Format", "Notes", "Recording", "complete", "ended", "fitted", "needs", "refused", "typed"]

Notes = Counter[str]
"""What the result does not have as the source had it, and how often."""

_REPEATED = "the last observation of a terminated episode is repeated, as the one after it is not stored"
_DROPPED = "the last step of a cut episode is dropped, as the observation after it is not stored"


@dataclass(frozen=True)
class Recording:
    """An open data set.

    episodes   begins a new pass over all trajectories, in order
    info       what our own writer stored in the foreign file; None: somebody else wrote it
    labelled   trajectories have `expert_actions`
    masks      passes over the parts that the data set names, such as "train"

    What the format does not know is empty or None.
    """

    episodes: Callable[[], Iterator[Trajectory]]
    env_id: str = ""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    observation_space: Space | None = None
    action_space: Space | None = None
    expert: str = ""
    info: DemoInfo | None = None
    labelled: bool = False
    masks: Mapping[str, Callable[[], Iterator[Trajectory]]] = field(default_factory=dict)


class Format(Protocol):
    """A module for each format.

    FOLDER   a data set is a folder, not a file
    found    whether the path, which exists, holds this format: a look that costs nothing
    read     opens it; `keys` are the observations to take where there are several. Notes fill while episodes are read
    losses   what writing would lose, a line each. Raises InputError where the format can't hold such data
    write    to a path that does not exist, or an empty folder
    """

    FOLDER: bool

    def found(self, path: Path) -> bool: ...

    def read(self, path: Path, keys: Sequence[str], notes: Notes) -> AbstractContextManager[Recording]: ...

    def losses(self, info: DemoInfo, labelled: bool) -> list[str]: ...

    def write(self, path: Path, info: DemoInfo, episodes: Iterable[Trajectory], labelled: bool) -> None: ...


def needs(module: str) -> Any:
    """A package of the extra `formats`, imported. Raises InputError where it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"this format needs {module.partition('.')[0]}: pip install 'imitate-rl[formats]'"
        ) from error


def complete(recording: Recording, env_id: str | None, env_kwargs: Mapping[str, Any] | None) -> DemoInfo:
    """The recording's DemoInfo. Spaces that the data do not state are those of the environment, or where it is not
    installed, they are as wide as the data. What the data say of the environment goes before what the caller says.

    Raises InputError where neither the data nor the caller name the environment, or data and environment disagree.
    """
    stored = recording.env_id if recording.info is None else recording.info.env_id
    if stored and env_id and bare_id(stored) != bare_id(env_id):
        raise InputError(f"the data are of {stored}, not of {env_id}: leave --env out")
    env_id = env_id or stored
    if not env_id:
        raise InputError("the data do not say of which environment they are: name it with --env")
    if recording.info is not None:
        return replace(recording.info, env_id=env_id)
    kwargs = recording.env_kwargs or env_kwargs or {}
    observation, action = recording.observation_space, recording.action_space
    if observation is None or action is None:
        try:
            with closing(make_env(env_id, kwargs)) as env:
                observation = observation or env.observation_space
                action = action or env.action_space
        except InputError:
            known = observation, action
            observation, action = _as_wide_as(recording.episodes())
            observation, action = known[0] or observation, known[1] or action
    return DemoInfo(env_id, observation, action, env_kwargs=kwargs, expert=recording.expert, versions={})


def fitted(
    episodes: Iterable[Trajectory], info: DemoInfo, notes: Notes, *, clip: bool = False
) -> Iterator[Trajectory]:
    """The trajectories in the types of the spaces. Raises InputError where they do not fit."""
    for number, episode in enumerate(episodes):
        with refused(f"episode {number}"):
            arrays: dict[str, Any] = {
                "obs": typed(episode.obs, info.observation_space, "observations", notes),
                "actions": typed(episode.actions, info.action_space, "actions", notes),
            }
            if episode.expert_actions is not None:
                arrays["expert_actions"] = typed(episode.expert_actions, info.action_space, "labels", notes)
            if clip and isinstance(info.action_space, spaces.Box):
                low, high = info.action_space.low, info.action_space.high
                for name in arrays.keys() & {"actions", "expert_actions"}:
                    notes["actions are clipped to the action space"] += int(
                        ((arrays[name] < low) | (arrays[name] > high)).any()
                    )
                    arrays[name] = np.clip(arrays[name], low, high)
            rewards = np.asarray(episode.rewards, np.float32)
            notes["rewards are rounded to float32"] += int(not np.array_equal(rewards, episode.rewards))
            truncated = episode.truncated or not episode.terminated
            notes["an episode that ends without a reason counts as truncated"] += int(
                not (episode.terminated or episode.truncated)
            )
            yield replace(episode, **arrays, rewards=rewards, truncated=truncated)


def ended(
    obs: Array, actions: Array, rewards: Array, terminated: bool, truncated: bool, notes: Notes, **more: Any
) -> Trajectory | None:
    """The trajectory of T steps whose last observation is not stored: obs (T, ...). None: nothing is left of it.

    A terminated one gets its last observation again, since nothing looks at what follows a termination. A cut one loses
    its last step: its last observation then is the true final one.
    """
    if terminated:
        notes[_REPEATED] += 1
        return Trajectory(np.concatenate([obs, obs[-1:]]), actions, rewards, True, False, **more)
    notes[_DROPPED] += 1
    if len(actions) < 2:
        return None
    if more.get("expert_actions") is not None:
        more["expert_actions"] = more["expert_actions"][:-1]
    return Trajectory(obs, actions[:-1], rewards[:-1], False, truncated, **more)


class refused:
    """As a context: an InputError says of what it is, and whatever else goes wrong in foreign data becomes one."""

    def __init__(self, what: str | Path) -> None:
        self._what = str(what)

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, InputError):
            if self._what not in str(error):
                raise InputError(f"{self._what}: {error}") from error
        elif isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            return  # of the disk, and not of what is in the file
        elif isinstance(error, Exception):
            raise InputError(
                f"{self._what} can't be read ({type(error).__name__}: {one_line(error)[:200]}): it is damaged or "
                "of another version"
            ) from error


def typed(array: Array, space: Space, what: str, notes: Notes) -> Array:
    """The rows in the type of the space. Raises InputError where they do not fit it."""
    if isinstance(space, spaces.Discrete) and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape[1:] != space.shape:
        raise InputError(f"{what} have shape {array.shape[1:]}, wanted {space.shape} as in {space}")
    if array.dtype == space.dtype:
        return array
    new = array.astype(space.dtype)
    if not np.array_equal(new, array):
        if new.dtype.kind != "f":
            raise InputError(f"{what} are {array.dtype} with fractions or out of range, wanted {space}")
        notes[f"{what} are rounded to {space.dtype}"] += 1
    return new


def _as_wide_as(episodes: Iterator[Trajectory]) -> tuple[Space, Space]:
    """Spaces that hold all observations (without bounds) and actions."""
    first = next(episodes, None)
    if first is None:
        raise InputError("the data hold no episodes")
    low, high = first.actions.min(0), first.actions.max(0)
    for episode in episodes:
        low, high = np.minimum(low, episode.actions.min(0)), np.maximum(high, episode.actions.max(0))
    obs = first.obs
    least, most = (0.0, 255.0) if obs.dtype == np.uint8 else (-np.inf, np.inf)
    if obs.dtype.kind != "f" and obs.dtype != np.uint8:
        least, most = float(np.iinfo(obs.dtype).min), float(np.iinfo(obs.dtype).max)
    observation = spaces.Box(least, most, obs.shape[1:], dtype=obs.dtype)
    if first.actions.dtype.kind in "iu":
        return observation, spaces.Discrete(int(np.max(high)) + 1)
    return observation, spaces.Box(low, high, dtype=first.actions.dtype)
