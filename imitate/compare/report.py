"""The report of a comparison: one self-contained HTML file, and its figures and numbers beside it."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from imitate.compare.figures import COLORS, DARK_COLORS, DASHES, band, draw_curves, draw_final, save_figure
from imitate.compare.learners import summary, title
from imitate.compare.machine import machine
from imitate.compare.results import COSTS, Entry, Outcome, read_outcome
from imitate.compare.statistics import ENOUGH_SEEDS, difference
from imitate.compare.tables import COLUMNS, SHOWN, as_csv, as_latex, as_markdown, rows, runs_csv
from imitate.compare.toml import as_toml
from imitate.compare.verdict import Answer, Pair, answer, pairs, typical_cost, warnings
from imitate.compare.words import listed, number, percent
from imitate.errors import InputError
from imitate.files import atomic, versions, write_json

__all__ = ["write_report"]

VIDEO_BYTES = 4_000_000  # of one embedded video at most: a report must open on a phone


def write_report(*folders: Path, out: Path | None = None) -> Path:
    """Write report.html, curves and final as .png and .pdf, table.md, table.tex, results.csv, comparison.toml and
    summary.json to `out` (the first of `folders` unless given), from what the jobs left in `folders`.

    The page needs nothing else: no network, no file beside it. Files of an earlier report are replaced.

    Raises InputError where a folder holds no comparison, where they do not fit together, or where no learner came to
    an end.
    """
    outcome = read_outcome(*folders)
    if not outcome.learners:
        reason = f": {outcome.failures[0]}" if outcome.failures else ""
        raise InputError(f"no learner of {folders[0]} came to an end, there is nothing to report{reason}")
    out = out or folders[0]
    out.mkdir(parents=True, exist_ok=True)
    save_figure(draw_curves, outcome, out / "curves")
    save_figure(draw_final, outcome, out / "final")
    table, found, said = rows(outcome), pairs(outcome), answer(outcome)
    write_json(out / "summary.json", _summary(outcome, said, found))
    page = out / "report.html"
    texts = {
        "results.csv": runs_csv(outcome),
        "table.md": as_markdown(table),
        "table.tex": as_latex(table),
        "comparison.toml": as_toml(outcome.comparison.to_json()),
        page.name: _html(outcome, said, found),
    }
    for name, text in texts.items():
        with atomic(out / name) as temporary:
            temporary.write_text(text, "utf-8")
    return page


def _summary(outcome: Outcome, said: Answer, found: Sequence[Pair]) -> dict[str, Any]:
    comparison, expert = outcome.comparison, outcome.references.expert
    return {
        "verdict": said.verdict,
        "sentence": said.sentence,
        "warnings": warnings(outcome),
        "env_id": comparison.env_id,
        "budget": comparison.budget,
        "seeds": comparison.seeds,
        "expert": None if expert is None else {"spec": expert.spec, "mean": expert.measured.mean},
        "random": {"mean": outcome.random_mean},
        "algorithms": {entry.algorithm: _facts(outcome, entry) for entry in outcome.learners},
        "pairs": [_plain(vars(pair)) for pair in found],
        "audit": {entry.algorithm: entry.mean for entry in outcome.controls},
        "failures": list(outcome.failures),
        "missing": list(outcome.missing),
        "comparison": comparison.to_json(),
    }


def _facts(outcome: Outcome, entry: Entry) -> dict[str, Any]:
    counts = ("expert_queries", "env_steps", "demo_steps", "cpu_seconds")
    costs, mean, low, high = band(entry, "steps")
    curve = {"budget_steps": costs, "mean_return": mean, "low": low, "high": high}
    areas = outcome.area(entry)
    return {
        "mean": entry.mean,
        "ci95": None if entry.ci95 is None else list(entry.ci95),
        "worst_tenth": entry.worst,
        "share_of_expert": outcome.share(entry.mean),
        "seeds": [result.seed for result in entry.results],
        "seed_means": [result.mean for result in entry.results],
        **{name: entry.average(name) for name in counts},
        **{
            f"{cost}_to_{round(100 * goal)}": outcome.to_reach(entry, goal, cost)
            for cost in COSTS
            for goal in (0.5, 0.9, 0.95)
        },
        "area": sum(areas) / len(areas) if areas else None,
        "notes": entry.results[0].notes,
        "curve": {name: _plain({"": [float(v) for v in column]})[""] for name, column in curve.items()},
    }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """NaN is no JSON."""

    def known(value: Any) -> Any:
        if isinstance(value, list):
            return [known(each) for each in value]
        return None if isinstance(value, float) and math.isnan(value) else value

    return {name: known(value) for name, value in values.items()}


def _html(outcome: Outcome, said: Answer, found: Sequence[Pair]) -> str:
    comparison, expert = outcome.comparison, outcome.references.expert
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"number": number, "percent": percent}
    template = environment.from_string(
        (resources.files("imitate.compare") / "report.html").read_text("utf-8")
    )
    table = rows(outcome)
    machines = sorted({" · ".join(r.machine.values()) for entry in outcome.learners for r in entry.results})
    return template.render(
        comparison=comparison,
        titles=listed([title(name) for name in comparison.algorithms]),
        answer=said,
        tiles=_tiles(outcome),
        warnings=warnings(outcome),
        outcome=outcome,
        expert=expert,
        chart=_chart(outcome),
        finals=_finals(outcome),
        rows=table,
        columns=COLUMNS,
        shown=len(SHOWN),
        copies={"CSV": as_csv(table), "Markdown": as_markdown(table), "LaTeX": as_latex(table)},
        matrix=_matrix(outcome, found),
        few=comparison.seeds < ENOUGH_SEEDS,
        films=_films(outcome),
        audit=_audit(outcome),
        settings=[_settings(outcome, entry) for entry in outcome.learners],
        toml=as_toml(comparison.to_json()),
        machines=machines,
        versions=outcome.learners[0].results[0].versions or versions(),
        here=machine(),
        colors=list(enumerate(zip(COLORS, DARK_COLORS, strict=True))),
        count=len(COLORS),
    )


def _tiles(outcome: Outcome) -> list[dict[str, str]]:
    """Steps to 95 %, answers to 95 %, and the best learner against the expert."""

    def cheapest(cost: Any, entries: list[Entry]) -> dict[str, str] | None:
        spent = {entry.title: typical_cost(outcome.to_reach(entry, 0.95, cost)) for entry in entries}
        there = {title: value for title, value in spent.items() if value is not None}
        if not there:
            return None
        title = min(there, key=lambda name: there[name])
        return {"value": number(round(there[title])), "who": title}

    learners = list(outcome.learners)
    imitators = [entry for entry in learners if entry.imitates]
    never = {"value": "not reached", "who": f"within {number(outcome.comparison.budget)} steps"}
    tiles = []
    if outcome.share(0.0) is not None:
        tiles.append({"title": "Steps to 95 % of the expert"} | (cheapest("steps", learners) or never))
        if imitators:
            tiles.append({"title": "Expert answers to 95 %"} | (cheapest("queries", imitators) or never))
    if outcome.references.expert is not None:
        best = outcome.ranked()[0]
        diff = difference(best.x, outcome.references.expert.measured.returns)
        value = ("+" if diff.mean > 0 else "") + number(diff.mean)
        known = len(best.results) > 1
        ends = f"{number(diff.low)} to {number(diff.high)}" if known else "one seed: no interval"
        tiles.append({"title": "Best minus expert, paired", "value": value, "who": f"{best.title}: {ends}"})
    return tiles


def _chart(outcome: Outcome) -> dict[str, Any]:
    """What the page's script draws: points (cost, mean, low, high) of each learner on each axis."""
    references = outcome.references
    learners = []
    for entry in outcome.learners:
        place = outcome.place(entry) % len(COLORS)
        lines = {
            cost: _plain({"": [[float(v) for v in point] for point in zip(*band(entry, cost), strict=True)]})[
                ""
            ]
            for cost in COSTS
            if cost != "queries" or entry.imitates
        }
        learners.append({"title": entry.title, "color": place, "dash": DASHES[place], "lines": lines})
    levels = [["random", sum(references.random.curve) / len(references.random.curve)]]
    if references.expert is not None:
        curve = references.expert.measured.curve
        levels.append(["expert", sum(curve) / len(curve)])
    return {"learners": learners, "levels": levels, "costs": dict(COSTS), "budget": outcome.comparison.budget}


