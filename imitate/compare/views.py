"""What the parts of a page show, as plain data for its template."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imitate.compare.collapse import mean_words
from imitate.compare.figures import COLORS, DASHES, band
from imitate.compare.learners import summary
from imitate.compare.outcome import Entry, Outcome
from imitate.compare.results import COSTS
from imitate.compare.statistics import difference
from imitate.compare.summary import plain
from imitate.compare.verdict import Pair, typical_cost
from imitate.compare.words import listed, number, p_words, percent

__all__ = ["audit", "chart", "films", "finals", "matrix", "p_words", "settings", "tiles"]

VIDEO_BYTES = 4_000_000  # of one embedded video at most: a report must open on a phone


def tiles(outcome: Outcome) -> list[dict[str, str]]:
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


def chart(outcome: Outcome, order: Sequence[str] = ()) -> dict[str, Any]:
    """What the page's script draws: points (cost, mean, low, high) of each learner on each axis. Colours go by the
    `order` of all learners on the page, the comparison's by default."""
    references = outcome.references
    learners = []
    for entry in outcome.learners:
        place = (order.index(entry.algorithm) if order else outcome.place(entry)) % len(COLORS)
        lines = {
            cost: plain({"": [[float(v) for v in point] for point in zip(*band(entry, cost), strict=True)]})[
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
    return {
        "label": "Learning curves, mean return",
        "at": "after",
        "learners": learners,
        "levels": levels,
        "costs": dict(COSTS),
        "budget": outcome.comparison.budget,
    }


def finals(outcome: Outcome) -> dict[str, Any]:
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
                "text": mean_words(outcome, entry),
                "ends": None if ends is None else (at(ends[0]), round(at(ends[1]) - at(ends[0]), 2)),
                "dots": [at(result.mean) for result in entry.results],
                "words": f"{entry.title}: mean {mean_words(outcome, entry)}, seeds "
                + listed([number(result.mean) for result in entry.results]),
            }
        )
    levels = [("random", at(outcome.random_mean), number(outcome.random_mean))]
    if outcome.expert_mean is not None:
        levels.append(("expert", at(outcome.expert_mean), number(outcome.expert_mean)))
    return {"rows": lines, "levels": levels}


def matrix(outcome: Outcome, found: Sequence[Pair]) -> dict[str, Any]:
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
                    "p": p_words(pair.p),
                }
            )
        lines.append({"title": entry.title, "color": outcome.place(entry) % len(COLORS), "cells": cells})
    return {"across": [title for _, title in across], "rows": lines}


def films(outcome: Outcome) -> list[dict[str, Any]]:
    """The videos as data URLs: the expert's, then the learners', best first."""
    films = []
    expert = "" if outcome.expert_mean is None else number(outcome.expert_mean)
    about: dict[str, tuple[str, str, int | None]] = {"expert": ("Expert", expert, None)}
    for entry in outcome.ranked():
        about[entry.algorithm.replace(":", "-")] = (
            entry.title,
            mean_words(outcome, entry),
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


def audit(outcome: Outcome) -> list[dict[str, str]]:
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


def settings(outcome: Outcome, entry: Entry) -> dict[str, Any]:
    first = entry.results[0]
    return {
        "title": entry.title,
        "color": outcome.place(entry) % len(COLORS),
        "summary": summary(entry.algorithm),
        "notes": first.notes,
        "text": json.dumps({**first.stepped, **first.hyperparameters}, indent=2),
    }
