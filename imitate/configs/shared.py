"""Types, ranges and checks that several configs share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from imitate.errors import InputError

__all__ = [
    "LOG_STD_RANGE",
    "MOST_UPDATES",
    "Head",
    "Widths",
    "check_ema",
    "convert_fields",
    "plain",
]

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


def convert_fields(settings: Any, remedies: Mapping[str, str] = MappingProxyType({})) -> None:
    """Convert each field of a config, or of a run's settings, to the type of its annotation, as data for JSON.

    NumPy's numbers become Python's, lists tuples, paths text, and mappings, which presets and a run's config.json have,
    configs with the field's own defaults. Whole numbers may be written as 1e6.

    remedies  what else to say of a field of another type, by its name

    Raises InputError, naming the field, for other types.
    """
    hints = get_type_hints(type(settings))
    for each in fields(settings):
        given, hint = getattr(settings, each.name), hints[each.name]
        if isinstance(given, Mapping) and is_dataclass(hint) and each.default_factory is not MISSING:
            given = replace(each.default_factory(), **given)
        try:
            value = _converted(given if is_dataclass(given) else plain(given), hint)
            if isinstance(value, dict):
                json.dumps(value)
        except (msgspec.ValidationError, TypeError) as error:
            got = f"a {type(given).__name__}" if is_dataclass(given) or len(repr(given)) > 80 else repr(given)
            why = f" ({error})" if isinstance(error, TypeError) else ""
            remedy = remedies.get(each.name, "")
            raise InputError(f"{each.name} must be {_in_words(hint)}, got {got}{why}{remedy}") from error
        object.__setattr__(settings, each.name, value)


def _converted(value: Any, hint: Any) -> Any:
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError:
        if isinstance(value, float) and value.is_integer():
            return msgspec.convert(int(value), hint)
        raise


def plain(value: Any) -> Any:
    """The value with NumPy's numbers, paths and configs as the plain data that files hold, also within dicts and
    sequences."""
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return value.item() if getattr(value, "ndim", None) == 0 else value


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", NoneType: "None"}


def _in_words(hint: Any) -> str:
    """The values that a field of this annotation takes, such as "a number or None"."""
    *most, last = _choices(hint)
    return f"{', '.join(most)} or {last}" if most else last


def _choices(hint: Any) -> list[str]:
    if get_origin(hint) in (Union, UnionType):
        return [words for each in get_args(hint) for words in _choices(each)]
    if get_origin(hint) is Literal:
        return [repr(each) for each in get_args(hint)]
    if get_origin(hint) is tuple:
        return [f"a tuple of {_in_words(get_args(hint)[0]).removeprefix('a ')}s"]
    return [_WORDS.get(hint) or f"a {hint.__name__}"]