def _finals(outcome: Outcome) -> dict[str, Any]:
    """Rows of dots, best first; positions in percent of the width."""
    ranked = outcome.ranked()
    values = [outcome.random_mean, *([] if outcome.expert_mean is None else [outcome.expert_mean])]
    values += [result.mean for entry in ranked for result in entry.results]
    low, high = min(values), max(values)
    span = (high - low) * 1.08 or 1.0
    start = low - 0.04 * span

    def at(value: float) -> float:
        return round(min(max(100 * (value - start) / span, 0.0), 100.0), 2)

    lines = []
    for entry in ranked:
        ends = entry.ci95
        lines.append(
            {
                "title": entry.title,
                "color": outcome.place(entry) % len(COLORS),
                "mean": at(entry.mean),
                "text": number(entry.mean),
                "ends": None if ends is None else (at(ends[0]), round(at(ends[1]) - at(ends[0]), 2)),
                "dots": [at(result.mean) for result in entry.results],
                "words": f"{entry.title}: mean {number(entry.mean)}, seeds "
                + listed([number(result.mean) for result in entry.results]),
            }
        )
    levels = [("random", at(outcome.random_mean), number(outcome.random_mean))]
    if outcome.expert_mean is not None:
        levels.append(("expert", at(outcome.expert_mean), number(outcome.expert_mean)))
    return {"rows": lines, "levels": levels}


