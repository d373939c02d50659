"""Reads a command line by tyro: which options there are, what help shows of them, and what mistakes are answered with.

Options marked `Rare` are parsed like all others, and only `--help-all` shows them.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import io
import itertools
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from imitate.errors import InputError, did_you_mean
from imitate.terminal import raw

__all__ = ["Option", "Rare", "options_of", "options_of_config", "read"]


class Rare:
    """Marks an option, as in `Annotated[int, Rare]`, that only `--help-all` shows."""


_METAVARS = {
    "env": "ENV", "expert": "EXPERT", "spec": "EXPERT", "intervene": "EXPERT", "subject": "RUN|EXPERT",
    "resume": "RUN", "init": "RUN", "demos": "FILE", "file": "FILE", "files": "FILE", "vecnormalize": "FILE",
    "folders": "FOLDER", "watch": "FOLDER", "algorithms": "ALGO", "add": "ALGO", "algo": "ALGO",
    "source": "DATA", "out": "PATH",
}  # fmt: skip
"""Of texts and paths, by the name of the option."""
_KINDS = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH", bool: "{True,False}"}
_UNSAID = ("None", "False", "", "''", "'{}'")
"""Defaults that say nothing: the text of the option says what its absence means."""


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a command.

    hint    its type, `Annotated` and all
    parts   of a config within a config, its options; its own type and default are not used
    rare    only `--help-all` shows it
    """

    name: str
    hint: Any
    default: Any = tyro.MISSING
    text: str = ""
    parts: tuple[Option, ...] = ()
    rare: bool = False

    @property
    def notes(self) -> tuple[Any, ...]:
        return self.hint.__metadata__ if get_origin(self.hint) is Annotated else ()

    @property
    def kind(self) -> Any:
        """Its type without notes and None."""
        kind = get_args(self.hint)[0] if self.notes else self.hint
        if get_origin(kind) in (Union, UnionType):
            kind = next(each for each in get_args(kind) if each is not NoneType)
        return kind

    @property
    def metavar(self) -> str | None:
        """None leaves it to tyro."""
        several = get_origin(self.kind) is tuple
        kind = get_args(self.kind)[0] if several else self.kind
        if kind in (str, Path) and self.name in _METAVARS:
            found = _METAVARS[self.name]
        elif get_origin(kind) is Annotated:  # it says itself how it is read
            return next(
                note.metavar for note in kind.__metadata__ if isinstance(note, PrimitiveConstructorSpec)
            )
        elif kind in _KINDS and (kind is not bool or self.default is None):
            found = _KINDS[kind]
        elif self.default is None and get_args(kind):
            found = "{" + ",".join(map(str, get_args(kind))) + "}"
        else:
            return None
        found += " ..." if several and tyro.conf.UseAppendAction not in self.notes else ""
        optional = tyro.conf.Positional in self.notes and self.default is not tyro.MISSING
        return f"[{found}]" if optional else found

    def field(self) -> tuple[str, Any, Any]:
        """For `make_dataclass`."""
        if self.parts:
            kind = _as_dataclass(self.name, self.parts)
            return self.name, kind, dataclasses.field(default_factory=kind)
        shown = tyro.conf.arg(
            help=self.text.rstrip("."),
            metavar=self.metavar,
            help_behavior_hint=lambda label: "" if label in _UNSAID else f"(default: {label})",
        )
        bare = get_args(self.hint)[0] if self.notes else self.hint
        # What is said where it is declared comes last and counts.
        hint: Any = Annotated[(bare, shown, *self.notes)]
        if self.default is tyro.MISSING:
            return self.name, hint, dataclasses.field()
        return self.name, hint, dataclasses.field(default_factory=lambda: self.default)


def read(options: Sequence[Option], argv: list[str], name: str, summary: str) -> Any:
    """The values of the options, as attributes. Raises InputError, in one line, for mistakes; help ends the process."""
    if {"-h", "--help", "--help-all"} & set(argv):
        rare = [] if "--help-all" in argv else [option for option in options if option.rare]
        options, argv = [option for option in options if option not in rare], ["--help"]
        if rare:
            summary += f"\n`imitate {name} --help-all` shows {len(_flat(rare))} more options."
    else:
        _check_names(options, argv, name)
    errors = io.StringIO()
    try:
        # The help has colours.
        with contextlib.redirect_stdout(raw(sys.stdout)), contextlib.redirect_stderr(errors):
            return tyro.cli(
                _as_dataclass("Options", options),
                args=argv,
                prog=f"imitate {name}",
                description=summary,
                registry=_NUMBERS,
            )
    except SystemExit as error:
        if error.code != 2:
            raise
        raise InputError(f"{_in_one_line(errors.getvalue())}; see `imitate {name} --help`") from None


def options_of(command: Callable[..., Any]) -> list[Option]:
    """The options of a function: its parameters, described under `Args:` in its docstring."""
    described = (inspect.getdoc(command) or "").partition("\nArgs:\n")[2]
    lines = re.sub(r"\n {8,}", " ", described).splitlines()
    texts = dict(line.strip().split(": ", 1) for line in lines if ": " in line)
    hints = get_type_hints(command, include_extras=True)
    found = [
        Option(
            name,
            hints[name],
            tyro.MISSING if each.default is each.empty else each.default,
            texts.get(name, ""),
        )
        for name, each in inspect.signature(command).parameters.items()
    ]
    return [dataclasses.replace(option, rare=Rare in option.notes) for option in found]


