"""Plain CSV: one line for each observation and the action taken on it; the line of a final observation has no
action."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, count, groupby, islice, takewhile
from pathlib import Path
from typing import TextIO

import numpy as np

from imitate.datasets.convert.foreign import Notes, refused
from imitate.datasets.convert.named import FLAGS, NAMES, both_flags, columns_of_roles, note_unsaid
from imitate.datasets.convert.pieces import Episode, Rows, assembled, marked
from imitate.datasets.convert.recording import Format, Recording
from imitate.datasets.storage.schema import DemoInfo
from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = ["FORMAT"]

_LONGEST_LINE = 1 << 20
_MOST_COLUMNS = 4096
_FIELDS = 1 << 18  # held at a time as numbers or texts in Python
_LARGEST_EXACT = 1 << 53  # of the whole numbers that a float holds without a gap
_MOST_REMEMBERED = 1 << 18  # episodes, of which one that comes again is noticed
_ROLES = ("obs", "action", "expert_action", "reward", *FLAGS, "episode", "seed")

Places = Mapping[str, Sequence[int]]
"""Numbers of the columns for each role."""


class _Line(list[str]):
    """The fields of a line, with its number in the file and the names of the columns."""

    number: int
    names: Sequence[str]


def found(path: Path) -> bool:
    """True for a CSV, and for a folder of them without recordings of ours."""
    return bool(_files(path)) and not any(path.glob("*.h5"))


@contextmanager
def read(path: Path, notes: Notes, columns: Sequence[str] = ()) -> Iterator[Recording]:
    """Columns are obs_0 ..., action or action_0 ..., and optionally episode, reward, terminated and truncated.

    Without a column of episodes, an episode ends with a row that has a flag. With one, all its rows follow one another.
    The files of a folder have the same columns, and episodes of their own.
    """
    with refused(path), ExitStack() as passes:
        files = _files(path)
        header = _header(files[0])
        for other in files[1:]:
            if _header(other) != header:
                raise InputError(f"{other.name} has other columns than {files[0].name}: give all the same")
        places = _places(header, columns)
        known = {place for role in places.values() for place in role}
        for place, name in enumerate(header):
            if place not in known:
                notes[f"column {name!r} is left out"] += 1
        note_unsaid({role: [header[place] for place in at] for role, at in places.items()}, notes)

        def episodes() -> Iterator[Episode]:
            for file in files:
                # Closed at the latest with the recording, as a pass may be left at a mistake.
                with refused(file), passes.enter_context(_opened(file)) as text:
                    lines = _lines(text)
                    next(lines)
                    seen: set[int] = set()
                    for name, group in groupby(lines, key=_numbering(places)):
                        again = hash(name) in seen
                        if len(seen) < _MOST_REMEMBERED:
                            seen.add(hash(name))
                        yield _episode(f"{file}: episode {name[:80]!r}", group, places, notes, again=again)

        yield Recording(episodes, labelled="expert_action" in places, decimal=True)


def _files(path: Path) -> list[Path]:
    """The CSV itself, or those in a folder, by name."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file for file in files if file.is_file() and file.suffix.lower() == ".csv"]


def _opened(file: Path) -> TextIO:
    return file.open(encoding="utf-8-sig", newline="")


def _header(file: Path) -> list[str]:
    with refused(file), _opened(file) as text:
        return list(next(_lines(text), []))


def losses(info: DemoInfo, labelled: bool) -> list[str]:  # noqa: ARG001
    shape = info.observation_space.shape or ()
    if len(shape) > 1:
        raise InputError(f"CSV holds flat observations, these have shape {shape}: use another format")
    return ["the environment, the expert and its return are not in a CSV"]


def write(path: Path, info: DemoInfo, episodes: Iterable[Episode], labelled: bool) -> None:
    def names(name: str, shape: tuple[int, ...]) -> list[str]:
        return [f"{name}_{n}" for n in range(shape[0])] if shape else [name]

    obs = [f"obs_{n}" for n in range(int(np.prod(info.observation_space.shape or ())))]
    actions = names("action", info.action_space.shape or ())
    labels = names("expert_action", info.action_space.shape or ()) if labelled else []
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["episode", "seed", *obs, *actions, *labels, "reward", "terminated", "truncated"])
        for number, episode in enumerate(episodes):
            for piece, last in marked(episode):
                seed = piece.info.get("seed", -1)
                flags = np.zeros((len(piece), 2), int)
                flags[-1] = (piece.terminated, piece.truncated) if last else 0
                columns = [
                    piece.obs[:-1],
                    piece.actions,
                    *([piece.labels] if labelled else []),
                    piece.rewards,
                ]
                for row in _texts([*columns, flags]):
                    out.writerow([number, seed, *row])
            final = next(_texts([piece.obs[-1:]]))
            out.writerow([number, seed, *final, *[""] * (len(actions) + len(labels) + 3)])