def _matrix(outcome: Outcome, found: Sequence[Pair]) -> dict[str, Any]:
    """Row minus column: learners best first, then the expert as a column."""
    table = {(pair.a, pair.b): (pair, 1) for pair in found} | {(pair.b, pair.a): (pair, -1) for pair in found}
    ranked = outcome.ranked()
    across = [(entry.algorithm, entry.title) for entry in ranked]
    if outcome.references.expert is not None:
        across.append(("expert", "Expert"))
    lines = []
    for entry in ranked:
        cells: list[dict[str, str] | None] = []
        for name, _ in across:
            if name == entry.algorithm:
                cells.append(None)
                continue
            pair, sign = table[entry.algorithm, name]
            low, high = (pair.low, pair.high) if sign > 0 else (-pair.high, -pair.low)
            kind = ("better" if sign * pair.mean > 0 else "worse") if pair.certain else "open"
            chance = pair.improvement if sign > 0 else 1 - pair.improvement
            mean = sign * pair.mean
            cells.append(
                {
                    "kind": kind,
                    "mean": ("+" if mean > 0 else "") + number(mean),
                    "ends": "one seed" if math.isnan(low) else f"{number(low)} to {number(high)}",
                    "chance": percent(chance),
                    "p": ""
                    if math.isnan(pair.p)
                    else f"p {'< 0.001' if pair.p < 0.001 else f'= {pair.p:.2g}'}",
                }
            )
        lines.append({"title": entry.title, "color": outcome.place(entry) % len(COLORS), "cells": cells})
    return {"across": [title for _, title in across], "rows": lines}


def _films(outcome: Outcome) -> list[dict[str, Any]]:
    """The videos as data URLs: the expert's, then the learners', best first."""
    films = []
    about: dict[str, tuple[str, float | None, int | None]] = {"expert": ("Expert", outcome.expert_mean, None)}
    for entry in outcome.ranked():
        about[entry.algorithm.replace(":", "-")] = (
            entry.title,
            entry.mean,
            outcome.place(entry) % len(COLORS),
        )
    for name, (shown_as, mean, color) in about.items():
        path, shown = outcome.videos.get(name, (None, 0.0))
        if path is not None and path.is_file() and path.stat().st_size <= VIDEO_BYTES:
            poster = path.with_suffix(".jpg")
            films.append(
                {
                    "title": shown_as,
                    "shown": shown,
                    "mean": mean,
                    "color": color,
                    "url": _data_url(path, "video/mp4"),
                    "poster": _data_url(poster, "image/jpeg") if poster.is_file() else "",
                }
            )
    return films


def _data_url(path: Path, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def _audit(outcome: Outcome) -> list[dict[str, str]]:
    """GAIL's controls, each with its share of the way from random actions to the run that it controls."""
    found = []
    bases = {entry.algorithm: entry for entry in outcome.learners}
    for control in outcome.controls:
        base = bases.get(control.algorithm.partition(":")[0])
        gained = 0.0 if base is None else base.results[0].mean - outcome.random_mean
        share = "–" if gained <= 0 else percent((control.mean - outcome.random_mean) / gained)
        what = outcome.comparison.controls[control.algorithm]
        found.append({"title": control.title, "what": what, "mean": number(control.mean), "share": share})
    return found


def _settings(outcome: Outcome, entry: Entry) -> dict[str, Any]:
    first = entry.results[0]
    return {
        "title": entry.title,
        "color": outcome.place(entry) % len(COLORS),
        "summary": summary(entry.algorithm),
        "notes": first.notes,
        "text": json.dumps({**first.stepped, **first.hyperparameters}, indent=2),
    }
