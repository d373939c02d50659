"""Writes a comparison as a TOML file that `imitate compare` takes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["as_toml"]


def as_toml(data: Mapping[str, Any]) -> str:
    """Plain data (numbers, strings, lists and tables) as TOML; None and empty tables are left out."""
    simple = {k: v for k, v in data.items() if v is not None and not isinstance(v, Mapping)}
    tables = {k: v for k, v in data.items() if isinstance(v, Mapping) and v}
    lines = [f"{_key(name)} = {_value(value)}" for name, value in simple.items()]
    lines += [f"{_key(name)} = {_value(value)}" for name, value in tables.items()]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(
            f"{_key(name)} = {_value(each)}" for name, each in value.items() if each is not None
        )
        return "{ " + inner + " }" if inner else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    # JSON writes strings, numbers and booleans as TOML does, except DEL and exponents without a point.
    return json.dumps(value, ensure_ascii=False)
