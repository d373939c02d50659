"""Writes the figures of a report as PDF and PNG, for papers and slides, and their points as CSV. The page draws its
own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from imitate.compare.formatting import number
from imitate.compare.plan.learners import title
from imitate.compare.report.charts import Dots, Line, Lines, Row, as_csv
from imitate.compare.report.colours import Look
from imitate.files import atomic

__all__ = ["balanced", "draw", "save_figure", "spread"]

INK, MUTED, GRID = "#1a1d21", "#5b636e", "#e3e6ea"
WIDTH = 7.2  # inches, a page's text
STYLE: dict[Any, Any] = {  # matplotlib types the keys by name
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "text.color": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "pdf.fonttype": 42,  # text stays text
}
GOAL_MARKS = " to ❘ 50 %  ○ 90 %  ● 95 %"
_GAP = 0.145  # inches between two names


def save_figure(
    folder: Path,
    name: str,
    charts: Sequence[Lines | Dots],
    styles: Mapping[str, Look],
    *,
    columns: int = 1,
    points: Sequence[Lines | Dots] | None = None,
) -> bytes:
    """Write name.pdf, .png (200 dots an inch, on white) and .csv to the folder; returns the PDF.

    `points` are the panels in the CSV, by default those that are drawn. Figures don't use pyplot, so there is no global
    state and no display is needed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        figure = draw(charts, styles, columns=columns)
        for kind, metadata in (("pdf", {"CreationDate": None}), ("png", {"Software": None})):
            with atomic(folder / f"{name}.{kind}") as file:
                figure.savefig(file, format=kind, dpi=200, facecolor="white", metadata=metadata)
    with atomic(folder / f"{name}.csv") as file:
        file.write_text(as_csv(charts if points is None else points), "utf-8")
    return (folder / f"{name}.pdf").read_bytes()


def draw(charts: Sequence[Lines | Dots], styles: Mapping[str, Look], *, columns: int = 1) -> Figure:
    """Draw the panels in rows of at most `columns`, all of them filled."""
    lines = balanced(len(charts), columns)
    heights = [max(_height(charts[n]) for n in line) for line in lines]
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    grid = figure.add_gridspec(len(lines), math.lcm(*map(len, lines)), height_ratios=heights)
    for row, line in enumerate(lines):
        span = grid.ncols // len(line)
        for column, n in enumerate(line):
            axes, chart = figure.add_subplot(grid[row, column * span : (column + 1) * span]), charts[n]
            if isinstance(chart, Lines):
                _draw_lines(chart, styles, axes, heights[row] - 0.75)
            else:
                _draw_dots(chart, styles, axes)
            above = isinstance(chart, Dots) and any(name for name, _ in chart.levels)
            axes.set_title(chart.title, color=INK, pad=15 if above else 6)
            if row < len(lines) - 1 and chart.label == charts[-1].label:
                axes.set_xlabel("")  # the label stands below the last row
    figure.get_layout_engine().execute(figure)  # type: ignore[union-attr]
    figure.set_layout_engine(None)  # one layout is enough for both files; "none" draws each file twice
    return figure


