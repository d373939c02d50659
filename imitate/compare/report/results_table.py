"""The table of results, shared by the page, Markdown, LaTeX and CSV."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from imitate.compare.formatting import counted, csv_text, listed, number, percent
from imitate.compare.plan.learners import title
from imitate.compare.statistics.collapse import mean_words
from imitate.compare.statistics.entry import Entry
from imitate.compare.statistics.intervals import interval, worst
from imitate.compare.statistics.job_results import Cost, Reference
from imitate.compare.statistics.outcome import Outcome
from imitate.compare.statistics.verdict import GOAL, cost_words, typical_cost

__all__ = [
    "ALL_COLUMNS", "BOLD", "INTERVALS", "SHOWN", "Cell", "TableRow",
    "as_csv", "as_latex", "as_markdown", "certain_best", "columns", "latex", "number_cell", "rows",
    "runs_csv",
]  # fmt: skip

SHOWN = ("Learner", "Mean return", "95 % interval", "Random to expert", "Steps to 95 %", "Expert answers")
ALL_COLUMNS = (
    *SHOWN,
    "Worst 10 %", "Steps to 50 %", "Steps to 90 %", "Answers to 95 %", "CPU s to 95 %", "Area under share",
    "Last policy", "Own steps", "Demo steps", "CPU seconds", "Seeds",
)  # fmt: skip
INTERVALS = "Intervals are of 95 %."
BOLD = "Bold: better than every other learner (p < 0.05, Holm)."


@dataclass(frozen=True)
class Cell:
    """A cell: its text, the value by which its column is sorted (None comes last), and an interval for LaTeX."""

    text: str
    value: float | None = None
    ends: tuple[float, float] | None = None


@dataclass(frozen=True)
class TableRow:
    """A row of the table. `name` is that of the algorithm or the reference, and `place` the learner's place in the
    comparison, which gives its colour; None for a reference."""

    name: str
    place: int | None
    cells: dict[str, Cell]


def rows(outcome: Outcome) -> list[TableRow]:
    """The rows of the table: learners, best first; then the expert and random actions."""
    expert = outcome.references.expert
    references = [_reference(outcome, "Random actions", outcome.references.random)]
    if expert is not None:
        references.insert(0, _reference(outcome, "Expert", expert.measured))
    return [_row(outcome, entry) for entry in outcome.ranked()] + references


def columns(outcome: Outcome) -> tuple[str, ...]:
    """The columns of the page: all, but the last policy's only where a learner may have kept another."""
    kept = any(result.last_returns for entry in outcome.learners for result in entry.results)
    return tuple(name for name in ALL_COLUMNS if kept or name != "Last policy")


def _row(outcome: Outcome, entry: Entry) -> TableRow:
    ends, areas = entry.ci95, outcome.area(entry)

    def to(goal: float, cost: Cost = "steps") -> Cell:
        if not outcome.costed or (cost == "queries" and not entry.imitates):
            return Cell("–")
        return Cell(cost_words(outcome, entry, goal, cost), typical_cost(outcome.to_reach(entry, goal, cost)))

    cells = {
        "Learner": Cell(entry.title),
        "Mean return": Cell(mean_words(outcome, entry), entry.mean),
        "95 % interval": Cell("one seed") if ends is None else Cell(_range(*ends), ends[0]),
        "Random to expert": _share(outcome.share(entry.mean)),
        "Steps to 95 %": to(GOAL),
        "Expert answers": _count(entry.average("expert_queries")),
        "Worst 10 %": number_cell(entry.worst),
        "Steps to 50 %": to(0.5),
        "Steps to 90 %": to(0.9),
        "Answers to 95 %": to(GOAL, "queries"),
        "CPU s to 95 %": to(GOAL, "cpu_seconds"),
        "Area under share": _share(float(np.mean(areas)) if areas else None),
        "Last policy": number_cell(entry.average("last_mean")),
        "Own steps": _count(entry.average("env_steps")),
        "Demo steps": _count(entry.average("demo_steps")),
        "CPU seconds": Cell(number(round(entry.average("cpu_seconds"), 1)), entry.average("cpu_seconds")),
        "Seeds": _count(len(entry.results)),
    }
    return TableRow(entry.algorithm, outcome.place(entry), cells)


def _reference(outcome: Outcome, name: str, measured: Reference) -> TableRow:
    low, high = interval(measured.returns)
    cells = dict.fromkeys(ALL_COLUMNS, Cell("")) | {
        "Learner": Cell(name),
        "Mean return": number_cell(measured.mean),
        "95 % interval": Cell(_range(low, high), low),
        "Random to expert": _share(outcome.share(measured.mean)),
        "Worst 10 %": number_cell(worst(measured.returns)),
    }
    return TableRow(name, None, cells)


