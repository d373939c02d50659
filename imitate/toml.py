"""Plain data as TOML: comparisons, suites and settings of runs as files that people edit."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from imitate.errors import InputError, one_line
from imitate.files import plain_json, read_bytes

__all__ = ["as_toml", "read_toml"]


def as_toml(data: Mapping[str, Any]) -> str:
    """Plain data without None, which TOML does not have, and without empty tables of its own."""
    return tomli_w.dumps({name: _present(value) for name, value in data.items() if value not in (None, {})})


def _present(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _present(each) for name, each in value.items() if each is not None}
    return [_present(each) for each in value] if isinstance(value, list | tuple) else value


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file as plain data. Raises InputError if it isn't TOML, or holds a date."""
    text = read_bytes(path, 1 << 20)
    try:
        data: dict[str, Any] = plain_json(json.dumps(tomllib.loads(text.decode())))
    except TypeError as error:  # JSON has none
        raise InputError(f"{path} holds a date or a time: write it as text, in quotes") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no TOML: {one_line(error)}; correct it") from error
    return data
