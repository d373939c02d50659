"""The options of a command: their names, types, defaults and texts, found in a function or a dataclass."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import tyro
from tyro.constructors import PrimitiveConstructorSpec

from imitate.errors import LARGEST
from imitate.terminal import printable

__all__ = ["Offers", "Option", "Rare", "as_dataclass", "options_of", "options_of_config"]


class Rare:
    """Marks an option, as in `Annotated[int, Rare]`, that only `--help-all` shows."""


@dataclasses.dataclass(frozen=True)
class Offers:
    """Marks an option, as in `Annotated[str, Offers(names)]`, with the words that a shell may complete."""

    words: Callable[[], Iterable[str]]


_METAVARS = {
    "env": "ENV", "expert": "EXPERT", "spec": "EXPERT", "intervene": "EXPERT", "subject": "RUN|EXPERT",
    "run_folder": "RUN", "resume": "RUN", "init": "RUN", "reward": "RUN",
    "demos": "FILE", "file": "FILE", "files": "FILE", "vecnormalize": "FILE",
    "folders": "FOLDER", "watch": "FOLDER", "algorithms": "ALGO", "add": "ALGO", "algo": "ALGO",
    "source": "DATA", "out": "PATH",
}  # fmt: skip
"""Of texts and paths, by the name of the option."""
_TEXTS = {
    "env_kwargs": "keyword arguments of the environment, as a JSON object",
    "vecnormalize": "for a zip: file of normalisation statistics, or none; by default the one in the same folder",
    "address": "of the Ray cluster, HOST:PORT; by default the one that runs here, else one of this machine alone",
    "json": "print JSON",
}
"""Of options that many commands have, by their names, where the command itself says nothing."""
_KINDS = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH", bool: "{True,False}"}
_UNSAID = ("None", "False", "", "''", "'{}'")
"""Defaults that say nothing: the text of the option says what its absence means."""
_LONG = re.compile(r"\d+\.\d{7,}")  # 2 / 3, written out


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a command.

    hint    its type, `Annotated` and all
    parts   options of a config within the config; its own type and default are not used
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
    def bare(self) -> Any:
        """Its type without notes."""
        return get_args(self.hint)[0] if self.notes else self.hint

    @property
    def optional(self) -> bool:
        """True if its value may be None."""
        return get_origin(self.bare) in (Union, UnionType) and NoneType in get_args(self.bare)

    @property
    def kind(self) -> Any:
        """Its type without notes and None."""
        kinds = get_args(self.bare) if self.optional else (self.bare,)
        return Union[tuple(kind for kind in kinds if kind is not NoneType)]  # noqa: UP007

    @property
    def several(self) -> bool:
        """True if it is a list of values."""
        return get_origin(self.kind) in (tuple, list)

    @property
    def one(self) -> Any:
        """The type of a single value."""
        return get_args(self.kind)[0] if self.several else self.kind

    @property
    def positional(self) -> bool:
        return tyro.conf.Positional in self.notes

    @property
    def switch(self) -> bool:
        """True if it is set by its name alone."""
        return self.bare is bool and self.default is not tyro.MISSING

    @property
    def repeated(self) -> bool:
        """True if it is typed once for each of its values."""
        return tyro.conf.UseAppendAction in self.notes

    @property
    def greedy(self) -> bool:
        """True if its value is all words that follow, of which there may be none."""
        return self.several and not self.repeated

    @property
    def choices(self) -> dict[str, Any]:
        """The words that may be typed, with their values; empty if any word may."""
        few = (True, False) if self.one is bool else ()
        return {str(each): each for each in (get_args(self.one) if get_origin(self.one) is Literal else few)}

    @property
    def metavar(self) -> str | None:
        """None leaves it to tyro."""
        if self.switch:
            return None
        if self.one in (str, Path) and self.name in _METAVARS:
            found = _METAVARS[self.name]
        elif self._constructor:
            found = self._constructor.metavar
        elif self.one in _KINDS:
            found = _KINDS[self.one]
        elif self.choices:
            found = "{" + ",".join(self.choices) + "}"
        else:
            return None
        found += " ..." if self.greedy else ""
        return f"[{found}]" if self.positional and self.default is not tyro.MISSING else found

    @property
    def _constructor(self) -> PrimitiveConstructorSpec[Any] | None:
        """The reader of its values, if the type brings one."""
        notes = (*self.notes, *getattr(self.one, "__metadata__", ()))
        return next((note for note in notes if isinstance(note, PrimitiveConstructorSpec)), None)

    def value(self, word: str) -> Any:
        """The value of a word. Raises KeyError if it is none of the choices, else ValueError or ValidationError."""
        if self._constructor:
            return self._constructor.instance_from_str([word])
        if self.choices:
            return self.choices[word]
        if self.one is int:
            return _whole(word)
        if not word and (self.one is Path or self.name in _METAVARS):
            raise ValueError("an empty name; is a variable of your shell unset?")
        if self.one in (float, str, Path):
            return self.one(word)
        return msgspec.convert(word, self.one, strict=False)

    def field(self) -> tuple[str, Any, Any]:
        """For `make_dataclass`."""
        if self.parts:
            kind = as_dataclass(self.name, self.parts)
            return self.name, kind, dataclasses.field(default_factory=kind)
        shown = tyro.conf.arg(
            help=self.text.rstrip("."),
            metavar=self.metavar,
            help_behavior_hint=lambda label: (
                "" if label in _UNSAID else f"(default: {printable(_LONG.sub(_short, label))})"
            ),
        )
        # What is said where it is declared comes last and counts.
        hint: Any = Annotated[(self.bare, shown, *self.notes)]
        if self.default is tyro.MISSING:
            return self.name, hint, dataclasses.field()
        return self.name, hint, dataclasses.field(default_factory=lambda: self.default)


def _short(number: re.Match[str]) -> str:
    return f"{float(number[0]):.3g}"


def options_of(command: Callable[..., Any]) -> list[Option]:
    """The options of a function: its parameters, described under `Args:` in its docstring or by `_TEXTS`."""
    described = (inspect.getdoc(command) or "").partition("\nArgs:\n")[2]
    lines = re.sub(r"\n {8,}", " ", described).splitlines()
    texts = _TEXTS | dict(line.strip().split(": ", 1) for line in lines if ": " in line)
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


def as_dataclass(name: str, options: Sequence[Option]) -> type[Any]:
    """For tyro, which draws its help."""
    # Keywords only, since those without a default may follow others.
    return dataclasses.make_dataclass(name, [option.field() for option in options], kw_only=True)


_EXPONENTS = {"k": "e3", "m": "e6"}


def _whole(text: str) -> int:
    """The number in 20000, 20_000, 20k, 1.5M or 1e5."""
    exponent = _EXPONENTS.get(text[-1:].lower())
    number = None
    try:
        number = int(text)
    except ValueError:
        with contextlib.suppress(ValueError):
            # Not 1.001 * 1e6, which is 1000999.9999999999.
            value = float(text[:-1] + exponent if exponent else text)
            number = int(value) if value.is_integer() else None
    if number is None:
        raise ValueError(f"not a whole number, such as 20000, 20k or 1e5: {text!r}")
    if abs(number) > LARGEST:
        raise ValueError(f"above {LARGEST}: {text}")
    return number
