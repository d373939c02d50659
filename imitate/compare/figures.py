"""The figures of a report as PNG and PDF, for papers and slides; the page draws its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from imitate.compare.aggregate import THRESHOLDS, SuiteOutcome
from imitate.compare.outcome import Entry, Outcome
from imitate.compare.results import COSTS, Cost
from imitate.compare.statistics import interval
from imitate.compare.words import number
from imitate.envs.spaces import Array

__all__ = [
    *("COLORS", "DARK_COLORS", "DASHES", "band"),
    *("draw_curves", "draw_final", "draw_grid", "draw_profiles", "save_drawing", "save_figure"),
]

COLORS = (
    *("#0b63c5", "#c2500f", "#0a7a58", "#8446c4", "#5c6876"),
    *("#b3306f", "#7d6300", "#11707f", "#10105b", "#752c14"),
)
"""Colours of the learners, in their order. Colour-blind readers can tell apart those with the same dash too."""
DARK_COLORS = (
    *("#6cb0ff", "#ff9a5c", "#45d0a0", "#c49bfa", "#c3ccd6"),
    *("#f48ac0", "#dfc04a", "#55cadb", "#e9ecef", "#d98a6a"),
)
"""The same on a dark page."""
_SOLID, _DASHED, _DOTTED, _DASHDOT = "", "7 3", "2 2.5", "9 3 2 3"
DASHES = (
    *(_SOLID, _SOLID, _DASHED, _DASHED, _SOLID),
    *(_DOTTED, _DASHED, _DASHDOT, _DOTTED, _DASHDOT),
)
"""As SVG writes them: lengths of line and gap."""
INK, MUTED, GRID = "#1a1d21", "#5b636e", "#e3e6ea"

STYLE: dict[Any, Any] = {  # matplotlib types the keys by name
    "font.size": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "text.color": INK,
    "grid.color": GRID,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text
    "axes.formatter.useoffset": False,
}

Draw = Callable[[Outcome, Axes], None]


def band(entry: Entry, cost: Cost) -> tuple[Array, Array, Array, Array]:
    """A learning curve: cost, mean return, and the ends of its 95 % interval (NaN for one seed), (P,) each."""
    costs, returns = entry.curve(cost)
    ends = [interval(point) if len(entry.results) > 1 else (np.nan, np.nan) for point in returns]
    low, high = np.array(ends, float).T
    return costs, returns.mean((1, 2)), low, high


def draw_curves(outcome: Outcome, axes: Axes, order: Sequence[str] = ()) -> None:
    """Mean return over the seeds against environment steps, with 95 % intervals, expert and random.

    In a grid, `order` names the learners of all panels: colours go by it, and the common legend has no returns.
    """
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    references = outcome.references
    stated = not order
    _level(axes.axhline, "random", float(np.mean(references.random.curve)), ":", stated=stated)
    if references.expert is not None:
        level = float(np.mean(references.expert.measured.curve))
        _level(axes.axhline, "expert", level, "--", stated=stated)
    for entry in outcome.learners:
        place = (order.index(entry.algorithm) if order else outcome.place(entry)) % len(COLORS)
        costs, mean, low, high = band(entry, "steps")
        if np.isfinite(low).all():
            axes.fill_between(costs, low, high, color=COLORS[place], alpha=0.14, linewidth=0)
        axes.plot(costs, mean, label=entry.title, color=COLORS[place], lw=2, linestyle=_linestyle(place))
    axes.set_xlim(0, outcome.comparison.budget * 1.01)
    axes.xaxis.set_major_formatter(EngFormatter(sep="", places=None))
    axes.set_xlabel(COSTS["steps"])
    axes.set_ylabel("mean return")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)


def draw_final(outcome: Outcome, axes: Axes) -> None:
    """Final return: a dot a seed, the mean and its 95 % interval, best learner first."""
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    ranked = outcome.ranked()
    for row, entry in enumerate(reversed(ranked)):
        color = COLORS[outcome.place(entry) % len(COLORS)]
        if (ends := entry.ci95) is not None:
            axes.plot(ends, (row, row), color=color, lw=2)
        means = [result.mean for result in entry.results]
        axes.plot(means, [row] * len(means), "o", ms=6, color=color, alpha=0.55, mec="none")
        axes.plot(entry.mean, row, "|", ms=16, mew=2.5, color=INK)
    axes.set_yticks(range(len(ranked)), [entry.title for entry in reversed(ranked)])
    axes.set_ylim(-0.6, len(ranked) - 0.4)
    _level(axes.axvline, "random", outcome.random_mean, ":")
    if outcome.expert_mean is not None:
        _level(axes.axvline, "expert", outcome.expert_mean, "--")
    axes.set_xlabel("mean return of the test episodes")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2)


def draw_profiles(suite: SuiteOutcome, axes: Axes) -> None:
    """Share of runs above each score, with 95 % intervals."""
    axes.grid(axis="y")
    for each in suite.aggregates:
        place = suite.order.index(each.algorithm) % len(COLORS)
        share, low, high = each.profile.T
        if np.isfinite(low).all():
            axes.fill_between(THRESHOLDS, low, high, color=COLORS[place], alpha=0.14, linewidth=0)
        axes.plot(THRESHOLDS, share, label=each.title, color=COLORS[place], lw=2, linestyle=_linestyle(place))
    axes.set_xlabel("score: 0 is random actions, 1 the expert")
    axes.set_ylabel("share of runs above it")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)


def draw_grid(suite: SuiteOutcome, panels: Sequence[Axes]) -> None:
    """The curves of every environment, a panel each."""
    for axes, (label, outcome) in zip(panels, suite.outcomes.items(), strict=True):
        draw_curves(outcome, axes, suite.order)
        axes.get_legend().remove()  # type: ignore[union-attr]
        axes.set_title(label, fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    panels[0].figure.legend(handles, labels, loc="outside lower center", ncols=4)


def save_figure(draw: Draw, outcome: Outcome, path: Path) -> None:
    """A figure of one comparison."""
    height = 4.3 if draw is draw_curves else 1.3 + 0.42 * len(outcome.learners)
    save_drawing(lambda axes: draw(outcome, axes[0]), path, height=height)


def save_drawing(
    draw: Callable[[Sequence[Axes]], None], path: Path, *, panels: int = 1, height: float = 4.3
) -> None:
    """As PNG (200 dots an inch, on white) and as PDF beside it; panels stand in two columns.

    Not through pyplot: nothing global, no display.
    """
    with mpl.rc_context(STYLE):
        columns = min(panels, 2)
        lines = -(-panels // columns)
        figure = Figure(figsize=(8.6, height if panels == 1 else 2.8 * lines + 0.8), layout="constrained")
        every = list(np.ravel(figure.subplots(lines, columns, squeeze=False)))
        for empty in every[panels:]:
            empty.remove()
        draw(every[:panels])
        figure.savefig(path.with_suffix(".png"), dpi=200, facecolor="white", metadata={"Software": None})
        figure.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None})


def _level(line: Callable[..., object], name: str, value: float, style: str, *, stated: bool = True) -> None:
    label = f"{name} {number(value)}" if stated else name
    line(value, color=MUTED, linestyle=style, lw=1.4, zorder=1.5, label=label)


def _linestyle(place: int) -> Any:
    """In units of the line's width, where SVG's are pixels."""
    return (0, tuple(float(length) / 2 for length in DASHES[place].split())) if DASHES[place] else "-"
