"""The report of a suite: what holds over its environments, each one's answer and curves, and a report of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from imitate.compare import views
from imitate.compare.aggregate import THRESHOLDS, Aggregate, Estimate, Lead, SuiteOutcome, leads, read_suite
from imitate.compare.collapse import mean_words
from imitate.compare.figures import COLORS, DARK_COLORS, DASHES, draw_grid, draw_profiles, save_drawing
from imitate.compare.learners import title
from imitate.compare.report import page_template, write_report, write_texts
from imitate.compare.results import COSTS
from imitate.compare.suite import Suite
from imitate.compare.suite_verdict import suite_answer, suite_warnings
from imitate.compare.summary import answer_facts, plain
from imitate.compare.tables import Cell, Row, as_csv, as_latex, as_markdown, runs_csv
from imitate.compare.verdict import Answer, answer
from imitate.compare.words import listed, number, percent
from imitate.files import write_json

__all__ = ["suite_rows", "write_suite_report"]


def write_suite_report(*folders: Path, out: Path | None = None) -> Path:
    """Write report.html, summary.json, table.md, table.tex, results.csv, suite.toml, profiles and curves as .png and
    .pdf to `out` (the first of `folders` unless given), and the report of every environment to its folder in it.

    Raises InputError where a folder holds no suite, where they do not fit together, or where nothing came to an end.
    """
    suite = read_suite(*folders)
    out = out or folders[0]
    out.mkdir(parents=True, exist_ok=True)
    for label in suite.outcomes:
        having = [folder / label for folder in folders if (folder / label / "runs.json").is_file()]
        write_report(*having, out=out / label)
    if suite.aggregates:
        save_drawing(lambda axes: draw_profiles(suite, axes[0]), out / "profiles")
    save_drawing(lambda axes: draw_grid(suite, axes), out / "curves", panels=len(suite.outcomes))
    said, found, columns, table = suite_answer(suite), leads(suite.aggregates), *suite_rows(suite)
    write_json(out / "summary.json", _summary(suite, said, found))
    merged = Suite(suite.name, {label: outcome.comparison for label, outcome in suite.outcomes.items()})
    texts = {
        "results.csv": _runs(suite),
        "table.md": as_markdown(table, columns),
        "table.tex": as_latex(table, columns),
        "suite.toml": merged.toml,
        "report.html": _html(suite, said, found, merged),
    }
    write_texts(out, texts)
    return out / "report.html"


def suite_rows(suite: SuiteOutcome) -> tuple[tuple[str, ...], list[Row]]:
    """Columns and rows: learners, best first, with their scores over all environments and the mean return in each."""
    columns = ("Learner", "IQM of scores", "95 % interval", "Optimality gap", *suite.outcomes)
    complete = {each.algorithm: each for each in suite.aggregates}
    table = []
    for name in [*complete, *suite.partly]:
        cells = dict.fromkeys(columns, Cell("–")) | {"Learner": Cell(title(name))}
        if name in complete:
            each = complete[name]
            cells["IQM of scores"] = Cell(number(each.iqm.value), each.iqm.value)
            cells["95 % interval"] = Cell(
                _range(each.iqm), None if math.isnan(each.iqm.low) else each.iqm.low
            )
            cells["Optimality gap"] = Cell(number(each.gap.value), each.gap.value)
        for label, outcome in suite.outcomes.items():
            for entry in outcome.learners:
                if entry.algorithm == name:
                    cells[label] = Cell(mean_words(outcome, entry), entry.mean)
        table.append(Row(title(name), suite.order.index(name), cells))
    for who in ("Expert", "Random actions"):
        cells = dict.fromkeys(columns, Cell("")) | {"Learner": Cell(who)}
        for label, outcome in suite.outcomes.items():
            mean = outcome.expert_mean if who == "Expert" else outcome.random_mean
            cells[label] = Cell("–") if mean is None else Cell(number(mean), mean)
        table.append(Row(who, None, cells))
    return columns, table


def _range(estimate: Estimate) -> str:
    return "one seed" if math.isnan(estimate.low) else f"{number(estimate.low)} to {number(estimate.high)}"


def _summary(suite: SuiteOutcome, said: Answer, found: Sequence[Lead]) -> dict[str, Any]:
    return {
        **answer_facts(said),
        "warnings": suite_warnings(suite),
        "scored": list(suite.scored),
        "algorithms": {
            each.algorithm: {
                "iqm": _numbers(each.iqm),
                "mean": _numbers(each.mean),
                "optimality_gap": _numbers(each.gap),
                "scores": each.scores.tolist(),
                "profile": {"scores": THRESHOLDS.tolist(), "share": each.profile[:, 0].tolist()},
            }
            for each in suite.aggregates
        },
        "pairs": [
            {"a": lead.a, "b": lead.b, "iqm": _numbers(lead.iqm), "improvement": _numbers(lead.improvement)}
            | plain({"p": lead.p, "alone": lead.alone, "asked": lead.asked})
            for lead in found
        ],
        "environments": {
            label: answer_facts(answer(outcome)) | {"means": {e.algorithm: e.mean for e in outcome.learners}}
            for label, outcome in suite.outcomes.items()
        },
        "failures": [
            f"{label}: {each}" for label, outcome in suite.outcomes.items() for each in outcome.failures
        ],
        "missing": [
            f"{label}: {each}" for label, outcome in suite.outcomes.items() for each in outcome.missing
        ],
    }


def _numbers(estimate: Estimate) -> dict[str, Any]:
    return plain(vars(estimate))


def _runs(suite: SuiteOutcome) -> str:
    """`results.csv` of every environment, one after another, with its name in front."""
    lines: list[str] = []
    for label, outcome in suite.outcomes.items():
        head, *rows = runs_csv(outcome).splitlines()
        lines = lines or [f"environment,{head}"]
        lines += [f"{label},{row}" for row in rows]
    return "\n".join(lines) + "\n"


def _html(suite: SuiteOutcome, said: Answer, found: Sequence[Lead], merged: Suite) -> str:
    columns, table = suite_rows(suite)
    budgets = {outcome.comparison.budget for outcome in suite.outcomes.values()}
    return page_template("suite.html").render(
        name=suite.name,
        answer=said,
        warnings=suite_warnings(suite),
        suite=suite,
        tiles=_tiles(suite, found),
        charts=[_profiles(suite), *(views.chart(each, suite.order) for each in suite.outcomes.values())],
        costs=dict(COSTS),
        learners=[
            {"title": title(name), "color": n % len(COLORS), "dash": DASHES[n % len(COLORS)]}
            for n, name in enumerate(suite.order)
        ],
        parts=[
            {"label": label, "answer": answer(outcome), "comparison": outcome.comparison}
            for label, outcome in suite.outcomes.items()
        ],
        rows=table,
        columns=columns,
        shown=len(columns),
        copies={
            "CSV": as_csv(table, columns),
            "Markdown": as_markdown(table, columns),
            "LaTeX": as_latex(table, columns),
        },
        matrix=_matrix(suite, found),
        budgets=" to ".join(number(each) for each in sorted({min(budgets), max(budgets)})),
        titles=listed([title(name) for name in suite.order]),
        toml=merged.toml,
        machines=sorted(
            {
                " · ".join(result.machine.values())
                for outcome in suite.outcomes.values()
                for entry in outcome.learners
                for result in entry.results
            }
        ),
        colors=list(enumerate(zip(COLORS, DARK_COLORS, strict=True))),
        count=len(COLORS),
    )


def _tiles(suite: SuiteOutcome, found: Sequence[Lead]) -> list[dict[str, str]]:
    """The best of both kinds, and how likely the best is better than the second."""
    tiles = []
    for kind, imitates in (("imitation", True), ("pure RL", False)):
        best = next((each for each in suite.aggregates if each.imitates == imitates), None)
        if best is not None:
            who = f"{best.title}: {_range(best.iqm)}"
            tiles.append({"title": f"Best by {kind}, IQM", "value": number(best.iqm.value), "who": who})
    pair = _best_pair(suite, found)
    if pair is not None:
        who = f"a run of {title(pair.a)} over one of {title(pair.b)}"
        value = percent(pair.improvement.value)
        tiles.append({"title": "Probability of improvement", "value": value, "who": who})
    return tiles


def _best_pair(suite: SuiteOutcome, found: Sequence[Lead]) -> Lead | None:
    """The best imitation learner and the best by RL."""
    kinds = {each.algorithm: each.imitates for each in suite.aggregates}
    return next((lead for lead in found if kinds[lead.a] != kinds[lead.b]), None)


def _profiles(suite: SuiteOutcome) -> dict[str, Any]:
    """As a chart of the page: share of runs above each score."""

    def line(each: Aggregate) -> list[list[float | None]]:
        points = np.column_stack([THRESHOLDS, each.profile]).tolist()
        return [[None if math.isnan(value) else round(value, 4) for value in point] for point in points]

    place = {name: n % len(COLORS) for n, name in enumerate(suite.order)}
    return {
        "label": "Performance profiles, share of runs above a score",
        "at": "at a score of",
        "learners": [
            {
                "title": each.title,
                "color": place[each.algorithm],
                "dash": DASHES[place[each.algorithm]],
                "lines": {"score": line(each)},
            }
            for each in suite.aggregates
        ],
        "levels": [],
        "costs": {"score": "score: 0 is random actions, 1 the expert"},
        "budget": float(THRESHOLDS[-1]),
    }


def _matrix(suite: SuiteOutcome, found: Sequence[Lead]) -> dict[str, Any]:
    """Row over column: difference of the IQM, probability of improvement."""
    table = {(lead.a, lead.b): (lead, 1) for lead in found} | {(lead.b, lead.a): (lead, -1) for lead in found}
    lines = []
    for row in suite.aggregates:
        cells: list[dict[str, str] | None] = []
        for column in suite.aggregates:
            if row is column:
                cells.append(None)
                continue
            lead, sign = table[row.algorithm, column.algorithm]
            gain = sign * lead.iqm.value
            low, high = sorted((sign * lead.iqm.low, sign * lead.iqm.high))
            chance = lead.improvement.value if sign > 0 else 1 - lead.improvement.value
            cells.append(
                {
                    "kind": ("better" if gain > 0 else "worse") if lead.certain else "open",
                    "mean": ("+" if gain > 0 else "") + number(gain),
                    "ends": _range(Estimate(gain, low, high)),
                    "chance": percent(chance),
                    "p": views.p_words(lead.p),
                }
            )
        color = suite.order.index(row.algorithm) % len(COLORS)
        lines.append({"title": row.title, "color": color, "cells": cells})
    return {"across": [each.title for each in suite.aggregates], "rows": lines}
