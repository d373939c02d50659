"""Versions of environments: the `-v3` at the end of an id."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

__all__ = ["newest", "without_version"]


def newest(specs: Iterable[EnvSpec]) -> list[str]:
    """The id of the newest version of each environment, sorted."""
    ascending = sorted(specs, key=lambda spec: spec.version or 0)
    return sorted({without_version(spec.id): spec.id for spec in ascending}.values())


def without_version(name: str) -> str:
    return re.sub(r"-v\d+$", "", name)
