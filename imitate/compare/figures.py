"""The figures of a report: learning curves and final returns, as PNG and as SVG in the page's colours."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from imitate.compare.results import Entry, Outcome
from imitate.compare.sentences import number

__all__ = ["COLORS", "draw_bars", "draw_curves", "inline_svg", "save_png"]

COLORS = ("#0b63c5", "#c2500f", "#0a7a58", "#8446c4", "#b3306f", "#7d6300", "#11707f", "#5c6876")
"""Of the learners, in their order: told apart by colour-blind readers, at least 4.5 : 1 on white. The page
has a lighter one of each for a dark background."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
INK, MUTED, GRID = "#1a1d21", "#5b636e", "#e3e6ea"

WIDE, NARROW = (9.6, 4.3), (4.6, 3.9)
"""Inches. A figure is drawn for a phone too, where the wide one's text would be unreadable."""

STYLE: dict[Any, Any] = {  # matplotlib types the keys by name
    "font.size": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "ytick.left": False,
    "text.color": INK,
    "grid.color": GRID,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: sharp, selectable, in the page's font
    "axes.formatter.useoffset": False,
}

Draw = Callable[[Outcome, Axes], None]


def draw_curves(outcome: Outcome, axes: Axes) -> None:
    """Mean return over the seeds against environment steps, with 95 % intervals, expert and random."""
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    _levels(outcome, axes.axhline)
    for learner in outcome.learners:
        color, marker = _color(outcome, learner), MARKERS[outcome.place(learner) % len(MARKERS)]
        steps, mean, low, high = learner.curve()
        if len(steps) and np.isfinite(low).all():
            axes.fill_between(steps, low, high, color=color, alpha=0.16, linewidth=0)
        # The gid names the points in the SVG, where each gets a title.
        style: dict[str, Any] = {"color": color, "lw": 2, "marker": marker, "ms": 5, "mec": "none"}
        axes.plot(steps, mean, label=learner.title, gid=f"points-{learner.algorithm}", **style)
    axes.set_ylim(*_returns_range(outcome))
    axes.set_xlim(0, outcome.comparison.budget * 1.01)
    axes.xaxis.set_major_formatter(EngFormatter(sep="", places=None))
    narrow = _narrow(axes)
    axes.xaxis.set_major_locator(MaxNLocator(5 if narrow else 8, steps=[1, 2, 2.5, 5, 10]))
    axes.set_xlabel("environment steps, everything counted")
    axes.set_ylabel("" if narrow else "mean return")
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=3 if narrow else 8,
        borderaxespad=0.2,
        handlelength=1.6,
    )


def draw_bars(outcome: Outcome, axes: Axes) -> None:
    """Final mean return of each learner, a bar from random's level, with its 95 % interval and its seeds."""
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    rows = np.arange(len(outcome.learners))[::-1]
    start = outcome.random_mean
    for row, learner in zip(rows, outcome.learners, strict=True):
        color, (low, high) = _color(outcome, learner), learner.ci95
        axes.barh(row, learner.mean - start, left=start, height=0.52, color=color, alpha=0.85)
        axes.errorbar(
            learner.mean,
            row,
            xerr=[[learner.mean - low], [high - learner.mean]],
            color=INK,
            capsize=4,
            lw=1.5,
        )
        means = [result.mean for result in learner.results]
        axes.plot(means, [row + 0.37] * len(means), "o", ms=4.5, color=color, mec="none")
    axes.set_yticks(rows, [learner.title for learner in outcome.learners])
    axes.tick_params("y", labelcolor=INK)
    axes.set_ylim(-0.6, len(rows) - 0.25)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    _levels(outcome, axes.axvline)
    axes.set_xlabel("mean return of the test episodes")


def save_png(draw: Draw, outcome: Outcome, path: Path) -> None:
    """The wide figure, on white, 200 dots an inch."""
    with mpl.rc_context(STYLE):
        figure = _figure(draw, outcome, WIDE)
        figure.savefig(path, dpi=200, facecolor="white", format="png", metadata={"Software": None})


