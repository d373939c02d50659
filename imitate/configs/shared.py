"""Types, ranges and checks that several configs share."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from imitate.errors import InputError

__all__ = ["LOG_STD_RANGE", "MOST_UPDATES", "Head", "Widths", "check_ema", "check_types"]

Head = Literal["categorical", "squashed", "clipped"]
LOG_STD_RANGE = (-10.0, 2.0)
MOST_UPDATES = 10_000
"""Most gradient steps of a round, as a run only stops between iterations."""
Widths = Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(max_length=64)]
"""Widths of hidden layers, as a file may give them."""


def check_ema(decay: float) -> None:
    """Raise InputError unless the decay is in [0, 1)."""
    if not 0 <= decay < 1:
        raise InputError(f"ema must be in [0, 1), got {decay}: at 1 the policy that is kept never learns")


def check_types(config: Any) -> None:
    """Raise InputError, naming the field, unless each field of a config has the type of its annotation. NumPy's numbers
    become Python's, and lists become tuples."""
    hints = get_type_hints(type(config))
    for name in (field.name for field in fields(config)):
        value = given = getattr(config, name)
        if isinstance(given, Real) and not isinstance(given, bool):
            value = int(given) if isinstance(given, Integral) else float(given)
        try:
            object.__setattr__(config, name, msgspec.convert(value, hints[name]))
        except msgspec.ValidationError as error:
            *most, last = _choices(hints[name])
            wanted = f"{', '.join(most)} or {last}" if most else last
            got = type(given).__name__ if is_dataclass(given) else repr(given)
            raise InputError(f"{name} must be {wanted}, got {got}") from error


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", NoneType: "None"}


def _choices(hint: Any) -> list[str]:
    if get_origin(hint) in (Union, UnionType):
        return [words for each in get_args(hint) for words in _choices(each)]
    if get_origin(hint) is Literal:
        return [repr(each) for each in get_args(hint)]
    if get_origin(hint) is tuple:
        return ["a tuple of whole numbers"]
    return [_WORDS.get(hint) or f"a {hint.__name__}"]
