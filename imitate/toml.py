"""Plain data as TOML: comparisons, suites and settings of runs as files that people edit."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from imitate.errors import InputError, one_line
from imitate.files import plain_json, read_bytes

__all__ = ["as_toml", "read_toml"]


def as_toml(data: Mapping[str, Any]) -> str:
    """Plain data without empty tables of its own. Raises InputError if a value is None, or has a None in it."""
    if name := next(_nulls(data), None):
        raise InputError(f"{name} is null, which TOML does not have: leave it out, or give another value")
    return tomli_w.dumps({name: value for name, value in data.items() if value != {}})


def _nulls(values: Any, prefix: str = "") -> Iterator[str]:
    """The names of the values that are None, in tables and lists too, such as `env_kwargs.map_name`."""
    for name, value in values.items() if isinstance(values, Mapping) else enumerate(values):
        if value is None:
            yield f"{prefix}{name}"
        elif isinstance(value, Mapping | list | tuple):
            yield from _nulls(value, f"{prefix}{name}.")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file as plain data. Raises InputError if it isn't TOML, or holds a date."""
    text = read_bytes(path, 1 << 20)
    try:
        data: dict[str, Any] = plain_json(json.dumps(tomllib.loads(text.decode("utf-8-sig"))))
    except TypeError as error:  # JSON has none
        raise InputError(f"{path} holds a date or a time: write it as text, in quotes") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no TOML: {one_line(error)}; correct it") from error
    return data
