"""Numbers and lists as people write them."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["duration", "listed", "number", "percent"]


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def number(value: float) -> str:
    """About four digits, thousands apart, a real minus sign; never an exponent."""
    value += 0.0  # no negative zero
    size = abs(value)
    digits = 0 if size >= 1_000 or value == int(value) else 1 if size >= 10 else 2
    return f"{value:,.{digits}f}".replace("-", "−")


def percent(share: float) -> str:
    return f"{100 * share:.0f} %".replace("-0 %", "0 %").replace("-", "−")


def duration(seconds: float) -> str:
    """In the unit that a person would use."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"