def _range(low: float, high: float) -> str:
    return "–" if math.isnan(low) else f"{number(low)} to {number(high)}"


def number_cell(value: float, ends: tuple[float, float] | None = None) -> Cell:
    return Cell(number(value), value, ends)


def _share(value: float | None) -> Cell:
    return Cell("–" if value is None else percent(value), value)


def _count(value: float) -> Cell:
    return Cell(number(round(value)), value)


def as_markdown(table: list[TableRow], columns: tuple[str, ...] = SHOWN) -> str:
    """The table in GitHub's Markdown."""
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" + " ---: |" * (len(columns) - 1)]
    for row in table:
        lines.append("| " + " | ".join(row.cells[name].text.replace("|", "\\|") for name in columns) + " |")
    return "\n".join(lines) + "\n"


def latex(outcome: Outcome) -> str:
    """The table of a comparison in LaTeX, for a paper."""
    comparison, best = outcome.comparison, certain_best(outcome)
    without = without_failed({name: outcome.failed(name) for name in comparison.algorithms})
    caption = (
        f"{comparison.env_id}: mean return of {comparison.episodes} test episodes after {comparison.budget:,} "
        f"environment steps, {counted(outcome.seeds, 'seed')}{without}. {INTERVALS} {BOLD}"
    )
    bold = {(best.algorithm, "Mean return")} if best else set()
    return as_latex(rows(outcome), caption=caption, label=comparison.env_id, bold=bold)


def without_failed(lost: Mapping[str, int]) -> str:
    """Words for the runs that failed, from their number by algorithm; none if there are none."""
    failed = [f"{counted(count, 'run')} of {title(name)}" for name, count in lost.items() if count]
    return f", without {listed(failed)} that failed" if failed else ""


def certain_best(outcome: Outcome) -> Entry | None:
    """The learner that is significantly better than every other; None if there is none, if runs of it failed, or while
    another has no result."""
    best = outcome.ranked()[0]
    rivals = [pair for pair in outcome.pairs if best.algorithm in (pair.a, pair.b) and pair.b != "expert"]
    certain = bool(rivals) and all(pair.certain for pair in rivals)
    return best if certain and not outcome.lacking and not outcome.failed(best.algorithm) else None


def as_latex(
    table: list[TableRow],
    columns: tuple[str, ...] = SHOWN,
    *,
    caption: str = "",
    label: str = "",
    bold: Collection[tuple[str, str]] = (),
) -> str:
    """A table with booktabs' rules. Intervals are in brackets; `bold` has the (row, column) of bold cells."""

    def cell(row: TableRow, column: str) -> str:
        found = row.cells[column]
        text = _tex(found.text)
        text = rf"\textbf{{{text}}}" if (row.name, column) in bold else text
        if found.ends is None or math.isnan(found.ends[0]):
            return text
        return text + _tex(f" [{number(found.ends[0])}, {number(found.ends[1])}]")

    slug = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
    lines = [
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{_tex(caption)}}}"] if caption else []),
        *([rf"\label{{tab:{slug}}}"] if slug else []),
        rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}",
        r"\toprule",
        " & ".join(map(_tex, columns)) + r" \\",
        r"\midrule",
        *(" & ".join(cell(row, name) for name in columns) + r" \\" for row in table),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _tex(text: str) -> str:
    text = re.sub(r"([&%$#_{}])", r"\\\1", text)
    return text.replace("−", "$-$").replace("–", "--").replace("> ", "$>$ ").replace("< ", "$<$ ")


def as_csv(table: list[TableRow], columns: tuple[str, ...] = ALL_COLUMNS) -> str:
    """The table as shown; `runs_csv` has every run in full precision."""
    lines = ([_quoted(row.cells[name].text.replace("−", "-")) for name in columns] for row in table)
    return csv_text([columns, *lines])


def runs_csv(outcome: Outcome) -> str:
    """One row for each run, in full precision."""
    counts = ("expert_queries", "env_steps", "demo_steps", "cpu_seconds")
    lines: list[list[object]] = [
        ["algorithm", "seed", "mean", "std", "worst_tenth", "share_of_expert", "last_mean", *counts]
    ]
    for entry in [*outcome.learners, *outcome.controls]:
        for result in entry.results:
            values = [
                result.mean,
                float(np.std(result.returns)),
                worst(result.returns),
                outcome.share(result.mean),
                result.last_mean,
            ]
            values += [getattr(result, name) for name in counts]
            lines.append([_quoted(result.algorithm), result.seed, *values])
    return csv_text(lines)


def _quoted(text: str) -> str:
    """A cell that no spreadsheet mistakes for a formula; numbers stay as they are."""
    formula = text.startswith(("=", "+", "-", "@")) and not re.fullmatch(r"-?[\d,.]+( %)?", text)
    return f"'{text}" if formula else text
