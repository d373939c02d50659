"""Reads the words of a command line by its options, and answers mistakes in one line; tyro draws the help."""

from __future__ import annotations

import contextlib
import glob
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn, get_origin

import msgspec
import tyro

from imitate.commands.line import WORDS, CommandLine, dashed
from imitate.commands.option import Option, as_dataclass
from imitate.errors import InputError, one_line
from imitate.terminal import raw

__all__ = ["NamesAsked", "by_name", "read"]

_Path = tuple[str, ...]
"""The name of an option, after those of the configs that it is in: ("ppo", "batch_size")."""
_STEPS = ("--budget", "--steps", "--timesteps", "--total-timesteps", "--n-timesteps", "--max-steps")
"""Names of the number of environment steps, here and in other toolkits."""
_Known = tuple[_Path, Option, bool | None]
"""An option, and what its name sets if it is a switch: `--looks` True, `--no-looks` False."""


class NamesAsked(Exception):
    """Answers `--help-words` in place of help: the options of the command, or the names of its subcommands."""

    def __init__(self, *, options: Sequence[Option] = (), names: Iterable[str] = ()) -> None:
        super().__init__()
        self.options, self.names = options, names


def read(options: Sequence[Option], argv: Sequence[str], name: str, summary: str) -> dict[str, Any]:
    """The values that were typed, by the names of the options; those of a config within a config in a dict of its own.

    name, summary  of the command

    Raises InputError, in one line, for mistakes; help ends the process, and `NamesAsked` leaves it to the caller.
    """
    line = CommandLine(argv)
    if line.has(WORDS):
        raise NamesAsked(options=options)
    if line.asks_for_help:
        _print_help(options, line, name, summary)
    known = by_name(options)
    if unknown := [typed.name for typed in line.options if typed.name not in known]:
        meant = _meant(unknown[0], [each for each, (_, _, switch) in known.items() if switch is not False])
        raise InputError(f"unknown option {unknown[0]}{meant}; see `imitate {name} --help-all`")
    try:
        found = _values(options, known, line)
        if missing := [each for each in options if each.default is tyro.MISSING and each.name not in found]:
            wanted = [f"{_described(each, dashed(each.name))} (required)" for each in missing]
            raise InputError(f"Missing from imitate {name}: {' '.join(wanted)}")
    except InputError as error:
        raise InputError(f"{error}; see `imitate {name} --help`") from None
    return found


def _values(options: Sequence[Option], known: Mapping[str, _Known], line: CommandLine) -> dict[str, Any]:
    found: dict[str, Any] = {}
    left, hint = [*line.words], ""
    for typed in line.options:
        path, option, switch = known[typed.name]
        count = 0 if option.switch else len(typed.words) if option.greedy else 1
        left += typed.words[count:]
        if count == 1 < len(typed.words) and not typed.words[1].startswith("-"):
            hint = f"{' '.join(typed.words[1:])} ({typed.name} takes one value)"
        value: Any = _value(option, typed.name, typed.words[:count]) if switch is None else switch
        *configs, last = path
        place = found
        for config in configs:
            place = place.setdefault(config, {})
        if last in place and not option.repeated:
            raise InputError(f"{typed.name} is given twice: give it once, as only the last one would count")
        place[last] = (*place.get(last, ()), *value) if option.repeated else value
    for option in options:
        if option.positional and (left or option.greedy):
            count = len(left) if option.greedy else 1
            found[option.name] = _value(option, str(option.metavar), left[:count])
            left = left[count:]
    if left:
        words = " ".join(left)
        raise InputError(f"Unrecognized options: {hint if hint.startswith(f'{words} (') else words}")
    return found


def _value(option: Option, called: str, words: Sequence[str]) -> Any:
    """The value that the words after an option stand for."""
    wanted = f"wanted {_described(option, called)}"
    if not words and not option.greedy:
        raise InputError(f"{called} lacks its value; {wanted}")
    if option.optional and [*words] == ["None"]:
        return None
    lists = (word for word in words if "," in word and "=" not in word and not glob.glob(word))  # noqa: PTH207
    if option.several and (listed := next(lists, None)):
        parts = " ".join(filter(None, re.split(r"[\s,]+", listed.strip("()[]"))))
        raise InputError(f"{called} {listed}: lists are written with spaces, so write {called} {parts}")
    try:
        values = [option.value(word) for word in words]
    except KeyError as error:
        known = tuple(option.choices)
        raise InputError(f"invalid choice {error} for argument '{called}'. Expected one of {known}") from None
    except (ValueError, msgspec.ValidationError) as error:
        raise InputError(f"Error parsing {called}: {one_line(error)}; {wanted}") from error
    return get_origin(option.kind)(values) if option.several else values[0]


def _described(option: Option, called: str) -> str:
    """An option as help has it, in one line."""
    parts = (None if option.positional else called, option.metavar, option.text.rstrip("."))
    return " ".join(part for part in parts if part)


def by_name(options: Sequence[Option]) -> dict[str, _Known]:
    """The options by what may be typed, such as `--ppo.batch-size`."""
    found: dict[str, _Known] = {}
    for path, option in _flat(options):
        found[dashed(".".join(path))] = path, option, True if option.switch else None
        if option.switch:
            found[dashed(".".join((*path[:-1], f"no-{path[-1]}")))] = path, option, False
            if option.name == "deterministic":
                found["--stochastic"] = path, option, False
    return found


def _flat(options: Sequence[Option], above: _Path = ()) -> list[tuple[_Path, Option]]:
    """All options but positional ones, also those of configs in configs."""
    found = []
    for option in options:
        if option.parts:
            found += _flat(option.parts, (*above, option.name))
        elif not option.positional:
            found.append(((*above, option.name), option))
    return found


def _print_help(options: Sequence[Option], line: CommandLine, name: str, summary: str) -> NoReturn:
    rare = [] if line.has("--help-all") else [option for option in options if option.rare]
    if rare:
        summary += f"\n`imitate {name} --help-all` shows {len(_flat(rare))} more options."
    shown = as_dataclass("Options", [option for option in options if option not in rare])
    with contextlib.redirect_stdout(raw(sys.stdout)):  # the help has colours
        tyro.cli(shown, args=["--help"], prog=f"imitate {name}", description=summary)
    raise AssertionError("tyro's help ends the process")


def _meant(typed: str, known: Sequence[str]) -> str:
    """The option with these initials, as in --lr, or that begins with what was typed, or else the closest one."""
    if typed in ("--max-episode-steps", "--time-limit") and "--env-kwargs" in known:
        return """; did you mean `--env-kwargs '{"max_episode_steps": 1000}'`?"""
    near = (
        [name for name in _STEPS if typed in _STEPS and name in known]
        or [name for name in known if _initials(name) == typed]
        or [name for name in known if name.startswith(typed)]
        or [f"--{name}" for name in get_close_matches(typed[2:].lower(), [name[2:] for name in known])]
    )
    return f"; did you mean {near[0]!r}?" if near and typed[2:] else ""


def _initials(name: str) -> str:
    """`--ppo.lr` of `--ppo.learning-rate`."""
    config, dot, last = name[2:].rpartition(".")
    return f"--{config}{dot}" + "".join(word[0] for word in last.split("-"))
