"""Splits episodes into pieces of about 32 MB, so that a conversion holds only a few pieces in memory, however long an
episode is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from imitate.datasets.convert.ends import as_flags
from imitate.datasets.convert.foreign import Most, Notes, refused
from imitate.datasets.storage.columns import PIECE_BYTES
from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = [
    "NO_EPISODES",
    "Episode",
    "Rows",
    "assembled",
    "marked",
    "pieces_of",
    "rows_within",
    "side_by_side",
    "spans",
    "whole",
    "within",
]

T = TypeVar("T")

Episode = Iterator[Trajectory]
"""The pieces of an episode. Each begins with the last observation of the one before, and all except the last are
truncated. Most episodes are a single piece."""

Rows = dict[str, Array]
"""Rows of an episode (n, ...): obs, actions, and, if known, rewards, expert_actions, states, terminated, truncated."""

_FLAGS = ("terminated", "truncated")
_LARGEST_STEP = 1 << 26
_LARGEST_WHOLE = 1 << 28
_REPEATED = "the last observation of a terminated episode is repeated, as the one after it is not stored"
_DROPPED = "the last step of a cut episode is dropped, as the observation after it is not stored"
_EMPTY = "an episode with a single observation is left out"
NO_EPISODES = (
    "no episodes, or only ones of a single observation: then store the observation after each last step, or say which "
    "episodes terminated"
)


def marked(items: Iterable[T]) -> Iterator[tuple[T, bool]]:
    """Each item, and whether it is the last."""
    items = iter(items)
    for item in items:
        for following in items:
            yield item, False
            item = following
        yield item, True


def rows_within(step_bytes: int) -> int:
    """The number of steps in a piece. Raises InputError if a step has 0 or more than _LARGEST_STEP bytes."""
    if not 0 < step_bytes <= _LARGEST_STEP:
        raise InputError(f"a step takes {step_bytes} bytes, wanted 1 to {_LARGEST_STEP}")
    return max(1, PIECE_BYTES // step_bytes)


def spans(steps: int, step_bytes: int) -> Iterator[tuple[int, int]]:
    """The steps [start, stop) of each piece."""
    rows = rows_within(step_bytes)
    return ((start, min(start + rows, steps)) for start in range(0, steps, rows))


def side_by_side(columns: Sequence[Array]) -> Array:
    """Columns (n, ...) in one array: a single one as it is, several flat, as rows (n, D)."""
    if len(columns) == 1:
        return columns[0]
    return np.concatenate([column.reshape(len(column), -1) for column in columns], axis=1)


def assembled(what: str, parts: Iterable[Rows], notes: Notes, info: Mapping[str, Any]) -> Episode:
    """The pieces of an episode whose rows come in `parts`.

    The flags of its last row say how it ended. If the last part has one more row in `obs` than in `actions`, that row
    is the final observation. If not, a terminated episode repeats its last observation, since nothing uses the
    observation after a termination. A truncated one loses its last step, whose observation is then the true final one.
    """
    with refused(what):
        held: Rows = {}
        rows: Rows = {}
        for part, last in marked(parts):
            part = part | {name: as_flags(part[name], name) for name in _FLAGS if name in part}
            rows = {name: np.concatenate([held[name], new]) for name, new in part.items()} if held else part
            if not last and len(rows["obs"]) > 1:
                yield _piece(rows, len(rows["obs"]) - 1, (False, True), info)
            held = {name: old[-1:] for name, old in rows.items()}
        if not rows:
            raise InputError("it has no steps")
        notes["rewards are absent and become 0"] += int("rewards" not in rows)
        terminated, truncated = (bool(rows[name][-1:].any()) if name in rows else False for name in _FLAGS)
        steps = len(rows["actions"])
        if len(rows["obs"]) == steps:
            if terminated:
                notes[_REPEATED] += 1
                truncated = False
                rows = rows | {"obs": np.concatenate([rows["obs"], rows["obs"][-1:]])}
            else:
                notes[_DROPPED] += 1
                steps -= 1
        if steps:
            yield _piece(rows, steps, (terminated, truncated), info)
        else:
            notes[_EMPTY] += 1


def _piece(rows: Rows, steps: int, flags: tuple[bool, bool], info: Mapping[str, Any]) -> Trajectory:
    labels, states = rows.get("expert_actions"), rows.get("states")
    return Trajectory(
        rows["obs"],
        rows["actions"][:steps],
        rows["rewards"][:steps] if "rewards" in rows else np.zeros(steps, np.float32),
        *flags,
        info=info,
        expert_actions=None if labels is None else labels[:steps],
        states=None if states is None else states[:steps],
    )


def within(most: Most, episodes: Iterable[Episode]) -> Iterator[Episode]:
    """Pass the episodes on. Raises InputError if they have more steps or bytes than a data set of its size can hold."""
    steps = nbytes = 0

    def counted(piece: Trajectory) -> Trajectory:
        nonlocal steps, nbytes
        steps += len(piece)
        nbytes += piece.obs.nbytes + piece.actions.nbytes
        if steps > most.steps or nbytes > most.nbytes:
            raise InputError(
                f"it has {steps} steps of {nbytes} bytes or more, which files of its size can't hold"
            )
        return piece

    return (map(counted, pieces) for pieces in episodes)


def pieces_of(trajectory: Trajectory) -> Episode:
    """The pieces of an episode in memory; they are views."""
    steps = len(trajectory)
    nbytes = sum(array.nbytes for array in (trajectory.obs, trajectory.actions, trajectory.rewards))
    parts = (trajectory.part(*span) for span in spans(steps, -(-nbytes // steps)))
    yield from (replace(part, info=trajectory.info) for part in parts)


def whole(pieces: Episode, format: str) -> Trajectory:
    """A whole episode in one piece, for formats that need it. Raises InputError if it has more than _LARGEST_WHOLE
    bytes."""
    held: list[Trajectory] = []
    nbytes = 0
    for piece in pieces:
        held.append(piece)
        nbytes += piece.obs.nbytes + piece.actions.nbytes
        if nbytes > _LARGEST_WHOLE:
            raise InputError(
                f"{format} holds an episode in one, and one has more than {_LARGEST_WHOLE >> 20} MiB: choose another "
                "format, such as minari"
            )
    if len(held) == 1:
        return held[0]
    labels = [piece.expert_actions for piece in held if piece.expert_actions is not None]
    return replace(
        held[-1],
        obs=np.concatenate([piece.obs[min(number, 1) :] for number, piece in enumerate(held)]),
        actions=np.concatenate([piece.actions for piece in held]),
        rewards=np.concatenate([piece.rewards for piece in held]),
        expert_actions=np.concatenate(labels) if labels else None,
    )
