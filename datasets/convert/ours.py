"""Our own files, as one format among the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from imitate.datasets.convert.foreign import Notes
from imitate.datasets.convert.minari_spaces import Picked
from imitate.datasets.convert.pieces import Episode
from imitate.datasets.convert.recording import Format, Recording
from imitate.datasets.storage.layout import MOST_FAILED
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import TEXTS, DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory

__all__ = ["FORMAT"]


def found(path: Path) -> bool:
    """True for an .h5 file or a folder of shards, sound or not: our reader names their faults."""
    return path.suffix == ".h5" or (path.is_dir() and any(path.glob("*.h5")))


@contextmanager
def read(path: Path, notes: Notes, obs_keys: Sequence[str] = ()) -> Iterator[Recording]:
    with DemoReader(path) as reader:
        picked = Picked(reader.info.observation_space, obs_keys, notes)

        def taken(piece: Trajectory) -> Trajectory:
            return replace(piece, obs=picked.take(piece.obs, lambda rows, name, _: rows[name]))

        def episodes(numbers: Iterable[int] = range(len(reader))) -> Iterator[Episode]:
            for number in numbers:
                yield map(taken, reader.pieces(number)) if obs_keys else reader.pieces(number)

        info = picked.described(reader.info)
        masks = {name: partial(episodes, chosen.tolist()) for name, chosen in reader.masks().items()}
        failed = list(dict.fromkeys(reader.failed_seeds))[:MOST_FAILED]
        labelled = reader.has_expert_actions
        yield Recording(episodes, info=info, labelled=labelled, masks=masks, failed_seeds=failed)


def write(
    path: Path, info: DemoInfo, episodes: Iterable[Episode], labelled: bool, failed_seeds: Sequence[int]
) -> None:
    with DemoWriter(path, info, expert_actions=labelled, sync=False) as writer:
        for episode in episodes:
            writer.append_pieces(episode)
        for seed in failed_seeds:
            writer.fail(seed)


FORMAT = Format(
    found,
    read,
    write,
    dicts=True,
    without_actions=True,
    kept=(*TEXTS, "states"),
    read_options=("obs_keys",),
    write_options=("compression", "fps"),
)