def balanced(count: int, columns: int) -> list[list[int]]:
    """Distribute panels over as few rows of at most `columns` as possible; rows differ by at most one panel."""
    return [part.tolist() for part in np.array_split(np.arange(count), max(1, -(-count // columns)))]


def _height(chart: Lines | Dots) -> float:
    if isinstance(chart, Dots):
        return 0.8 + 0.24 * max(len(chart.rows), 1)
    return max(2.5, 0.75 + _GAP * (len(chart.lines) + len(chart.levels)))


def _draw_lines(chart: Lines, styles: Mapping[str, Look], axes: Axes, inches: float) -> None:
    """Draw a panel of lines, with the names at the right, at the lines' ends."""
    axis, label = next(iter(chart.axes.items()))
    axes.set_ylim(chart.heights)
    axes.set_xlim(0, chart.limit)
    axes.grid(axis="y")
    low, high = chart.heights
    names: list[tuple[str, str, float, Line | None]] = []
    for name, value in chart.levels:
        if low <= value <= high:
            axes.axhline(value, color=MUTED, linestyle=_LEVELS[name], lw=1, zorder=1.5)
            names.append((f"{name} {number(value)}", MUTED, value, None))
    for line in chart.lines:
        look, points = styles[line.name], np.array(line.points[axis], float)
        x, mean, below, above = points.T
        if np.isfinite(points).all():
            step: Literal["post"] | None = "post" if line.steps else None
            axes.fill_between(x, below, above, color=look.light, alpha=0.13, lw=0, step=step)
        way = "steps-post" if line.steps else "default"
        axes.plot(x, mean, color=look.light, lw=1.4, linestyle=_linestyle(look), drawstyle=way)
        names.append((title(line.name), look.light, float(mean[-1]), line))
    _names(names, chart, styles, axes, inches)
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    axes.yaxis.set_major_formatter(FuncFormatter(_short))
    axes.set_xlabel(label)
    axes.set_ylabel(chart.label)


def _names(
    names: Sequence[tuple[str, str, float, Line | None]],
    chart: Lines,
    styles: Mapping[str, Look],
    axes: Axes,
    inches: float,
) -> None:
    low, high = chart.heights
    if chart.ends:
        ends = [min(max((value - low) / (high - low), 0.0), 1.0) for _, _, value, _ in names]
    else:
        ends = [0.97 - 1.2 * _GAP / inches * n for n in range(len(names))]
    places = spread(ends, 0.0, 1.0, _GAP / inches)
    for (text, color, value, line), end, place in zip(names, ends, places, strict=True):
        arrow = " ↑" if value > high else " ↓" if value < low and chart.ends else ""
        outside: dict[str, Any] = {"color": color, "transform": axes.transAxes, "clip_on": False}
        if not chart.ends and line is not None:
            axes.plot((1.02, 1.1), (place, place), lw=1.4, ls=_linestyle(styles[line.name]), **outside)
        elif abs(end - place) > 0.01:
            axes.plot((1.0, 1.035), (end, place), lw=0.6, **outside)
        left = 1.045 if chart.ends else 1.12
        axes.text(left, place, text + arrow, color=color, va="center", transform=axes.transAxes)


def spread(wanted: Sequence[float], low: float, high: float, gap: float) -> list[float]:
    """Heights as close to the wanted ones as the gap between neighbours allows."""
    order = sorted(range(len(wanted)), key=lambda n: wanted[n])
    found, last = list(wanted), low - gap
    for n in order:
        last = found[n] = max(wanted[n], last + gap)
    following = high + gap
    for n in reversed(order):
        following = found[n] = min(found[n], following - gap)
    return found


def _draw_dots(chart: Dots, styles: Mapping[str, Look], axes: Axes) -> None:
    """Draw a row for each learner: its runs as faint dots, its marks, and its bar."""
    count = len(chart.rows)
    if chart.log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
        axes.minorticks_off()
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    axes.grid(axis="x")
    above = axes.get_xaxis_transform()
    for name, value in chart.levels:
        axes.axvline(value, color=MUTED, linestyle=_LEVELS.get(name, "--"), lw=1, zorder=1)
        if name:
            text = f"{name} {number(value)}" if abs(value) > 1 else name
            axes.text(value, 1.02, text, color=MUTED, ha="center", va="bottom", size=7, transform=above)
    for place, row in enumerate(chart.rows):
        _draw_row(row, count - 1 - place, styles[row.name].light, axes)
    axes.set_yticks(range(count), [row.title for row in reversed(chart.rows)], color=INK)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(-0.65, count - 0.45)
    low, high = chart.ends
    margin = 0.0 if chart.log else 0.03 * (high - low or 1.0)
    axes.set_xlim(low - margin, high + margin)
    axes.set_xlabel(chart.label + (GOAL_MARKS if chart.log else ""))


def _draw_row(row: Row, y: int, color: str, axes: Axes) -> None:
    if row.dots:
        below = [y - 0.28] * len(row.dots)
        axes.plot(row.dots, below, "o", ms=3.2, color=color, alpha=0.4, mec="none", clip_on=False)
    if row.bar is not None:
        axes.plot(row.bar, (y, y), color=color, lw=2 if row.beyond is None else 0.8)
    if row.beyond is not None:
        axes.plot(row.beyond, y, ">", ms=4.5, color=color, clip_on=False)
    for name, value in row.marks:
        kind, size, face = _MARKS[name]
        axes.plot(value, y, kind, ms=size, color=color, mfc=face or color, mew=1.2, clip_on=False, zorder=3)
    axes.text(1.02, y, row.text, va="center", transform=axes.get_yaxis_transform())


def _short(value: float, _place: object = None) -> str:
    """A tick label such as 50k or 0.5, as on the page."""
    size = abs(value)
    unit, letter = (1e6, "M") if size >= 1e6 else (1e3, "k") if size >= 1e4 else (1.0, "")
    return f"{value / unit:g}{letter}".replace("-", "−")


_LEVELS = {"random": ":", "expert": "--"}
_MARKS = {"mean": ("o", 5.5, ""), "50 %": ("|", 7.0, ""), "90 %": ("o", 4.5, "white"), "95 %": ("o", 5.0, "")}


def _linestyle(look: Look) -> Any:
    """The dash in units of the line's width, as matplotlib wants it; SVG's dashes are in pixels."""
    return (0, tuple(float(length) / 2 for length in look.dash.split())) if look.dash else "-"
