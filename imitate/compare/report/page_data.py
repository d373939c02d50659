"""The content of a page's parts, as plain data for its template."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from imitate.compare.formatting import ends_words, listed, number, p_words, percent, signed
from imitate.compare.plan.comparison import Comparison, file_name, is_given
from imitate.compare.plan.learners import base, baseline, summary, title
from imitate.compare.report.charts import Dots, Lines, rounded
from imitate.compare.report.colours import looks
from imitate.compare.report.figures import balanced, save_figure
from imitate.compare.statistics.aggregate import Estimate
from imitate.compare.statistics.collapse import mean_words
from imitate.compare.statistics.entry import Entry
from imitate.compare.statistics.intervals import difference
from imitate.compare.statistics.job_results import Cost
from imitate.compare.statistics.outcome import Outcome
from imitate.compare.statistics.pairs import SIGNIFICANT
from imitate.compare.statistics.verdict import GOAL, typical_cost
from imitate.training.settings import chosen_on

__all__ = [
    "VIDEO_BYTES",
    "audit",
    "data_url",
    "figure",
    "films",
    "learners",
    "machines",
    "matrix",
    "matrix_cell",
    "pairs_matrix",
    "provenance",
    "settings",
    "tiles",
]

VIDEO_BYTES = 4_000_000  # most for one embedded video, since a report must open on a phone


def tiles(outcome: Outcome) -> list[dict[str, str]]:
    """The tiles at the top: steps, answers and CPU seconds to 95 % of the expert, and the best learner against the
    expert."""

    def cheapest(cost: Cost, entries: list[Entry]) -> dict[str, str] | None:
        spent = {entry.algorithm: typical_cost(outcome.to_reach(entry, GOAL, cost)) for entry in entries}
        there = {name: value for name, value in spent.items() if value is not None}
        if not there:
            return None
        best = min(there, key=lambda name: there[name])
        return {"value": number(there[best]), "who": title(best)}

    everybody = list(outcome.learners)
    imitators = [entry for entry in everybody if entry.imitates]
    never = {"value": "not reached", "who": f"within {number(outcome.comparison.budget)} steps"}
    tiles = []
    if outcome.costed:
        tiles.append({"title": "Steps to 95 % of the expert"} | (cheapest("steps", everybody) or never))
        if imitators:
            tiles.append({"title": "Expert answers to 95 %"} | (cheapest("queries", imitators) or never))
        tiles.append({"title": "CPU seconds to 95 %"} | (cheapest("cpu_seconds", everybody) or never))
    if outcome.references.expert is not None:
        best = outcome.ranked()[0]
        diff = difference(best.x, outcome.references.expert.measured.returns)
        known = len(best.results) > 1
        ends = ends_words(diff.low, diff.high) if known else "one seed: no interval"
        who = f"{best.title}: {ends}"
        tiles.append({"title": "Best minus expert, paired", "value": signed(diff.mean), "who": who})
    return tiles


def figure(
    folder: Path,
    name: str,
    charts: Sequence[Lines | Dots],
    order: Sequence[str],
    *,
    columns: int = 1,
    near: bool = False,
    switched: Mapping[str, Sequence[Dots]] | None = None,
) -> dict[str, Any]:
    """Write a figure's files to the folder; returns its panels for the page, with the PDF as a data URL.

    With `near`, a panel of lines is followed by one that is zoomed to the expert. `switched` holds the panels for each
    axis that a reader can choose on the page instead.
    """
    panels = [{"chart": n, "near": False, "title": chart.title} for n, chart in enumerate(charts)]
    drawn = list(charts)
    if near and isinstance(first := charts[0], Lines) and first.near is not None:
        panels = [
            panels[0] | {"title": "Whole range"},
            panels[0] | {"near": True, "title": "Near the expert"},
        ]
        drawn = [
            replace(first, title="Whole range"),
            replace(first, title="Near the expert", heights=first.near),
        ]
    by = switched or {"": [chart for chart in charts if isinstance(chart, Dots)]}
    points = [panel for every in by.values() for panel in every] or charts
    pdf = save_figure(folder, name, drawn, looks(order), columns=columns, points=points)
    return {
        "name": name,
        "rows": [[panels[n] for n in row] for row in balanced(len(panels), columns)],
        "charts": [
            _lines(chart, order)
            if isinstance(chart, Lines)
            else {"by": {axis: _dots(every[n], order) for axis, every in by.items() if every[n].rows}}
            for n, chart in enumerate(charts)
        ],
        "pdf": data_url(pdf, "application/pdf"),
    }


def learners(order: Sequence[str]) -> list[dict[str, Any]]:
    """The learners of a page, for its legend and its style sheet; the names of their colours follow from their
    places."""
    found = looks(order)
    return [
        {"name": name, "title": title(name), "color": n, **vars(found[name])} for n, name in enumerate(order)
    ]


def _lines(chart: Lines, order: Sequence[str]) -> dict[str, Any]:
    dashes = looks(order)
    lines = [
        {
            "name": line.name,
            "title": title(line.name),
            "color": order.index(line.name),
            "dash": dashes[line.name].dash,
            "steps": line.steps,
            "points": line.points,
        }
        for line in chart.lines
    ]
    return vars(chart) | {"lines": lines}


def _dots(chart: Dots, order: Sequence[str]) -> dict[str, Any]:
    rows = [
        vars(row) | {"color": order.index(row.name), "dots": [rounded(dot) for dot in row.dots]}
        for row in chart.rows
    ]
    return vars(chart) | {"rows": rows}


def pairs_matrix(outcome: Outcome) -> dict[str, Any]:
    """The differences of mean returns, row minus column: learners best first, then the expert as a column."""
    ranked = outcome.ranked()
    titles = {entry.algorithm: entry.title for entry in ranked}
    if outcome.references.expert is not None:
        titles["expert"] = "Expert"
    cells = {
        (pair.a, pair.b): matrix_cell(Estimate(pair.mean, pair.low, pair.high), pair.improvement, pair.p)
        for each in outcome.pairs
        for pair in (each, each.turned())
    }
    return matrix(titles, {entry.algorithm: outcome.place(entry) for entry in ranked}, cells)


def matrix(
    titles: Mapping[str, str], colors: Mapping[str, int], cells: Mapping[tuple[str, str], dict[str, str]]
) -> dict[str, Any]:
    """A matrix of pairs: a column for each of `titles`, a row for each of `colors`. The diagonal has no cells."""
    rows = [
        {"title": titles[name], "color": color, "cells": [cells.get((name, other)) for other in titles]}
        for name, color in colors.items()
    ]
    return {"across": [*titles.values()], "rows": rows}


def matrix_cell(gain: Estimate, chance: float, p: float) -> dict[str, str]:
    """The row's gain over the column, the probability that it improves on it, and the p-value of no difference."""
    return {
        "kind": ("better" if gain.value > 0 else "worse") if p < SIGNIFICANT else "open",
        "mean": signed(gain.value),
        "ends": ends_words(gain.low, gain.high),
        "chance": percent(chance),
        "p": p_words(p),
    }