def _texts(columns: Sequence[Array]) -> Iterator[list[str]]:
    """The fields of each row as text. NumPy writes float32 exactly and briefly; via Python's floats the texts would be
    long."""
    flat = [column.reshape(len(column), -1) for column in columns]
    flat = [column.astype(np.uint8) if column.dtype == bool else column for column in flat]
    size = max(1, _FIELDS // sum(column.shape[1] for column in flat))
    for start in range(0, len(flat[0]), size):
        rows = zip(*(column[start : start + size].astype(str).tolist() for column in flat), strict=True)
        yield from (list(chain.from_iterable(row)) for row in rows)


def _lines(file: TextIO) -> Iterator[_Line]:
    """The lines that are not blank. Fields are separated by commas, or as in the first of them."""
    taken = 0

    def bounded() -> Iterator[str]:
        nonlocal taken
        while line := _next_line(file):
            taken += len(line)
            if taken >= _LONGEST_LINE:
                raise InputError(f"a line has more than {_LONGEST_LINE} characters")
            yield line

    texts, head = bounded(), [""]
    while not head[-1].strip() and (text := next(texts, None)) is not None:
        head.append(text)
        taken = 0
    separator = next((each for each in ",;\t" if each in head[-1]), ",")
    reader, names = csv.reader(chain(head[1:], texts), delimiter=separator), None
    for fields in reader:
        taken = 0
        if not any(field.strip() for field in fields):
            continue
        line = _Line(fields)
        line.number, line.names = reader.line_num, names or line
        names = line.names
        if len(line) != len(names):
            raise InputError(
                f"line {line.number} has {len(line)} fields, the first has {len(names)}: complete it or delete it"
            )
        yield line


def _next_line(file: TextIO) -> str:
    try:
        return file.readline(_LONGEST_LINE)
    except UnicodeDecodeError as error:
        raise InputError(
            f"it isn't UTF-8 text (byte {error.object[error.start]:#04x} doesn't fit): save it as UTF-8"
        ) from None


def _places(header: Sequence[str], columns: Sequence[str]) -> dict[str, list[int]]:
    """The columns of each role: those given by `columns`, otherwise those with known names."""
    if not header:
        raise InputError("it is empty; wanted a line of columns, and a line for each step")
    if len(header) > _MOST_COLUMNS:
        raise InputError(f"it has {len(header)} columns; wanted at most {_MOST_COLUMNS}")
    if twice := next((name for place, name in enumerate(header) if name in header[:place]), None):
        raise InputError(f"it has two columns {twice!r}: rename one of them")
    at = {name: place for place, name in enumerate(header)}

    def known(role: str) -> list[str]:
        return next(filter(None, (_numbered(at, name) for name in (role, *NAMES[role]))), [])

    chosen = columns_of_roles(columns, _ROLES, at, known, "column")
    if "obs" not in chosen or "action" not in chosen:
        raise InputError(
            f"it has columns {', '.join(map(repr, header[:8]))}; wanted obs_0 ... and action or action_0 ..., or tell "
            "`imitate data convert` which these are, such as --columns obs=level,velocity action=valve"
        )
    for role in _ROLES[3:]:
        if len(chosen.get(role, ())) > 1:
            raise InputError(f"{role} is one column, got {', '.join(chosen[role])}")
    return {role: [at[name] for name in names] for role, names in chosen.items()}


def _numbered(at: Mapping[str, int], name: str) -> list[str]:
    """The column `name`, or the columns `name_0`, `name_1` ..."""
    return [name] if name in at else list(takewhile(at.__contains__, (f"{name}_{n}" for n in count())))


def _numbering(places: Places) -> Callable[[_Line], str]:
    """A function that names the episode of each line; it must be called on the lines in order."""
    if "episode" in places:
        number = places["episode"][0]
        return lambda line: line[number]
    flags = [places[role][0] for role in FLAGS if role in places]
    episode, ended = 0, False

    def name(line: _Line) -> str:
        nonlocal episode, ended
        # A line without an action is the final observation of the episode before it.
        if ended and any(line[place] for place in places["action"]):
            episode, ended = episode + 1, False
        ended |= any(_flag(line, place) for place in flags)
        return str(episode)

    return name


def _episode(what: str, lines: Iterator[_Line], places: Places, notes: Notes, *, again: bool) -> Episode:
    """`again`: lines of the same episode came before lines of another one."""
    first = next(lines)
    if again:
        raise InputError(
            f"{what} comes again in line {first.number}, after another one: sort the lines by episode, or give each "
            "episode of logs that were joined a number of its own"
        )
    seed = _whole(first, places["seed"][0]) if "seed" in places and first[places["seed"][0]] else -1
    lines, size = chain([first], lines), max(1, _FIELDS // len(first))
    parts = iter(lambda: list(islice(lines, size)), [])
    rows = (_rows(part, last, places, notes) for part, last in marked(parts))
    return assembled(what, rows, notes, {"seed": seed})


def _rows(lines: Sequence[_Line], last: bool, places: Places, notes: Notes) -> Rows:
    final = last and not any(lines[-1][place] for place in places["action"])
    steps = lines[:-1] if final else lines
    rows = {"obs": _observed(lines, places["obs"])}
    for role, name in (("action", "actions"), ("expert_action", "expert_actions")):
        if role in places:
            rows[name] = _taken(steps, places[role])
    if "reward" in places:
        rows["rewards"] = _numbers(steps, places["reward"])[:, 0]
    flags = {role: places[role][0] for role in FLAGS if role in places}
    early = sum(_is_set(line, place) for place in flags.values() for line in steps[:-1])
    notes["a flag in the middle of an episode is left out: the episode ends where its number changes"] += (
        early
    )
    last_flags = {role: [_flag(line, place) for line in steps[-1:]] for role, place in flags.items()}
    return rows | both_flags({role: np.array(flag, bool) for role, flag in last_flags.items()})


def _observed(lines: Sequence[_Line], places: Sequence[int]) -> Array:
    """Observations (n, D) as floats, or as whole numbers if they all are and floats would round some."""
    rows = _numbers(lines, places)
    if (np.abs(rows) < _LARGEST_EXACT).all():
        return rows
    try:
        return np.array([[int(line[place]) for place in places] for line in lines], np.int64)
    except (ValueError, OverflowError):
        return rows


def _numbers(lines: Sequence[_Line], places: Sequence[int]) -> Array:
    """Finite numbers (n, D). Raises InputError for anything else, with its line and column."""
    try:
        rows = np.array([[float(line[place]) for place in places] for line in lines])
        if np.isfinite(rows).all():
            return rows.reshape(len(lines), len(places))
    except ValueError:
        pass
    line, place = next((line, place) for line in lines for place in places if not _is_finite(line[place]))
    raise _wrong(line, place, "no finite number")


def _wrong(line: _Line, place: int, what: str) -> InputError:
    return InputError(
        f"line {line.number}, column {line.names[place]!r}: {line[place][:40]!r} is {what}; correct it, or drop the "
        "episode"
    )


def _is_finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _taken(lines: Sequence[_Line], places: Sequence[int]) -> Array:
    """Actions (n, D); a single column of whole numbers holds discrete actions."""
    if len(places) > 1 or not all(re.fullmatch(r"\s*[+-]*\d+\s*", line[places[0]]) for line in lines):
        return _numbers(lines, places)
    return np.array([_whole(line, places[0]) for line in lines], np.int64)[:, None]


def _whole(line: _Line, place: int) -> int:
    """A whole number of type int64. Raises InputError for anything else, with its line and column."""
    try:
        # pandas writes 7.0 if another line of the column is empty.
        number = int(line[place].removesuffix(".0"))
    except ValueError:
        number = 1 << 63
    if not -(1 << 63) <= number < 1 << 63:
        raise _wrong(line, place, "no whole number that fits 64 bits")
    return number


def _is_set(line: _Line, place: int) -> bool:
    """True for a flag that is set; False also for a text that is no flag, such as NA."""
    try:
        return _flag(line, place)
    except InputError:
        return False


def _flag(line: _Line, place: int) -> bool:
    """An empty field, or NaN as tables write it, is a flag that is not set. Raises InputError for a text that is no
    flag, with its line and column."""
    text = line[place].lower()
    if text in ("true", "false", "nan", ""):
        return text == "true"
    try:
        return bool(float(text))
    except ValueError:
        raise _wrong(line, place, "no flag; wanted true, false, 1 or 0") from None


FORMAT = Format(found, read, write, losses, read_options=("columns",), write_options=())
