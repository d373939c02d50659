"""Plain `.npz` files: arrays with one row per step over all episodes, or with T + 1 observations per episode."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from imitate.datasets.convert.arrays import Column, Grown, Joined
from imitate.datasets.convert.ends import Ends, ends_of_flags
from imitate.datasets.convert.foreign import Notes, most, refused
from imitate.datasets.convert.named import FLAGS, NAMES, both_flags, columns_of_roles, note_unsaid
from imitate.datasets.convert.pieces import Episode, Rows, assembled, spans
from imitate.datasets.convert.recording import Format, Recording
from imitate.datasets.storage.schema import DemoInfo, info_from_plain, info_to_plain
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.files import open_zip

__all__ = ["FORMAT"]

_ROLES = tuple(name for name in NAMES if name != "episode")
_OF_STEPS = ("action", "reward", "next_obs", "expert_action")
_LARGEST_INFO = 1 << 24
_FEW_EPISODES = 20_000
"""Episodes that are read from a file of any size, which takes 3 s. Other programs compress the columns that tell the
episodes, so that a small file may hold many."""


def found(path: Path) -> bool:
    return path.is_file() and path.suffix == ".npz" and zipfile.is_zipfile(path)


@contextmanager
def read(
    path: Path,
    notes: Notes,
    columns: Sequence[str] = (),
    *,
    actions: bool = True,
) -> Iterator[Recording]:
    """Lengths (E,) or flags of ends (N,) separate the episodes. Observations have N rows, or N + E with the final
    ones. With `actions` False there are none, or they are left out.
    """
    with refused(path):
        info = _info(path)
        acted = actions and (info is None or info.has_actions)
        arrays, names = _arrays(path, columns, acted)
        steps = arrays["action"].rows if acted else _steps_without_actions(arrays)
        ends = _ends(arrays, steps, max(most(path).episodes, _FEW_EPISODES), notes)
        count = len(ends.lengths)
        note_unsaid(names, notes)
        for name in _OF_STEPS:
            if name in arrays and arrays[name].rows != steps:
                raise InputError(f"{name} has {arrays[name].rows} rows, wanted {steps} as actions have")
        if arrays["obs"].rows not in (steps, steps + count):
            said = f"{arrays['obs'].rows} obs for {steps} actions in {count} episodes"
            if arrays.keys().isdisjoint(("length", "index", "start", *FLAGS)):
                said += ": nothing says where episodes end, so add an array 'lengths', of the steps of each"
            raise InputError(said)
        seeds = np.full(count, -1)
        if "seed" in arrays:
            arrays["seed"].require(count)
            seeds = arrays["seed"].whole_numbers()
        read = {name: arrays[name] for name in ("obs", *_OF_STEPS) if name in arrays}
        if "next_obs" in read and arrays["obs"].rows > steps:
            del read["next_obs"]

        def episodes() -> Iterator[Episode]:
            with ExitStack() as stack:
                opened = {name: stack.enter_context(column.opened()) for name, column in read.items()}
                extra = int(arrays["obs"].rows > steps)
                for number, length in enumerate(ends.lengths.tolist()):
                    parts = _parts(opened, length, extra, ends.flags(number))
                    info = {"seed": int(seeds[number])}
                    yield assembled(f"{path}: episode {number}", parts, notes, info)

        yield Recording(episodes, info=info, labelled="expert_action" in arrays, acted=acted)


def write(path: Path, info: DemoInfo, episodes: Iterable[Episode], labelled: bool) -> None:
    """For each episode, `obs` has one row more than `actions`; `lengths` count the actions."""
    lengths, flags, seeds = [], [], []
    with TemporaryDirectory(dir=path.parent) as scratch, ExitStack() as stack:
        names = ["obs", "rewards", *(["actions"] if info.has_actions else [])]
        names += ["expert_actions"] if labelled and info.has_actions else []
        grown: dict[str, Grown] = {}
        for episode in episodes:
            length = 0
            for piece in episode:
                rows = {
                    "obs": piece.obs[min(length, 1) :],
                    "actions": piece.actions,
                    "rewards": piece.rewards,
                    "expert_actions": piece.labels,
                }
                for name in names:
                    if name not in grown:
                        grown[name] = stack.enter_context(Grown(Path(scratch) / name, rows[name]).opened())
                    grown[name].append(rows[name])
                length += len(piece)
            lengths.append(length)
            flags.append((piece.terminated, piece.truncated))
            seeds.append(piece.info.get("seed", -1))
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
                archive.write(column.path, f"{name}.npy")
            for name, array in small.items():
                # Not compressed: `most` bounds the episodes by the file's size.
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)


def _arrays(
    path: Path, columns: Sequence[str], acted: bool
) -> tuple[dict[str, Joined], dict[str, list[str]]]:
    """The arrays of each role, and their names."""
    with path.open("rb") as file, open_zip(file) as archive:
        stored = {name.removesuffix(".npy"): name for name in archive.namelist()}
    roles = _ROLES if acted else tuple(role for role in _ROLES if role not in ("action", "expert_action"))

    def known(role: str) -> list[str]:
        return [name for name in NAMES[role] if name in stored][:1]

    names = columns_of_roles(columns, roles, stored, known, "array")
    for role in ("obs", "action") if acted else ("obs",):
        if role not in names:
            there = ", ".join(list(stored)[:8])
            raise InputError(
                f"it has no array {NAMES[role][0]!r}; it has {there}: tell which are the observations and actions, "
                "such as --columns obs=level,velocity action=valve, or say --no-actions if there are none"
            )
    arrays = {role: Joined([Column(path, stored[name]) for name in called]) for role, called in names.items()}
    return arrays, names


def _steps_without_actions(arrays: Mapping[str, Joined]) -> int:
    """As rewards or flags tell; otherwise each episode has one observation more than it has steps."""
    # The first episode begins at no index.
    count = (
        arrays["index"].rows + 1 if "index" in arrays else arrays["length"].rows if "length" in arrays else 0
    )
    for name in ("reward", *FLAGS, "start"):
        if name in arrays and arrays[name].rows != count:
            return arrays[name].rows
    return arrays["obs"].rows - (count or 1)


def _parts(
    columns: Mapping[str, Joined], length: int, extra: int, flags: tuple[bool, bool]
) -> Iterator[Rows]:
    """The rows of an episode in pieces; `extra` is 1 if there is a final observation."""
    for start, stop in spans(length, sum(column.row_bytes for column in columns.values())):
        last = stop == length
        rows = {
            "obs": columns["obs"].take(stop - start + (extra if last else 0)),
            "actions": np.zeros(stop - start),
            "terminated": np.array([flags[0]]),
            "truncated": np.array([flags[1]]),
        }
        if "action" in columns:
            rows["actions"] = columns["action"].take(stop - start)
        if "reward" in columns:
            rows["rewards"] = columns["reward"].take(stop - start).reshape(-1)
        if "expert_action" in columns:
            rows["expert_actions"] = columns["expert_action"].take(stop - start)
        if "next_obs" in columns:
            following = columns["next_obs"].take(stop - start)
            if last:
                rows["obs"] = np.concatenate([rows["obs"], following[-1:]])
        yield rows


def _ends(arrays: Mapping[str, Joined], steps: int, most: int, notes: Notes) -> Ends:
    """The ends of episodes: lengths and both flags (E,)."""
    flags = {name: arrays[name] for name in FLAGS if name in arrays}
    if "index" in arrays or "length" in arrays:
        given = arrays["index" if "index" in arrays else "length"]
        if given.rows > most:
            raise InputError(f"{given.rows} episodes are more than a file of its size can hold")
        lengths = given.whole_numbers()
        if "index" in arrays:
            lengths = np.diff(lengths, prepend=0, append=steps)
        if (lengths < 1).any() or lengths.sum() != steps:
            raise InputError(f"lengths of episodes add up to {lengths.sum()}, there are {steps} actions")
        last = np.cumsum(lengths) - 1
        each = np.arange(len(lengths))
        found = {
            name: _at(flag, each, len(each)) if flag.rows == len(each) else _at(flag, last, steps)
            for name, flag in flags.items()
        }
        found, none = both_flags(found), np.zeros(len(lengths), bool)
        return Ends(lengths, found.get("terminated", none), found.get("truncated", none))
    for flag in (*flags.values(), *([arrays["start"]] if "start" in arrays else [])):
        flag.require(steps)
    if not flags and "start" not in arrays:
        notes["nothing says where episodes end: all steps are one"] += 1
    return ends_of_flags(_blocks(arrays, steps), most)


def _blocks(arrays: Mapping[str, Joined], steps: int) -> Iterator[tuple[Array, Array, Array]]:
    """Blocks (n,) of three flags: terminated, truncated, and whether an episode ends."""
    with ExitStack() as stack:
        opened = {
            name: stack.enter_context(arrays[name].opened()) for name in (*FLAGS, "start") if name in arrays
        }
        if "start" in opened:
            opened["start"].take(1)
        for start, stop in spans(steps, 16):
            flags = {
                name: column.take_flags(min(stop, steps - 1) - start if name == "start" else stop - start)
                for name, column in opened.items()
            }
            known = both_flags({name: flags[name] for name in FLAGS if name in flags})
            none = np.zeros(stop - start, bool)
            terminated, truncated = known.get("terminated", none), known.get("truncated", none)
            ending = terminated | truncated
            if "start" in flags:
                ending = np.append(flags["start"], True)[: stop - start]
            yield terminated, truncated, ending


def _at(flag: Joined, places: Array, rows: int) -> Array:
    """The values of the flag (rows,) at these sorted places."""
    flag.require(rows)
    with flag.opened() as opened:
        found = []
        for start, stop in spans(rows, 16):
            block = opened.take_flags(stop - start)
            first, end = np.searchsorted(places, [start, stop])
            found.append(block[places[first:end] - start])
    return np.concatenate(found)


def _info(path: Path) -> DemoInfo | None:
    """The provenance that `write` stored as text. Nothing is unpickled, since text is an array of characters."""
    with path.open("rb") as file, open_zip(file) as archive:
        if "info.npy" not in archive.namelist() or archive.getinfo("info.npy").file_size > _LARGEST_INFO:
            return None
        with archive.open("info.npy") as member:
            text = np.lib.format.read_array(member, allow_pickle=False)
    if text.dtype.kind != "U" or text.shape != ():
        return None
    data = json.loads(str(text))
    return info_from_plain(data, path) if isinstance(data, dict) else None


FORMAT = Format(found, read, write, without_actions=True, read_options=("columns", "actions"))