def films(outcome: Outcome) -> list[dict[str, Any]]:
    """The videos as data URLs: the expert's first, then the learners', best first."""
    films = []
    expert = "" if outcome.expert_mean is None else number(outcome.expert_mean)
    about: dict[str, tuple[str, str, int | None]] = {"expert": ("Expert", expert, None)}
    for entry in outcome.ranked():
        about[file_name(entry.algorithm)] = entry.title, mean_words(outcome, entry), outcome.place(entry)
    for name, (shown_as, mean, color) in about.items():
        path, shown = outcome.videos.get(name, (None, 0.0))
        if path is not None and _is_small(path):
            poster = path.with_suffix(".jpg")
            films.append(
                {
                    "title": shown_as,
                    "shown": shown,
                    "mean": mean,
                    "color": color,
                    "url": data_url(path.read_bytes(), "video/mp4"),
                    "poster": data_url(poster.read_bytes(), "image/jpeg") if _is_small(poster) else "",
                }
            )
    return films


def _is_small(path: Path) -> bool:
    """True if it is a file that a page can hold."""
    return path.is_file() and path.stat().st_size <= VIDEO_BYTES


def data_url(data: bytes, kind: str) -> str:
    """The data as an URL that a page can hold."""
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def audit(outcome: Outcome) -> list[dict[str, str]]:
    """The controls, each with its share of the way from random actions to the runs of its seeds that it controls."""
    found = []
    bases = {entry.algorithm: entry.results for entry in outcome.learners}
    for control in outcome.controls:
        seeds = {result.seed for result in control.results}
        runs = [run for run in bases.get(control.algorithm.partition(":")[0], []) if run.seed in seeds]
        gained = float(np.mean([run.mean for run in runs])) - outcome.random_mean if runs else 0.0
        share = "–" if gained <= 0 else percent((control.mean - outcome.random_mean) / gained)
        what = outcome.comparison.controls[control.algorithm]
        found.append({"title": control.title, "what": what, "mean": number(control.mean), "share": share})
    return found


def settings(outcome: Outcome, entry: Entry) -> dict[str, Any]:
    first = entry.results[0]
    return {
        "title": entry.title,
        "color": outcome.place(entry),
        "summary": summary(entry.algorithm),
        "notes": first.notes,
        "text": json.dumps({**first.stepped, **first.hyperparameters}, indent=2),
    }


def machines(outcomes: Iterable[Outcome]) -> list[str]:
    """The machines on which the learners ran, each in one line."""
    runs = (run for outcome in outcomes for entry in outcome.learners for run in entry.results)
    return sorted({" · ".join(run.machine.values()) for run in runs})


def provenance(outcomes: Mapping[str, Outcome]) -> list[dict[str, Any]]:
    """The origin of each learner's numbers in each environment, as far as its runs have recorded it."""
    found = []
    for label, outcome in outcomes.items():
        for entry in outcome.learners:
            runs = entry.results
            commits = sorted({run.machine.get("commit", "unknown") for run in runs})
            seeds = sorted(run.seed for run in runs)
            found.append(
                {
                    "learner": entry.title,
                    "name": entry.algorithm,
                    "environment": label,
                    "commit": listed(commits),
                    "seeds": _spans(seeds),
                    "settings": listed(sorted({run.settings_from or "unknown" for run in runs})),
                    "chosen_on": _chosen_on(outcome.comparison, entry.algorithm, seeds),
                }
            )
    return found


def _chosen_on(comparison: Comparison, name: str, seeds: Sequence[int]) -> str:
    """A remark on the seeds on which a learner's settings were chosen, compared with the reported ones."""
    if baseline(name) or is_given(comparison, name):
        return "not known"
    chosen = chosen_on(base(name), comparison.env_id)
    same = sorted({*chosen} & {*seeds})
    if not chosen:
        return "no record"
    return f"these seeds: {_spans(same)}" if same else f"other seeds: {_spans(chosen)}"


def _spans(seeds: Sequence[int]) -> str:
    """The seeds as text, such as `0, 1 and 10 to 13`."""
    words: list[str] = []
    for span in np.split(seeds, np.flatnonzero(np.diff(seeds) != 1) + 1):
        words += map(str, span) if len(span) < 3 else [f"{span[0]} to {span[-1]}"]
    return listed(words)