def inline_svg(
    draw: Draw, outcome: Outcome, prefix: str, label: str, titles: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Two <svg> elements, wide and narrow, of which the page's style shows one.

    label    what a screen reader says
    prefix   keeps ids apart where a page has several figures
    titles   of an algorithm's points: what they say when pointed at
    """
    sizes = (("wide", WIDE), ("narrow", NARROW))
    svgs = [_svg(draw, outcome, size, f"{prefix}-{kind}", titles or {}) for kind, size in sizes]
    heads = [f'<svg class="{kind}" role="img" aria-label="{html.escape(label)}"' for kind, _ in sizes]
    return "".join(svg.replace("<svg", head, 1) for head, svg in zip(heads, svgs, strict=True))


def _svg(
    draw: Draw, outcome: Outcome, size: tuple[float, float], prefix: str, titles: Mapping[str, Sequence[str]]
) -> str:
    text = io.StringIO()
    with mpl.rc_context(STYLE | {"svg.hashsalt": prefix}):
        figure = _figure(draw, outcome, size)
        figure.patch.set_visible(False)
        figure.axes[0].patch.set_visible(False)
        figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)  # as wide as the page has room
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    for algorithm, words in titles.items():
        svg = _titled(svg, f"points-{algorithm}", words)
    svg = re.sub(r'\b(id="|xlink:href="#|url\(#)', rf"\1{prefix}-", svg)
    svg = re.sub(r"(font(?:-family)?: [^;\"]*?)'DejaVu Sans'[^;\"]*", r"\1var(--font)", svg)
    names = {color: f"c{index}" for index, color in enumerate(COLORS)} | {
        INK: "ink",
        MUTED: "muted",
        GRID: "grid",
    }
    for color, name in names.items():
        svg = svg.replace(color, f"var(--{name})")
    return svg


def _titled(svg: str, name: str, words: Sequence[str]) -> str:
    """With a <title> in each of the markers of the line `name`."""
    before, line, after = svg.partition(f'id="{name}"')
    for word in words:
        between, _, after = after.partition("<use ")
        marker, _, after = after.partition("/>")
        line += f"{between}<use {marker}><title>{html.escape(word)}</title></use>"
    return before + line + after


def _figure(draw: Draw, outcome: Outcome, size: tuple[float, float]) -> Figure:
    """Not through pyplot: nothing global, no display."""
    if draw is draw_bars:
        size = (size[0], 1.1 + 0.62 * len(outcome.learners))
    figure = Figure(figsize=size, layout="constrained")
    draw(outcome, figure.subplots())
    return figure


def _levels(outcome: Outcome, line: Callable[..., object]) -> None:
    """The expert's and random's mean return, as lines named at their ends."""
    axes: Axes = line.__self__  # type: ignore[attr-defined]
    horizontal, narrow = line.__name__ == "axhline", _narrow(axes)
    for name, value, style in (("expert", outcome.expert_mean, "--"), ("random", outcome.random_mean, ":")):
        if value is None:
            continue
        line(value, color=MUTED, linestyle=style, lw=1.4, zorder=1.5)
        place: dict[str, Any]
        if not horizontal:
            place = {
                "xy": (value, 1),
                "xycoords": axes.get_xaxis_transform(),
                "xytext": (0, 2),
                "ha": "center",
            }
        elif narrow:  # on the line: beside the plot it would take a quarter of its width
            place = {"xy": (0, value), "xycoords": axes.get_yaxis_transform(), "xytext": (3, 3)}
        else:
            place = {
                "xy": (1, value),
                "xycoords": axes.get_yaxis_transform(),
                "xytext": (4, 0),
                "va": "center",
            }
        text = f"{name} {number(value)}"
        axes.annotate(
            text, textcoords="offset points", color=MUTED, fontsize=9, annotation_clip=False, **place
        )


def _returns_range(outcome: Outcome) -> tuple[float, float]:
    """Limits that hold the levels and every mean; not all of the wide intervals of few seeds."""
    values = [outcome.random_mean, *([] if outcome.expert_mean is None else [outcome.expert_mean])]
    for learner in outcome.learners:
        values += [*learner.curve()[1], learner.mean]
    low, high = min(values), max(values)
    margin = 0.08 * (high - low or 1.0)
    return low - margin, high + margin


def _narrow(axes: Axes) -> bool:
    figure = axes.get_figure(root=True)
    return figure is not None and bool(figure.get_size_inches()[0] < WIDE[0])


def _color(outcome: Outcome, learner: Entry) -> str:
    return COLORS[outcome.place(learner) % len(COLORS)]
