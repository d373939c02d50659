"""Makes new files of demonstrations from old ones: merge, split, filter, subsample. The old files are not changed."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from imitate.datasets.storage.layout import MOST_FAILED
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.seeds import check_seed
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.files import atomic

__all__ = [
    "concat",
    "drawn",
    "keep",
    "merge",
    "nth_steps",
    "save",
    "shown",
    "split",
    "subsample",
    "thinned",
]

Source = str | Path | Sequence[str | Path]


def save(
    out: str | Path, info: DemoInfo, trajectories: Iterable[Trajectory], *, expert_actions: bool = False
) -> None:
    """Write a whole file, or nothing. Raises InputError if `out` exists, or there are no trajectories."""
    _save(out, info, ([trajectory] for trajectory in trajectories), expert_actions)


def _save(
    out: str | Path,
    info: DemoInfo,
    episodes: Iterable[Iterable[Trajectory]],
    expert_actions: bool,
    failed: Sequence[int] = (),
) -> None:
    """As `save`, for episodes in pieces, and the seeds of those that failed."""
    out = Path(out)
    if out.exists():
        raise InputError(f"{out} exists already: choose another name")
    episodes = iter(episodes)
    first = list(islice(episodes, 1))
    if not first:
        raise InputError(f"no episodes are left for {out}: choose wider bounds, or other files")
    try:
        with (
            atomic(out, new=True) as temporary,
            DemoWriter(temporary, info, expert_actions=expert_actions, sync=False) as writer,
        ):
            for pieces in chain(first, episodes):
                writer.append_pieces(pieces)
            for seed in failed:
                writer.fail(seed)
    except FileExistsError as error:
        raise InputError(f"{out} exists already: choose another name") from error


def concat(sources: Source, out: str | Path) -> None:
    """All episodes of all files, one after another."""
    with DemoReader(sources) as reader:
        _save_all(out, reader, range(len(reader)))


def merge(sources: Source, out: str | Path) -> None:
    """As `concat`, but an episode that several files have (equal to the bit, with its texts) is kept only once.

    Episodes that are equal because their collection has a seed twice are all kept.
    """
    with DemoReader(sources) as reader:
        _save_all(out, reader, _once(reader))


def split(
    sources: Source, train: str | Path, held_out: str | Path, *, holdout: float = 0.1, seed: int = 0
) -> None:
    """Split whole episodes at random into two files; a share `holdout` of them, at least one, goes to the second."""
    check_seed(seed)
    if not 0 < holdout < 1:
        raise InputError(f"holdout must be above 0 and below 1, got {holdout}: no file may be empty")
    if Path(train).resolve() == Path(held_out).resolve():
        raise InputError(f"{train} can't be both parts: name two files")
    with DemoReader(sources) as reader:
        parts = reader.split(holdout, np.random.default_rng(seed))
        for out in (train, held_out):
            if Path(out).exists():
                raise InputError(f"{out} exists already: choose another name")
        _save_episodes(train, reader, parts[0])
        try:
            _save_episodes(held_out, reader, parts[1])
        except BaseException:
            Path(train).unlink()
            raise


def keep(
    sources: Source,
    out: str | Path,
    *,
    min_return: float = -np.inf,
    max_return: float = np.inf,
    min_length: int = 1,
    max_length: int | None = None,
    terminated: bool | None = None,
) -> None:
    """Keep the episodes within all these bounds, which are inclusive."""
    with DemoReader(sources) as reader:
        good = (
            (reader.returns >= min_return) & (reader.returns <= max_return) & (reader.lengths >= min_length)
        )
        if max_length is not None:
            good &= reader.lengths <= max_length
        if terminated is not None:
            good &= reader.table["terminated"] == terminated
        _save_episodes(out, reader, np.flatnonzero(good))


def subsample(
    sources: Source, out: str | Path, *, every: int | None = None, pairs: int | None = None, seed: int = 0
) -> None:
    """Take every `every`-th step of each episode, from its first, or `pairs` steps at random.

    Each step becomes an episode with its true next observation; all except an episode's last are truncated.

    Raises InputError if there are fewer steps than `pairs`.
    """
    if (every is None) == (pairs is None) or (every or pairs or 0) < 1:
        raise InputError(f"wanted either every or pairs, at least 1, got {every} and {pairs}")
    check_seed(seed)
    with DemoReader(sources) as reader:
        steps = np.arange(reader.num_steps)
        if every is None:
            steps = _draw(steps, pairs or 0, seed)
        else:
            steps = steps[(steps - np.repeat(reader.table["start"], reader.lengths)) % every == 0]
        _save_steps(out, reader, steps)


def shown(
    reader: DemoReader, episodes: Array | None, *, every: int, pairs: int | None, seed: int
) -> tuple[DemoReader, Array | None]:
    """The demonstrations that a learner is shown of `episodes` (indices, None: all): each `every`-th step, then `pairs`
    steps drawn by the seed (None: all). The second value are the episodes left to choose, None: all of them."""
    if every > 1:
        reader, episodes = thinned(reader, every, episodes), None
    if pairs is not None:
        reader, episodes = drawn(reader, pairs, seed, episodes), None
    return reader, episodes


def drawn(reader: DemoReader, pairs: int, seed: int, episodes: Array | None = None) -> DemoReader:
    """Draw `pairs` steps of `episodes` (default: all) at random, as an open file that ends with the reader.

    Raises InputError if there are fewer.
    """
    chosen = reader.chosen(episodes)
    starts, lengths = reader.table["start"][chosen], reader.lengths[chosen]
    spans = (np.arange(start, start + length) for start, length in zip(starts, lengths, strict=True))
    # Of no episodes there are no steps.
    return _picked(reader, _draw(np.concatenate([np.arange(0), *spans]), pairs, seed))


def _draw(steps: Array, pairs: int, seed: int) -> Array:
    """`pairs` of the steps at random, sorted. Raises InputError if there are fewer."""
    if pairs > len(steps):
        raise InputError(f"{pairs} pairs were asked for, the demonstrations have {len(steps)}: ask for fewer")
    return np.sort(np.random.default_rng(seed).choice(steps, pairs, replace=False))


def thinned(reader: DemoReader, every: int, episodes: Array | None = None) -> DemoReader:
    """Each `every`-th step of `episodes` (default: all), and the last one if that terminates the episode, as an open
    file of single steps that ends with the reader. Raises InputError if there are no episodes."""
    table = reader.table if episodes is None else reader.table[episodes]
    kept = [
        start + nth_steps(length, every, terminated=terminated)
        for start, length, terminated in table[["start", "length", "terminated"]].tolist()
    ]
    if not kept:
        raise InputError("there are no episodes to take steps of: record some, or choose some")
    return _picked(reader, np.sort(np.concatenate(kept)))


def nth_steps(length: int, every: int, *, terminated: bool) -> Array:
    """Indices of each `every`-th step of an episode, and of the last one if that terminates it."""
    last = [length - 1] if terminated else []
    return np.unique([*range(0, length, every), *last])


def _picked(reader: DemoReader, picked: Array) -> DemoReader:
    """These steps, sorted and counted over all episodes, as an open file that ends with the reader."""
    # An open file stays readable after it was removed. Windows can't remove it, and leaves it to its temporary folder.
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "pairs.h5"
        _save_steps(path, reader, picked)
        return DemoReader(path)


def _save_steps(out: str | Path, reader: DemoReader, steps: Array) -> None:
    info = replace(reader.info, seed=None)
    save(out, info, _pieces(reader, steps), expert_actions=reader.has_expert_actions)


def _save_episodes(out: str | Path, reader: DemoReader, episodes: Array) -> None:
    # A part of a collection is not a collection, since it lacks seeds. Without the collection's seed the order of the
    # episodes is all that tells which began first.
    info, order = replace(reader.info, seed=None), reader.order()
    chosen = order[np.isin(order, episodes)].tolist()
    _save(out, info, map(reader.pieces, chosen), reader.has_expert_actions)


def _save_all(out: str | Path, reader: DemoReader, episodes: Iterable[int]) -> None:
    # Of more failures than a file lists, the last are left out.
    failed = list(dict.fromkeys(reader.failed_seeds))[:MOST_FAILED]
    _save(out, reader.info, map(reader.pieces, episodes), reader.has_expert_actions, failed)


def _once(reader: DemoReader) -> Iterator[int]:
    """The numbers of the episodes, without those that an earlier file has too.

    Equal episodes are all kept if they are in one file, or if their collection has their seed as often.
    """
    facts = reader.table[["length", "return", "terminated", "truncated", "seed"]].tolist()
    alike = Counter(facts)
    times = reader.times() if len(alike) < len(facts) else Counter[int]()
    here, kept = Counter[tuple[int, bytes]](), Counter[bytes]()
    for number, fact in enumerate(facts):
        if alike[fact] > 1:
            content = hashlib.sha256(repr(fact).encode())
            for piece in reader.pieces(number):
                content.update(repr(piece.info).encode())
                for array in (piece.obs, piece.actions, piece.rewards, piece.labels, piece.states):
                    content.update(b"" if array is None else array.tobytes())
            digest, file = content.digest(), reader.file_of(number)
            here[file, digest] += 1
            if kept[digest] >= max(here[file, digest], times[fact[-1]]):
                continue
            kept[digest] += 1
        yield number


def _pieces(reader: DemoReader, steps: Array) -> Iterator[Trajectory]:
    """One trajectory for each of the steps, which are counted over all episodes and sorted."""
    numbers = np.searchsorted(reader.table["start"], steps, side="right") - 1
    for number in np.unique(numbers):
        wanted = steps[numbers == number] - int(reader.table["start"][number])
        first = 0
        for piece in reader.pieces(int(number)):
            inside = wanted[(wanted >= first) & (wanted < first + len(piece))] - first
            for at in inside.tolist():
                step = piece.part(at, at + 1)
                # Only the first step of the episode follows its reset, not that of each piece.
                yield replace(step, info={**step.info, "seed": -1}) if first + at else step
            first += len(piece)