def options_of_config(config: Any) -> list[Option]:
    """The options of a dataclass, whose fields have docstrings; its values are the defaults.

    If the class has `MAIN`, the names of its options that matter most, the others are rare.
    """
    hints, texts = get_type_hints(type(config), include_extras=True), _texts_of_fields(type(config))
    main = vars(type(config)).get("MAIN")
    found = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        parts = tuple(options_of_config(value)) if dataclasses.is_dataclass(value) else ()
        option = Option(field.name, hints[field.name], value, texts.get(field.name, ""), parts)
        rare = Rare in option.notes if main is None else field.name not in main
        found.append(dataclasses.replace(option, rare=rare))
    return found


def _texts_of_fields(kind: type) -> dict[str, str]:
    texts = {}
    for base in reversed([each for each in kind.__mro__ if dataclasses.is_dataclass(each)]):
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except OSError:  # made in a notebook
            continue
        assert isinstance(tree, ast.ClassDef)
        for field, text in itertools.pairwise(tree.body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                assert isinstance(field.target, ast.Name)
                texts[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return texts


def _as_dataclass(name: str, options: Sequence[Option]) -> type[Any]:
    # Keywords only, since those without a default may follow others.
    return dataclasses.make_dataclass(name, [option.field() for option in options], kw_only=True)


def _check_names(options: Sequence[Option], argv: list[str], name: str) -> None:
    """Raise InputError for an unknown option, and for a list that is written with commas."""
    known, switches = {}, {"--help", "--help-all"}
    for path, option in _flat(options):
        known["--" + ".".join(path)] = option
        if option.kind is bool:
            switches.add("--" + ".".join((*path[:-1], f"no-{path[-1]}")))
    current = ""
    for word in argv:
        value = word
        if word.startswith("--"):
            typed, _, value = word.partition("=")
            current = typed.replace("_", "-")
            if current not in known and current not in switches:
                raise InputError(
                    f"unknown option {typed}{_meant(current, known)}; see `imitate {name} --help-all`"
                )
        kind = known[current].kind if current in known else None
        if get_origin(kind) is tuple and "," in value and "=" not in value:
            parts = " ".join(filter(None, re.split(r"[\s,]+", value.strip("()[]"))))
            raise InputError(f"{current} {value}: lists are written with spaces, so write {current} {parts}")


def _flat(options: Sequence[Option], above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Option]]:
    """Options with their names, also those of configs in configs: ("ppo", "batch-size")."""
    found = []
    for option in options:
        path = (*above, option.name.replace("_", "-"))
        if option.parts:
            found += _flat(option.parts, path)
        elif tyro.conf.Positional not in option.notes:
            found.append((path, option))
    return found


def _meant(typed: str, known: dict[str, Option]) -> str:
    """The option with these initials, as in --lr, or that begins with what was typed, or else the closest one."""
    near = [name for name in known if _initials(name) == typed] or [
        name for name in known if name.startswith(typed)
    ]
    return f"; did you mean {near[0]!r}?" if near and typed[2:] else did_you_mean(typed, known)


def _initials(name: str) -> str:
    """`--ppo.lr` of `--ppo.learning-rate`."""
    config, dot, last = name[2:].rpartition(".")
    return f"--{config}{dot}" + "".join(word[0] for word in last.split("-"))


_NUMBERS = ConstructorRegistry()
_MULTIPLES = {"k": 1_000, "m": 1_000_000}


@_NUMBERS.primitive_rule
def _whole_numbers(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    if info.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda args: _whole(args[0]),
        is_instance=lambda value: isinstance(value, int) and not isinstance(value, bool),
        str_from_instance=lambda value: [str(value)],
    )


def _whole(text: str) -> int:
    """20000, 20_000, 20k, 1.5M or 1e5."""
    unit = _MULTIPLES.get(text[-1:].lower(), 1)
    try:
        return int(text)
    except ValueError:
        with contextlib.suppress(ValueError):
            value = float(text if unit == 1 else text[:-1]) * unit
            if value.is_integer():
                return int(value)
    raise ValueError(f"not a whole number, such as 20000, 20k or 1e5: {text!r}")


_OR_NONE = re.compile(
    r"no type matching \S+ could be instantiated from .*? Got errors: - <class 'NoneType'>: .*? - "
    r"(?:<class '\w+'>|typing\.Annotated\[.*?\]): "
)
"""What tyro says of a value that may be absent, before it says what is wrong with the value."""


def _in_one_line(panel: str) -> str:
    """A panel of tyro's (box-drawing characters or ASCII) as one line, without its title, which the text repeats."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", panel)
    text = re.sub(r"(?m)^╭─ (.*?) ─*╮$", r"\1\n---", text)
    sections = re.split(r"(?m)^[│╰ ]*[─-]{3,}[│╯ ]*$", text)[1:]
    said = [" ".join(section.replace("│", " ").split()).rstrip(".") for section in sections]
    said = [section for section in said if section and not section.startswith("For full helptext")]
    line = "; ".join(said or [" ".join(text.split())]).replace("Argument helptext:", "wanted")
    return _OR_NONE.sub("", line).replace("{None}|", "")
