"""The points of a report's figures. The page's script, the files for papers and the CSV beside them all use these."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from imitate.compare.formatting import csv_text
from imitate.compare.plan.learners import title

__all__ = ["SCORE_AXIS", "Dots", "Line", "Lines", "Row", "as_csv", "axis_range", "rounded"]

SCORE_AXIS = "score: 0 is random actions, 1 the expert"


@dataclass(frozen=True)
class Line:
    """A learner's line: by axis, points (x, mean, low, high), where low and high are None for one seed. With `steps`,
    each value is kept until the next point."""

    name: str
    steps: bool
    points: Mapping[str, Sequence[tuple[float | None, ...]]]


@dataclass(frozen=True)
class Lines:
    """A panel of lines.

    axes     the quantities that x can show, by key
    limit    end of the first x axis
    heights  range of the y axis
    levels   names and heights of horizontal lines
    near     y range of the panel that is zoomed to the expert; None if there is nothing to see
    ends     True: names stand at the ends of the lines; False: they are in a list
    """

    title: str
    label: str
    lines: Sequence[Line]
    axes: Mapping[str, str]
    limit: float
    heights: tuple[float, float]
    levels: Sequence[tuple[str, float]] = ()
    near: tuple[float, float] | None = None
    ends: bool = True


@dataclass(frozen=True)
class Row:
    """A row of a panel: a learner, or a pair of learners.

    marks   named values: the mean, or the costs of GOALS
    bar     an interval, or the range between the marks
    dots    values of single runs
    beyond  the cost spent without reaching a goal
    """

    name: str
    title: str
    text: str
    marks: Sequence[tuple[str, float]]
    bar: tuple[float, float] | None = None
    dots: Sequence[float] = ()
    beyond: float | None = None


@dataclass(frozen=True)
class Dots:
    """A panel of rows on a common axis. `levels` are names and places of vertical lines, and `ends` the ends of the
    axis."""

    title: str
    label: str
    rows: Sequence[Row]
    ends: tuple[float, float]
    levels: Sequence[tuple[str, float]] = ()
    log: bool = False


def as_csv(charts: Iterable[Lines | Dots]) -> str:
    """Every point of a figure as CSV, with the ends of its interval; rows whose value is named `run` are runs."""
    lines: list[list[object]] = [["panel", "learner", "axis", "x", "what", "value", "low", "high"]]
    for chart in charts:
        lines += _csv_of_lines(chart) if isinstance(chart, Lines) else _csv_of_dots(chart)
    return csv_text(lines)


def _csv_of_lines(chart: Lines) -> Iterator[list[object]]:
    for line in chart.lines:
        for axis, points in line.points.items():
            for x, *values in points:
                yield [chart.title, title(line.name), chart.axes[axis], x, chart.label, *values]


def _csv_of_dots(chart: Dots) -> Iterator[list[object]]:
    for row in chart.rows:
        for what, value in row.marks:
            ends = row.bar if row.bar and what == "mean" else (None, None)
            yield [chart.title, row.title, chart.label, "", what, *map(rounded, (value, *ends))]
        for dot in row.dots:
            yield [chart.title, row.title, chart.label, "", "run", rounded(dot), "", ""]


def axis_range(values: Sequence[float], ends: Sequence[float]) -> tuple[float, float]:
    """The range of the values. The ends of intervals may extend it by half on either side, since an interval of two or
    three seeds would otherwise leave no room for the values."""
    low, high = min(values), max(values)
    span = high - low or 1.0
    return max(min([low, *ends]), low - span / 2), min(max([high, *ends]), high + span / 2)


def rounded(value: float | None) -> float | None:
    """The value with six digits, which are enough for any picture; None for NaN."""
    return None if value is None or math.isnan(value) else float(f"{value:.6g}")
