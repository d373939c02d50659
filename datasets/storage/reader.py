"""Reads demonstrations: episodes one by one, or their steps as tensors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args, overload

import h5py
import numpy as np

from imitate.datasets.play import stack_frames
from imitate.datasets.storage.batches import Field, Shuffler, load_transitions
from imitate.datasets.storage.columns import PIECE_BYTES, read_columns
from imitate.datasets.storage.damage import closed, damaged
from imitate.datasets.storage.opening import open_demos, paths_of, read_failed, read_table
from imitate.datasets.storage.schema import common_info, read_info
from imitate.datasets.storage.texts import episodes_by, texts_of
from imitate.datasets.trajectory import Trajectory, Transitions, parts_of
from imitate.envs.fields import Fields
from imitate.envs.seeds import episode_seeds
from imitate.envs.spaces import Array
from imitate.errors import InputError, check_whole

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DemoReader"]

_LONGEST_GAP = 4_096  # between numbers of seeds in a file; looking at as many takes a tenth of a second


class DemoReader:
    """Demonstrations, read lazily as trajectories or as minibatches.

    source   a path, several paths, a folder of .h5 files or a pattern such as "runs/*.h5", all read as one; or an
             open file (`DemoWriter.reader`)
    paths    the files
    info     where the demonstrations come from
    table    (E,) records of the episodes, see `schema.EPISODES`; read-only, as `lengths` and `returns` are
    failed_seeds   seeds of episodes that are missing because the environment failed in them

    Raises InputError for a file that is absent, truncated, foreign or of another schema, or for files that do not
    belong together.
    """

    def __init__(self, source: str | Path | Sequence[str | Path] | h5py.File) -> None:
        self._owned = not isinstance(source, h5py.File)
        self._files: list[h5py.File] = [] if self._owned else [source]
        try:
            if self._owned:
                self._files += map(open_demos, paths_of(source))
            self.paths = [Path(file.filename).absolute() for file in self._files]
            self.info = common_info([(file.filename, read_info(file)) for file in self._files])
            # Columns are opened after the tables have been read, so that they hold every row that the tables list.
            tables = [read_table(file) for file in self._files]
            self._columns = read_columns(self._files, self.info)
            self._learned = {name: column for name, column in self._columns.items() if name != "states"}
            self._shuffler = Shuffler(self._learned, self.info.frame_stack)
            self._join(tables)
            self.failed_seeds = [seed for file in self._files for seed in read_failed(file)]
        except BaseException:
            self.close()
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its paths, as for the worker processes of a `torch.utils.data.DataLoader`."""
        if not self._owned:
            raise TypeError("a reader of a file that a writer holds open can't go to another process")
        return DemoReader, (self.paths,)

    def refresh(self) -> None:
        """Include the episodes that the writer whose open file this is has appended since the last call. A file that
        another process records must be opened anew."""
        with damaged(self.paths[0], "it", self._files[0]):
            self._join([read_table(file) for file in self._files])

    def _join(self, tables: list[Array]) -> None:
        """Number the episodes and rows of all files consecutively."""
        steps = np.cumsum([0, *(table["length"].sum() for table in tables)])
        rows = steps + self.info.frame_stack * np.cumsum([0, *map(len, tables)])
        for table, first_step, first_row in zip(tables, steps[:-1], rows[:-1], strict=True):
            table["start"] += first_step
            table["obs_start"] += first_row
        for name, column in self._columns.items():
            column.starts = (rows if name == "obs" else steps)[:-1].tolist()
        self.table: Array = np.concatenate(tables)
        self.table.flags.writeable = False
        self._firsts = np.cumsum([0, *map(len, tables[:-1])])
        """(files,) number of the first episode in each file."""

    def __len__(self) -> int:
        return len(self.table)

    @property
    def num_steps(self) -> int:
        return int(self.table["length"].sum())

    @property
    def lengths(self) -> Array:
        """Number of steps (E,) of each episode."""
        lengths: Array = self.table["length"]
        return lengths

    @property
    def returns(self) -> Array:
        """Undiscounted return (E,) of each episode."""
        returns: Array = self.table["return"]
        return returns

    @property
    def has_expert_actions(self) -> bool:
        """True if the file has labels in addition to the executed actions."""
        return "expert_actions" in self._columns

    @overload
    def __getitem__(self, index: int) -> Trajectory: ...

    @overload
    def __getitem__(self, index: slice) -> list[Trajectory]: ...

    def __getitem__(self, index: int | slice) -> Trajectory | list[Trajectory]:
        """A whole episode, or a list of those of a slice, all in memory. Raises InputError if a column of one takes
        more than 1 GiB; `pieces` reads episodes of any length."""
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        episode = self.table[index]  # an IndexError ends an iteration
        return self._read(episode, 0, int(episode["length"]), self._info(index))

    def pieces(self, index: int) -> Iterator[Trajectory]:
        """An episode in pieces of about 32 MB. Each begins with the last observation of the one before, and all except
        the last are truncated."""
        episode = self.table[index]
        length = int(episode["length"])
        step_bytes = sum(column.row_bytes for column in self._columns.values())
        rows = max(1, PIECE_BYTES // step_bytes)
        info = self._info(index)
        return (
            self._read(episode, start, min(start + rows, length), info) for start in range(0, length, rows)
        )

    def masks(self) -> dict[str, Array]:
        """Named parts of the data set: the indices of their episodes (E,), such as those of "train"."""
        return self._episodes_by("masks")

    def tasks(self) -> dict[str, Array]:
        """Texts of tasks: the indices of their episodes (E,)."""
        return self._episodes_by("task")

    def _episodes_by(self, name: Literal["task", "masks"]) -> dict[str, Array]:
        found: dict[str, list[int]] = {}
        ends = [*self._firsts[1:], len(self)]
        for file, path, first, end in zip(self._files, self.paths, self._firsts, ends, strict=True):
            if not file:
                raise closed(path)
            with damaged(path, f"the {name} of episodes"):
                for text, numbers in episodes_by(file, name, end - first).items():
                    found.setdefault(text, []).extend(first + number for number in numbers)
        return {text: np.array(numbers) for text, numbers in sorted(found.items())}

    def _info(self, index: int) -> dict[str, Any]:
        """The seed, environment, expert and texts of an episode."""
        index = range(len(self))[index]
        info = {
            "seed": int(self.table["seed"][index]),
            "env_id": self.info.env_id,
            "expert": self.info.expert,
        }
        if not self.info.has_texts:
            return info
        place = self.file_of(index)
        file = self._files[place]
        with damaged(self.paths[place], f"the texts of episode {index}", file):
            return info | texts_of(file, index - int(self._firsts[place]))

    def file_of(self, index: int) -> int:
        """The number of the file that has an episode, counted as `paths` are."""
        return int(np.searchsorted(self._firsts, index, side="right")) - 1

    def _read(self, episode: Any, start: int, stop: int, info: Mapping[str, Any]) -> Trajectory:
        """Steps [start, stop) of an episode."""
        last = stop == int(episode["length"])
        step, row, k = int(episode["start"]), int(episode["obs_start"]), self.info.frame_stack
        columns = {
            name: column.read(step + start, step + stop)
            for name, column in self._columns.items()
            if name != "obs"
        }
        return Trajectory(
            obs=stack_frames(self._columns["obs"].read(row + start, row + stop + k), k),
            **columns,
            terminated=bool(episode["terminated"] and last),
            truncated=bool(episode["truncated"] or not last),
            info=info,
        )

    def __iter__(self) -> Iterator[Trajectory]:
        return (self[index] for index in range(len(self)))

    def first(self, count: int | None) -> Array:
        """Indices of the `count` episodes that began first (None: all), sorted.

        When environments run side by side, short episodes end first and are recorded first, so the first ones in a file
        are not a fair sample.

        Raises InputError if there are fewer.
        """
        if count is not None and not 1 <= count <= len(self):
            raise InputError(
                f"{count} episodes were asked for, the file has {len(self)}: ask for 1 to {len(self)}"
            )
        return np.arange(len(self)) if count is None else np.sort(self.order()[:count])

    def order(self) -> Array:
        """Indices of the episodes in the order in which they began. Those of which it is unknown come last, as in the
        file."""
        begun = self.begun()
        numbers = [begun.get(max(seed, ~seed), math.inf) for seed in self.table["seed"].tolist()]
        return np.argsort(numbers, kind="stable")

    def begun(self, seed: int | None = None) -> dict[int, int]:
        """The number in its collection, or in that of `seed`, of each seed that the file has, as far as the collection
        has it.

        A shard has each K-th seed only, and a filtered file some of them. A part of an episode that `interventions`
        gave counts as the episode.
        """
        found: dict[int, int] = {}
        seed = self.info.seed if seed is None else seed
        if seed is None:
            return found
        wanted, latest = {max(each, ~each) for each in self.table["seed"].tolist()}, 0
        for number, each in enumerate(episode_seeds(seed)):
            if each in wanted:
                found[each] = latest = number
            if len(found) == len(wanted) or number - latest == _LONGEST_GAP:
                break
        return found

    def times(self, episodes: int = 0) -> Counter[int]:
        """The number of times that the collection has each seed of the file: in its episodes up to the last one that
        the file has, or in its first `episodes` if these are more. Long collections have some seeds twice, as a seed
        has 31 bits; the second may be the last episode, which adds no other seed."""
        begun = self.begun()
        if self.info.seed is None or not begun:
            return Counter()
        count = max(episodes, 1 + max(begun.values()))
        found = Counter[int]()
        for number, each in enumerate(episode_seeds(self.info.seed)):
            if each in begun:
                found[each] += 1
            elif number >= count:
                break
        return found

    def split(
        self, holdout: float, rng: np.random.Generator, episodes: Array | None = None
    ) -> tuple[Array, Array]:
        """Split episodes (by default all) at random into (train, held-out), both sorted; at least one is held out if
        holdout > 0.

        Raises InputError if nothing would be left to train on, if some are held out and one is given twice, or as
        `chosen` does.
        """
        episodes = self.chosen(episodes)
        count = len(episodes)
        usual = 0 <= holdout < 1
        held_out = max(1, round(holdout * count)) if usual and holdout else 0
        if not usual or held_out >= count:
            raise InputError(
                f"can't hold out {holdout} of {count} episodes: give a share from 0 to below 1, or record more"
            )
        if held_out and len(np.unique(episodes)) < count:
            twice = int(np.bincount(episodes).argmax())
            raise InputError(f"episode {twice} is given twice and could be on both sides: give each once")
        order = rng.permutation(episodes)
        return np.sort(order[held_out:]), np.sort(order[:held_out])

    def batches(
        self,
        batch_size: int,
        rng: np.random.Generator,
        *,
        fields: Sequence[Field] = ("obs", "labels"),
        episodes: Sequence[int] | Array | None = None,
        memory_limit: int = 1 << 30,
    ) -> Iterator[tuple[Any, ...]]:
        """One epoch: every step once, shuffled, in minibatches of `fields`, which are tensors (B, ...); the last may
        be short. Dict observations are dicts of tensors (B, *shape), as nested as their space.

        Memory and shuffling are those of `minibatches`.
        """
        batches = self.minibatches(
            batch_size, rng, fields=fields, episodes=episodes, memory_limit=memory_limit
        )
        space = self.info.observation_space
        if not isinstance(space, Fields):
            return batches
        parted = [field in ("obs", "next_obs") for field in fields]
        return (
            tuple(
                parts_of(rows, space.dtype) if apart else rows
                for rows, apart in zip(batch, parted, strict=True)
            )
            for batch in batches
        )

    def minibatches(
        self,
        batch_size: int,
        rng: np.random.Generator,
        *,
        fields: Sequence[Field] = ("obs", "labels"),
        episodes: Sequence[int] | Array | None = None,
        memory_limit: int = 1 << 30,
    ) -> Iterator[tuple[Tensor, ...]]:
        """As `batches`, with Dict observations as `tensor_of` gives them and as our networks take them: rows of bytes.

        If the steps fit in half of `memory_limit` bytes, they are read once and kept. Otherwise they are streamed:
        random blocks of the file fill a window, which is shuffled.

        Raises InputError for a batch size below 1, for no fields or unknown ones, and as `chosen` does.
        """
        selected = self.chosen(episodes)
        check_whole(batch_size=batch_size)
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        known = get_args(Field)
        if isinstance(fields, str) or not fields or not set(fields) <= set(known):
            raise InputError(f"fields must be a list of some of {', '.join(known)}, got {fields!r}")
        return self._shuffler.epoch(self.table, selected, int(batch_size), rng, fields, memory_limit)

    def transitions(
        self, episodes: Sequence[int] | Array | None = None, *, memory_limit: int = 1 << 30
    ) -> Transitions:
        """All steps of some episodes (default: all) as tensors; single frames of `obs` are not copied after reading.

        Raises InputError if they take more than `memory_limit` bytes, or there are none.
        """
        selected = self.chosen(episodes)
        return load_transitions(self._learned, self.info.frame_stack, self.table, selected, memory_limit)

    def chosen(self, episodes: Sequence[int] | Array | None) -> Array:
        """Indices of episodes as an array (default: all); one that is given twice counts twice.

        Raises InputError if the file lacks one, for a mask, and for what is no list of whole numbers.
        """
        given = np.arange(len(self)) if episodes is None else np.asarray(episodes)
        if given.dtype == bool:
            raise InputError("episodes are a mask, wanted their indices: take np.flatnonzero(mask)")
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise InputError(f"episodes must be a list of their indices, got {episodes!r}")
        selected = given.astype(np.int64)
        if len(selected) and not (selected.min() >= 0 and selected.max() < len(self)):
            raise InputError(
                f"episodes {selected.min()} to {selected.max()} were asked for, the file has {len(self)}"
            )
        return selected

    def close(self) -> None:
        """Close the files, unless they are a writer's."""
        for file in self._files if self._owned else ():
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
