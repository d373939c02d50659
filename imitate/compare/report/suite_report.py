"""Writes the report of a suite: the statistics over its environments, each one's answer and curves, and a report for
each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from imitate.compare.formatting import counted, ends_words, listed, number, percent
from imitate.compare.plan.learners import title
from imitate.compare.plan.suite import Suite
from imitate.compare.report import page_data
from imitate.compare.report.curves import curves, profiles, reach
from imitate.compare.report.estimates import frontier, scores
from imitate.compare.report.report import page_template, write_outcome, write_texts
from imitate.compare.report.results_table import TableRow, as_csv, as_markdown
from imitate.compare.report.suite_tables import suite_latex, suite_rows, suite_runs_csv
from imitate.compare.report.summary_json import answer_facts
from imitate.compare.statistics.aggregate import THRESHOLDS, Estimate, SuiteOutcome, read_suite
from imitate.compare.statistics.job_results import COSTS
from imitate.compare.statistics.suite_verdict import suite_answer, suite_warnings
from imitate.compare.statistics.verdict import GOAL, answer, typical_cost
from imitate.files import without_nan, write_json

__all__ = ["write_suite_report"]

COLUMNS = 3  # most columns of panels


def write_suite_report(*folders: str | Path, out: str | Path | None = None) -> Path:
    """Write report.html, summary.json, table.md, table.tex, results.csv, suite.toml and the figures as .pdf, .png and
    .csv to `out` (by default the first of `folders`), and every environment's report to its folder there.

    Raises InputError if a folder holds no suite, if they do not fit together, or if no learner finished.
    """
    paths = [Path(folder) for folder in folders]
    suite = read_suite(*paths)
    out = Path(out or paths[0])
    for label, outcome in suite.outcomes.items():
        write_outcome(outcome, out / label)
    columns, table = suite_rows(suite)
    write_json(out / "summary.json", _summary(suite))
    merged = Suite(suite.name, {label: outcome.comparison for label, outcome in suite.outcomes.items()})
    texts = {
        "results.csv": suite_runs_csv(suite),
        "table.md": as_markdown(table, columns),
        "table.tex": suite_latex(suite),
        "suite.toml": merged.to_toml(),
    }
    figures = _figures(suite, out / "figures")
    texts["report.html"] = _html(suite, columns, table, texts, figures)
    write_texts(out, texts)
    return out / "report.html"


def _summary(suite: SuiteOutcome) -> dict[str, Any]:
    return {
        **answer_facts(suite_answer(suite)),
        "warnings": suite_warnings(suite),
        "scored": list(suite.scored),
        "algorithms": {
            each.algorithm: {
                "iqm": _numbers(each.iqm),
                "mean": _numbers(each.mean),
                "optimality_gap": _numbers(each.gap),
                "scores": each.scores.tolist(),
                "profile": {
                    "scores": THRESHOLDS[: reach(suite)].tolist(),
                    "share": each.profile[: reach(suite), 0].tolist(),
                },
            }
            for each in suite.aggregates
        },
        "pairs": [
            {"a": lead.a, "b": lead.b, "iqm": _numbers(lead.iqm), "improvement": _numbers(lead.improvement)}
            | without_nan({"p": lead.p, "alone": lead.alone, "asked": lead.asked})
            for lead in suite.leads
        ],
        "environments": {
            label: answer_facts(answer(outcome)) | {"means": {e.algorithm: e.mean for e in outcome.learners}}
            for label, outcome in suite.outcomes.items()
        },
        "failures": suite.failures,
        "missing": [
            f"{label}: {each}" for label, outcome in suite.outcomes.items() for each in outcome.missing
        ],
    }


def _numbers(estimate: Estimate) -> dict[str, Any]:
    numbers: dict[str, Any] = without_nan(vars(estimate))
    return numbers


def _figures(suite: SuiteOutcome, folder: Path) -> dict[str, Any]:
    """The figures of the page by name, with their files in the folder."""
    order, found = suite.order, []
    if suite.aggregates:
        found.append(page_data.figure(folder, "scores", scores(suite), order))
        found.append(page_data.figure(folder, "profiles", [profiles(suite)], order))
    every = [curves(outcome, label) for label, outcome in suite.outcomes.items()]
    found.append(page_data.figure(folder, "curves", every, order, columns=COLUMNS))
    if costed := [label for label, outcome in suite.outcomes.items() if outcome.costed]:
        by = {cost: [frontier(suite.outcomes[label], cost, label) for label in costed] for cost in COSTS}
        shown = {str(cost): panels for cost, panels in by.items()}
        found.append(page_data.figure(folder, "cost", by["steps"], order, columns=COLUMNS, switched=shown))
    return {each["name"]: each for each in found}


def _html(
    suite: SuiteOutcome,
    columns: tuple[str, ...],
    table: list[TableRow],
    texts: Mapping[str, str],
    figures: Mapping[str, Any],
) -> str:
    """The page; `texts` are the files beside it, by name."""
    budgets = {outcome.comparison.budget for outcome in suite.outcomes.values()}
    return page_template("suite.html").render(
        name=suite.name,
        answer=suite_answer(suite),
        warnings=suite_warnings(suite),
        suite=suite,
        tiles=_tiles(suite),
        figures=figures,
        learners=page_data.learners(suite.order),
        costs=dict(COSTS),
        parts={
            label: {"answer": answer(outcome), "comparison": outcome.comparison}
            for label, outcome in suite.outcomes.items()
        },
        rows=table,
        columns=columns,
        shown=len(columns),
        copies={
            "CSV": as_csv(table, columns),
            "Markdown": texts["table.md"],
            "LaTeX": texts["table.tex"],
        },
        matrix=_matrix(suite),
        budgets=" to ".join(number(each) for each in sorted({min(budgets), max(budgets)})),
        titles=listed([title(name) for name in suite.order]),
        count=counted(len(suite.outcomes), "environment"),
        toml=texts["suite.toml"],
        machines=page_data.machines(suite.outcomes.values()),
        provenance=page_data.provenance(suite.outcomes),
    )


def _tiles(suite: SuiteOutcome) -> list[dict[str, str]]:
    """The tiles at the top: steps to 95 % of the expert, the best imitator and the best RL learner, and the probability
    that the better one improves on the other."""
    tiles = [] if (cheapest := _cheapest(suite)) is None else [cheapest]
    for kind, imitates in (("imitation", True), ("pure RL", False)):
        best = next((each for each in suite.aggregates if each.imitates == imitates), None)
        if best is not None:
            who = f"{best.title}: {ends_words(best.iqm.low, best.iqm.high)}"
            tiles.append({"title": f"Best by {kind}, IQM", "value": number(best.iqm.value), "who": who})
    # The best imitation learner compared with the best RL learner.
    pair = next((lead for lead in suite.leads if lead.asked), None)
    if pair is not None:
        who = f"a run of {title(pair.a)} over one of {title(pair.b)}"
        value = percent(pair.improvement.value)
        tiles.append({"title": "Probability of improvement", "value": value, "who": who})
    return tiles


def _cheapest(suite: SuiteOutcome) -> dict[str, str] | None:
    """The learner that reaches 95 % of the expert in most environments; among equals, the one with the fewest steps."""
    costed = [outcome for outcome in suite.outcomes.values() if outcome.costed]
    if not costed:
        return None
    spent: dict[str, list[float]] = {}
    for outcome in costed:
        for entry in outcome.learners:
            if steps := typical_cost(outcome.to_reach(entry, GOAL)):
                spent.setdefault(entry.algorithm, []).append(steps)
    name, environments = "Steps to 95 % of the expert", counted(len(costed), "environment")
    if not spent:
        return {"title": name, "value": "not reached", "who": f"in any of {environments}"}
    best = min(spent, key=lambda each: (-len(spent[each]), float(np.log(spent[each]).mean())))
    low, high = (number(round(end)) for end in (min(spent[best]), max(spent[best])))
    value = low if low == high else f"{low} to {high}"
    return {"title": name, "value": value, "who": f"{title(best)}, in {len(spent[best])} of {environments}"}


def _matrix(suite: SuiteOutcome) -> dict[str, Any]:
    """The matrix of pairs, row over column: difference of the IQM and probability of improvement."""
    titles = {each.algorithm: each.title for each in suite.aggregates}
    cells = {
        (lead.a, lead.b): page_data.matrix_cell(lead.iqm, lead.improvement.value, lead.p)
        for each in suite.leads
        for lead in (each, each.turned())
    }
    return page_data.matrix(titles, {name: suite.order.index(name) for name in titles}, cells)
