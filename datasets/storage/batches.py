"""Steps of a demonstrations file as tensors: all at once, or as shuffled minibatches within a memory limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from imitate.datasets.storage.columns import Column, row_bytes
from imitate.datasets.trajectory import Transitions, tensor_of
from imitate.envs.spaces import Array
from imitate.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Field", "Shuffler", "load_transitions"]

Field = Literal["obs", "next_obs", "actions", "labels", "rewards", "terminated", "truncated"]

_PIECE_BYTES = 1 << 24  # gathered at once; its minibatches are views
_BLOCKS = 64  # pieces of the file, far apart, that mix in a window of the streaming shuffle


class Steps:
    """Ranges of a file's steps in memory, one after another. Each observation is held once, final ones included."""

    def __init__(self, columns: Mapping[str, Column], frame_stack: int) -> None:
        self._columns = columns
        self._stack = frame_stack
        self._data = {name: np.empty((0, *column.shape), column.dtype) for name, column in columns.items()}
        self._data["row"] = np.empty(0, np.int64)  # row in `obs` of a step's observation (its oldest frame)
        self._data["terminated"] = np.empty(0, bool)
        self._data["truncated"] = np.empty(0, bool)
        self._rows = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def clear(self) -> None:
        """Forget the steps, keep the memory."""
        self._rows = self._count = 0

    def nbytes(self, steps: int, rows: int) -> int:
        """The bytes that this many steps and rows of observations take."""
        return sum(
            row_bytes(array) * (rows if name == "obs" else steps) for name, array in self._data.items()
        )

    def reserve(self, steps: int, rows: int) -> None:
        """Make room for this many more steps and rows; memory that has to grow grows by at least half."""
        for name, old in self._data.items():
            used, more = (self._rows, rows) if name == "obs" else (self._count, steps)
            if used + more > len(old):
                new = np.empty((max(used + more, used + used // 2), *old.shape[1:]), old.dtype)
                new[:used] = old[:used]
                self._data[name] = new

    def load(self, table: Array, start: int, stop: int) -> None:
        """Read the file's steps [start, stop), which may span episodes, with one contiguous read per column."""
        first, last = (int(n) for n in np.searchsorted(table["start"], [start, stop - 1], side="right") - 1)
        # Every episode of T steps has T + k rows of observations.
        rows = slice(start + self._stack * first, stop + self._stack * (last + 1))
        self.reserve(stop - start, rows.stop - rows.start)
        new = slice(self._count, self._count + stop - start)
        for name, column in self._columns.items():
            if name == "obs":
                into = self._data[name][self._rows : self._rows + rows.stop - rows.start]
                column.read(rows.start, rows.stop, into)
            else:
                column.read(start, stop, self._data[name][new])
        spanned = table[first : last + 1]
        ends = spanned["start"] + spanned["length"]
        lengths = np.minimum(ends, stop) - np.maximum(spanned["start"], start)
        row = self._data["row"][new]
        row[:] = np.arange(self._rows, self._rows + stop - start)
        row += self._stack * np.repeat(np.arange(last + 1 - first), lengths)
        whole = ends <= stop
        for flag in ("terminated", "truncated"):
            self._data[flag][new] = False
            self._data[flag][new][ends[whole] - 1 - start] = spanned[flag][whole]
        self._count += stop - start
        self._rows += rows.stop - rows.start

    def gather(self, field: Field, which: Array) -> Tensor:
        """One field of the steps `which` (B,), copied: (B, *shape)."""
        if field == "obs" or field == "next_obs":
            rows = self._data["row"].take(which) + (field == "next_obs")
            if self._stack > 1:
                rows = rows[:, None] + np.arange(self._stack)
            return tensor_of(self._data["obs"].take(rows, axis=0))
        return tensor_of(self._data[self._source(field)].take(which, axis=0))

    def field_bytes(self, field: Field) -> int:
        """Bytes of one step, once gathered."""
        if field == "obs" or field == "next_obs":
            return self._stack * row_bytes(self._data["obs"])
        return row_bytes(self._data[self._source(field)])

    def minibatches(
        self, order: Array, batch_size: int, fields: Sequence[Field], budget: int
    ) -> Iterator[tuple[Tensor, ...]]:
        """The steps `order` in minibatches (the last may be short), with at most `budget` bytes besides the steps."""
        batch_bytes = batch_size * sum(self.field_bytes(field) for field in fields)
        # The next piece is gathered while the minibatches of the last one may still be in use.
        piece = max(1, min(_PIECE_BYTES, budget // 4) // batch_bytes) * batch_size
        for start in range(0, len(order), piece):
            gathered = (self.gather(field, order[start : start + piece]) for field in fields)
            pieces = (tensor.split(batch_size) for tensor in gathered)  # type: ignore[no-untyped-call]
            yield from zip(*pieces, strict=True)

    def transitions(self) -> Transitions:
        """All steps. One episode is not copied; of several, `next_obs` is, and `obs` too if frames are stacked."""
        rows, row = tensor_of(self._data["obs"][: self._rows]), self._data["row"][: self._count]
        everything = np.arange(self._count)
        if self._rows == self._count + self._stack:  # one episode
            stacks = rows if self._stack == 1 else rows.unfold(0, self._stack, 1).movedim(-1, 1)
            obs, next_obs = stacks[:-1], stacks[1:]
        elif self._stack > 1:
            obs, next_obs = self.gather("obs", everything), self.gather("next_obs", everything)
        else:
            next_obs = self.gather("next_obs", everything)
            begins = np.flatnonzero(np.diff(row, prepend=-2) != 1)
            for begin, end in zip(begins, [*begins[1:], self._count], strict=True):
                # In place: drop the final observations between the episodes.
                self._data["obs"][begin:end] = self._data["obs"][row[begin] : row[begin] + end - begin]
            obs = rows[: self._count]
        data = {name: tensor_of(array[: self._count]) for name, array in self._data.items() if name != "obs"}
        return Transitions(
            obs=obs,
            actions=data["actions"],
            rewards=data["rewards"],
            next_obs=next_obs,
            terminated=data["terminated"],
            truncated=data["truncated"],
            expert_actions=data.get("expert_actions"),
        )

    def _source(self, field: Field) -> str:
        if field == "labels":
            return "expert_actions" if "expert_actions" in self._data else "actions"
        return field


class Shuffler:
    """Epochs over a file's steps. If they fit half of the memory limit, they are read once and kept, and appended
    episodes are added. Otherwise every epoch streams them from the file."""

    def __init__(self, columns: Mapping[str, Column], frame_stack: int) -> None:
        self._columns = columns
        self._stack = frame_stack
        self._cache = Steps(columns, frame_stack)
        # (E,) where an episode's steps begin in the cache; -1 if they are not in it
        self._cached_at = np.empty(0, np.int64)

    def epoch(
        self,
        table: Array,
        episodes: Array,
        batch_size: int,
        rng: np.random.Generator,
        fields: Sequence[Field],
        memory_limit: int,
    ) -> Iterator[tuple[Tensor, ...]]:
        """Every step of `episodes` once, shuffled. Memory: at most about `memory_limit` bytes."""
        if len(episodes) == 0:
            return
        # Half of the limit is for the steps; the rest is for their copy while they grow, and for gathered
        # minibatches.
        budget = memory_limit // 2
        if self._fits(table, episodes, budget):
            order = rng.permutation(self._cached(table, episodes))
            yield from self._cache.minibatches(order, batch_size, fields, budget)
            return
        self._forget()
        # Contiguous blocks in random order fill a window of `budget` bytes, which is shuffled.
        ranges = [_steps_of(table, start, stop) for start, stop in _runs(np.sort(episodes))]
        total = sum(stop - start for start, stop in ranges)
        steps = Steps(self._columns, self._stack)
        rows = total + self._stack * len(episodes)
        # A multiple of the batch size, so that only the epoch's last batch is short.
        window = max(1, int(total * budget / steps.nbytes(total, rows)) // batch_size) * batch_size
        length = max(1, window // _BLOCKS)
        blocks = [(at, min(at + length, stop)) for start, stop in ranges for at in range(start, stop, length)]
        queue = [blocks[index] for index in rng.permutation(len(blocks))]
        steps.reserve(window, window * rows // total + 2 * _BLOCKS * self._stack)
        while queue:
            steps.clear()
            while queue and len(steps) < window:
                start, stop = queue.pop()
                cut = min(stop, start + window - len(steps))
                steps.load(table, start, cut)
                if cut < stop:
                    queue.append((cut, stop))
            yield from steps.minibatches(rng.permutation(len(steps)), batch_size, fields, budget)

    def _fits(self, table: Array, episodes: Array, budget: int) -> bool:
        """True if `episodes` can be cached; the cache is emptied if they fit only without the others."""
        new = len(table) - len(self._cached_at)
        self._cached_at = np.pad(self._cached_at, (0, new), constant_values=-1)
        wanted = np.zeros(len(table), bool)
        wanted[episodes] = True
        if self._nbytes(table, wanted | (self._cached_at >= 0)) <= budget:
            return True
        if self._nbytes(table, wanted) > budget:
            return False
        self._forget()
        return True

    def _forget(self) -> None:
        self._cache = Steps(self._columns, self._stack)
        self._cached_at[:] = -1

    def _nbytes(self, table: Array, episodes: Array) -> int:
        return self._cache.nbytes(*_counts(table, episodes, self._stack))

    def _cached(self, table: Array, episodes: Array) -> Array:
        """Places of the steps of `episodes` in the cache; reads those that are missing."""
        missing = np.unique(episodes[self._cached_at[episodes] < 0])
        self._cache.reserve(*_counts(table, missing, self._stack))
        for start, stop in _runs(missing):
            places = table["start"][start:stop] - table["start"][start] + len(self._cache)
            self._cache.load(table, *_steps_of(table, start, stop))
            # Only now, as a damaged file or Ctrl-C may end `load`.
            self._cached_at[start:stop] = places
        lengths = table["length"][episodes]
        offsets = self._cached_at[episodes] - np.concatenate([[0], np.cumsum(lengths)[:-1]])
        return np.repeat(offsets, lengths) + np.arange(lengths.sum())


def load_transitions(
    columns: Mapping[str, Column], frame_stack: int, table: Array, episodes: Array, memory_limit: int
) -> Transitions:
    """The steps of `episodes`, in order. Raises InputError if they take more than `memory_limit` bytes, or there are
    none."""
    steps = Steps(columns, frame_stack)
    count, rows = _counts(table, episodes, frame_stack)
    copied = 0 if len(episodes) == 1 else count * steps.field_bytes("obs") * (1 if frame_stack == 1 else 2)
    needed = steps.nbytes(count, rows) + copied
    if needed > memory_limit:
        raise InputError(
            f"{count} transitions take {needed >> 20} MiB, over the limit of {memory_limit >> 20}: take "
            "fewer episodes, raise memory_limit, or use batches(), which streams"
        )
    if count == 0:
        raise InputError("no episodes to take transitions from")
    steps.reserve(count, rows)
    for start, stop in _runs(episodes):
        steps.load(table, *_steps_of(table, start, stop))
    return steps.transitions()


def _counts(table: Array, episodes: Array, frame_stack: int) -> tuple[int, int]:
    """The number of steps of these episodes (indices, or a mask), and of their rows of observations."""
    lengths = table["length"][episodes]
    return int(lengths.sum()), int((lengths + frame_stack).sum())


def _runs(episodes: Array) -> list[tuple[int, int]]:
    """Runs [start, stop) of consecutive numbers."""
    breaks = np.flatnonzero(np.diff(episodes) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(episodes, breaks) if len(run)]


def _steps_of(table: Array, start: int, stop: int) -> tuple[int, int]:
    """Range of the steps of the episodes [start, stop)."""
    return int(table["start"][start]), int(table["start"][stop - 1] + table["length"][stop - 1])
