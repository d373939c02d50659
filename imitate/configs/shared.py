"""Types, ranges and checks that several configs share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from imitate.errors import InputError

__all__ = ["LOG_STD_RANGE", "MOST_UPDATES", "Head", "Widths", "as_tuples", "check_ema"]

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


def as_tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A config's fields read from TOML or JSON, with lists turned back into tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
