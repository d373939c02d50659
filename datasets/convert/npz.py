"""Plain `.npz` files: arrays with a row a step over all episodes, or of T + 1 observations an episode."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import numpy as np

from imitate.datasets.columns import LARGEST_EPISODE
from imitate.datasets.convert.recording import Notes, Recording, ended, refused
from imitate.datasets.schema import DemoInfo, info_from_plain, info_to_plain
from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = ["FOLDER", "found", "losses", "read", "write"]

FOLDER = False
_MOST_STEPS = 1 << 32
_NAMES = {
    "obs": ("obs", "observations", "states"),
    "next_obs": ("next_obs", "next_observations"),
    "actions": ("actions", "acts"),
    "rewards": ("rewards", "rews"),
    "terminated": ("terminated", "terminals", "dones", "done", "terminal"),
    "truncated": ("truncated", "timeouts"),
    "starts": ("episode_starts",),
    "labels": ("expert_actions",),
    "seeds": ("seeds",),
    "lengths": ("lengths",),
    "indices": ("indices",),  # where episodes are split, in old files of `imitation`
}
"""What an array may be called; the first is how we call it. IL-Datasets has `episode_starts`."""


def found(path: Path) -> bool:
    return path.suffix == ".npz" and zipfile.is_zipfile(path)


@contextmanager
def read(path: Path, keys: Sequence[str], notes: Notes) -> Iterator[Recording]:  # noqa: ARG001
    """`lengths` (E,) or ends (N,) say where episodes are. Observations are N rows, or N + E with the final ones."""
    with refused(path):
        columns = {name: Column(path, member) for name, member in _members(path).items()}
        for name in ("obs", "actions"):
            if name not in columns:
                raise InputError(f"{path} has no array {_NAMES[name][0]!r}; wanted at least obs and actions")
        steps = columns["actions"].rows
        lengths, terminated, truncated = _ends(columns, steps, notes)
        info = _info(path)
        for name in columns.keys() - {
            "obs",
            "actions",
            "rewards",
            "next_obs",
            "labels",
            "indices",
            "lengths",
        }:
            columns[name].require(steps, len(lengths))
        if columns["obs"].rows not in (steps, steps + len(lengths)):
            raise InputError(f"{columns['obs'].rows} obs for {steps} actions in {len(lengths)} episodes")
        seeds = columns["seeds"].all() if "seeds" in columns else np.full(len(lengths), -1)

        def episodes() -> Iterator[Trajectory]:
            with ExitStack() as open_columns:
                rows: dict[str, Column] = {
                    name: open_columns.enter_context(columns[name].opened())
                    for name in ("obs", "actions", "rewards", "next_obs", "labels")
                    if name in columns
                }
                whole = columns["obs"].rows > steps
                for number, length in enumerate(lengths.tolist()):
                    with refused(f"{path}: episode {number}"):
                        flags = bool(terminated[number]), bool(truncated[number])
                        episode = _episode(rows, length, whole, flags, int(seeds[number]), notes)
                    if episode is not None:
                        yield episode

        yield Recording(episodes, info=info, labelled="labels" in columns)


def losses(info: DemoInfo, labelled: bool) -> list[str]:  # noqa: ARG001
    return []


def write(path: Path, info: DemoInfo, episodes: Iterable[Trajectory], labelled: bool) -> None:
    """`obs` has a row more than `actions` for each episode; `lengths` count the actions."""
    lengths, flags, seeds = [], [], []
    with TemporaryDirectory(dir=path.parent) as scratch, ExitStack() as stack:
        names = ["obs", "actions", "rewards", *(["labels"] if labelled else [])]
        grown: dict[str, Grown] = {}
        for episode in episodes:
            columns = {"obs": episode.obs, "actions": episode.actions, "rewards": episode.rewards}
            columns["labels"] = episode.labels
            for name in names:
                if name not in grown:
                    grown[name] = stack.enter_context(Grown(Path(scratch) / name, columns[name]).opened())
                grown[name].append(columns[name])
            lengths.append(len(episode))
            flags.append((episode.terminated, episode.truncated))
            seeds.append(episode.info.get("seed", -1))
        stack.close()
        small = {
            "lengths": np.array(lengths, np.int64),
            "terminated": np.array(flags, bool)[:, 0],
            "truncated": np.array(flags, bool)[:, 1],
            "seeds": np.array(seeds, np.int64),
            "info": np.array(json.dumps(info_to_plain(info))),
        }
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, column in grown.items():
                archive.write(column.path, f"{_NAMES[name][0]}.npy")
            for name, array in small.items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)


class Column:
    """An array in the archive, read from its first row to its last. Raises InputError for one that is no numbers."""

    def __init__(self, path: Path, member: str) -> None:
        self._path, self.member = path, member
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            shape, self.dtype = _header(file, member)
        if not shape:
            raise InputError(f"{member} is one value, wanted rows")
        self.rows, self.shape = shape[0], shape[1:]
        self.row_bytes = self.dtype.itemsize * int(np.prod(self.shape, dtype=object))
        self._file: IO[bytes] | None = None

    @contextmanager
    def opened(self) -> Iterator[Column]:
        with zipfile.ZipFile(self._path) as archive, archive.open(self.member) as file:
            _header(file, self.member)
            self._file = file
            yield self

    def take(self, rows: int) -> Array:
        """The next rows."""
        assert self._file is not None
        nbytes = rows * self.row_bytes
        if nbytes > LARGEST_EPISODE:
            raise InputError(
                f"{self.member} has {nbytes} bytes an episode, over the limit of {LARGEST_EPISODE}"
            )
        data = self._file.read(nbytes)
        if len(data) != nbytes:
            raise InputError(f"{self.member} ends early; restore it or make it again")
        array = np.frombuffer(data, self.dtype).reshape(rows, *self.shape)
        return array.astype(self.dtype.newbyteorder("="), copy=False)

    def all(self) -> Array:
        with self.opened():
            return self.take(self.rows)

    def require(self, *rows: int) -> None:
        if self.rows not in rows or self.shape not in ((), (1,)):
            raise InputError(f"{self.member} has shape {(self.rows, *self.shape)}, wanted one of {rows} rows")


class Grown:
    """A .npy file whose number of rows is known at the end."""

    def __init__(self, path: Path, first: Array) -> None:
        self.path, self._first, self._rows = path, first, 0

    @contextmanager
    def opened(self) -> Iterator[Grown]:
        with self.path.open("wb") as self._file:
            self._write_header()
            yield self
            self._file.seek(0)
            self._write_header()  # as long as before: NumPy leaves room for the first dimension to grow

    def append(self, rows: Array) -> None:
        self._file.write(np.ascontiguousarray(rows).tobytes())
        self._rows += len(rows)

    def _write_header(self) -> None:
        shape = (self._rows, *self._first.shape[1:])
        described = {"descr": self._first.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, described)


def _header(file: IO[bytes], member: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in headers:
        raise InputError(f"{member} is of version {version}, wanted 1.0 or 2.0")
    shape, fortran, dtype = headers[version](file)
    if dtype.kind not in "biuf" or (fortran and len(shape) > 1):
        raise InputError(f"{member} holds {dtype} in Fortran order={fortran}; wanted numbers in C order")
    if shape and not 0 <= shape[0] <= _MOST_STEPS:
        raise InputError(f"{member} claims {shape[0]} rows")
    return shape, dtype


def _members(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        stored = {name.removesuffix(".npy"): name for name in archive.namelist()}
    known = {ours: [stored[name] for name in names if name in stored] for ours, names in _NAMES.items()}
    return {ours: members[0] for ours, members in known.items() if members}


def _info(path: Path) -> DemoInfo | None:
    """What `write` stored, a text. It is not unpickled: text is an array of characters."""
    with zipfile.ZipFile(path) as archive:
        if "info.npy" not in archive.namelist() or archive.getinfo("info.npy").file_size > 1 << 24:
            return None
        with archive.open("info.npy") as file:
            text = np.lib.format.read_array(file, allow_pickle=False)
    if text.dtype.kind != "U" or text.shape != ():
        return None
    data = json.loads(str(text))
    return info_from_plain(data, path) if isinstance(data, dict) else None


def _ends(columns: dict[str, Column], steps: int, notes: Notes) -> tuple[Array, Array, Array]:
    """Lengths and both flags (E,)."""
    flags = {
        name: columns[name].all().reshape(-1).astype(bool) if name in columns else None
        for name in ("terminated", "truncated", "starts")
    }
    if "indices" in columns:
        lengths = np.diff(columns["indices"].all().astype(np.int64), prepend=0, append=steps)
    elif "lengths" in columns:
        lengths = columns["lengths"].all().astype(np.int64)
    else:
        given = [flag for name, flag in flags.items() if name != "starts" and flag is not None]
        last = np.zeros(steps, bool)
        for flag in given:
            if len(flag) != steps:
                raise InputError(f"flags have {len(flag)} rows, actions {steps}")
            last |= flag
        if flags["starts"] is not None:
            last = np.append(flags["starts"][1:], True)
        elif not given:
            notes["nothing says where episodes end: all steps are one"] += 1
        if steps and not last[-1]:
            last[-1] = True
        lengths = np.diff(np.flatnonzero(last), prepend=-1)
    if (lengths < 1).any() or lengths.sum() != steps:
        raise InputError(f"lengths of episodes add up to {lengths.sum()}, there are {steps} actions")
    ends = np.cumsum(lengths) - 1

    def of_episodes(flag: Array | None) -> Array:
        if flag is None:
            return np.zeros(len(lengths), bool)
        return flag if len(flag) == len(lengths) != steps else flag[ends]

    return lengths, of_episodes(flags["terminated"]), of_episodes(flags["truncated"])


def _episode(
    rows: dict[str, Column], length: int, whole: bool, flags: tuple[bool, bool], seed: int, notes: Notes
) -> Trajectory | None:
    obs = rows["obs"].take(length + whole)
    actions = rows["actions"].take(length)
    notes["rewards are absent and become 0"] += int("rewards" not in rows)
    rewards = rows["rewards"].take(length).reshape(-1) if "rewards" in rows else np.zeros(length, np.float32)
    more: dict[str, Any] = {"info": {"seed": seed}}
    if "labels" in rows:
        more["expert_actions"] = rows["labels"].take(length)
    if "next_obs" in rows:
        following = rows["next_obs"].take(length)
        if not whole:
            return Trajectory(np.concatenate([obs, following[-1:]]), actions, rewards, *flags, **more)
    if whole:
        return Trajectory(obs, actions, rewards, *flags, **more)
    return ended(obs, actions, rewards, *flags, notes, **more)
