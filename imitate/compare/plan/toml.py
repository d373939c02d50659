"""Plain data as TOML: a comparison as a file that `imitate compare` takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomli_w

__all__ = ["as_toml"]


def as_toml(data: Mapping[str, Any]) -> str:
    """Plain data without None, which TOML does not have, and without empty tables of its own."""
    return tomli_w.dumps({name: _present(value) for name, value in data.items() if value not in (None, {})})


def _present(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _present(each) for name, each in value.items() if each is not None}
    return [_present(each) for each in value] if isinstance(value, list | tuple) else value
