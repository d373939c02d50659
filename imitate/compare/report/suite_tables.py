"""The table of a suite, shared by the page, Markdown, LaTeX and CSV, and its runs as CSV."""

from __future__ import annotations

import math

from imitate.compare.formatting import counted, ends_words
from imitate.compare.plan.learners import title
from imitate.compare.report.results_table import (
    BOLD,
    INTERVALS,
    Cell,
    TableRow,
    as_latex,
    certain_best,
    number_cell,
    runs_csv,
    without_failed,
)
from imitate.compare.statistics.aggregate import SuiteOutcome
from imitate.compare.statistics.collapse import mean_words

__all__ = ["suite_latex", "suite_rows", "suite_runs_csv"]


def suite_rows(suite: SuiteOutcome) -> tuple[tuple[str, ...], list[TableRow]]:
    """Columns and rows: learners, best first, with their scores over all environments and the mean return in each."""
    columns = ("Learner", "IQM of scores", "95 % interval", "Optimality gap", *suite.outcomes)
    complete = {each.algorithm: each for each in suite.aggregates}
    table = []
    for name in [*complete, *suite.partly]:
        cells = dict.fromkeys(columns, Cell("–")) | {"Learner": Cell(title(name))}
        if name in complete:
            iqm, gap = complete[name].iqm, complete[name].gap
            low = None if math.isnan(iqm.low) else iqm.low
            cells["IQM of scores"] = number_cell(iqm.value)
            cells["95 % interval"] = Cell(ends_words(iqm.low, iqm.high), low)
            cells["Optimality gap"] = number_cell(gap.value, (gap.low, gap.high))
        for label, outcome in suite.outcomes.items():
            for entry in outcome.learners:
                if entry.algorithm == name:
                    cells[label] = Cell(mean_words(outcome, entry), entry.mean, entry.ci95)
        table.append(TableRow(name, suite.order.index(name), cells))
    for who in ("Expert", "Random actions"):
        cells = dict.fromkeys(columns, Cell("")) | {"Learner": Cell(who)}
        for label, outcome in suite.outcomes.items():
            mean = outcome.expert_mean if who == "Expert" else outcome.random_mean
            cells[label] = Cell("–") if mean is None else number_cell(mean)
        table.append(TableRow(who, None, cells))
    return columns, table


def suite_latex(suite: SuiteOutcome) -> str:
    """The table of a suite in LaTeX, for a paper."""
    columns, table = suite_rows(suite)
    outcomes, aggregates = suite.outcomes, suite.aggregates
    budgets = sorted({outcome.comparison.budget for outcome in outcomes.values()})
    bold = set()
    if len(aggregates) > 1:
        best = aggregates[0].algorithm
        certain = all(lead.certain for lead in suite.leads if best in (lead.a, lead.b))
        if certain and not suite.lacking and not suite.failed(best):  # as `certain_best`
            bold.add((best, "IQM of scores"))
    for label, outcome in outcomes.items():
        if (winner := certain_best(outcome)) is not None:
            bold.add((winner.algorithm, label))
    shown = (
        f"Scores, where random actions are 0 and the expert is 1, over {counted(len(suite.scored), 'environment')} "
        f"and {counted(suite.seeds, 'seed')}, and the mean return in each"
        if suite.scored
        else f"Mean return over {counted(suite.seeds, 'seed')}"
    )
    steps = " to ".join(f"{each:,}" for each in budgets)
    without = without_failed(
        {name: sum(outcome.failed(name) for outcome in outcomes.values()) for name in suite.order}
    )
    caption = f"{shown}, after {steps} environment steps{without}. {INTERVALS} {BOLD}"
    return as_latex(table, columns, caption=caption, label=suite.name, bold=bold)


def suite_runs_csv(suite: SuiteOutcome) -> str:
    """The runs of all environments as CSV, each with its environment's name."""
    lines: list[str] = []
    for label, outcome in suite.outcomes.items():
        head, *rows = runs_csv(outcome).splitlines()
        lines = lines or [f"environment,{head}"]
        lines += [f"{label},{row}" for row in rows]
    return "\n".join(lines) + "\n"
