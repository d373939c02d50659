"""Formats numbers and lists for people."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence

__all__ = [
    "counted", "csv_text", "duration", "ends_words", "interval_words", "listed", "number", "p_words", "percent",
    "signed",
]  # fmt: skip


def listed(words: Sequence[str]) -> str:
    """The words as `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def counted(count: int, thing: str) -> str:
    """A count with its noun: `1 seed`, `2 seeds`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def number(value: float) -> str:
    """A number with about four digits, thousands separated, and a real minus sign; an exponent only from 1e15 on."""
    value += 0.0  # no negative zero
    size = abs(value)
    digits = 0 if size >= 1_000 or value == int(value) else 1 if size >= 10 else 2
    text = f"{value:.4g}" if size >= 1e15 else f"{value:,.{digits}f}"
    return text.replace("-", "−")


def signed(value: float) -> str:
    """A difference, with a plus sign if it is positive."""
    return ("+" if value > 0 else "") + number(value)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %".replace("-0 %", "0 %").replace("-", "−")


def interval_words(low: float, high: float, written: Callable[[float], str] = number) -> str:
    """An interval as `95 % interval 1.20 to 3`."""
    return f"95 % interval {written(low)} to {written(high)}"


def ends_words(low: float, high: float) -> str:
    """The ends of an interval as `1.20 to 3`; "one seed" if they are NaN."""
    return "one seed" if math.isnan(low) else f"{number(low)} to {number(high)}"


def p_words(p: float) -> str:
    """A p-value as `p = 0.03`; empty if it is NaN, since one seed allows no test."""
    return "" if math.isnan(p) else "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """The rows as CSV, with a newline after each whatever the system."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def duration(seconds: float) -> str:
    """Seconds in a suitable unit, such as minutes."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"
