"""The table of results, once, for the page, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import dataclass

import numpy as np

from imitate.compare.collapse import mean_words
from imitate.compare.outcome import Entry, Outcome
from imitate.compare.results import Cost, Reference
from imitate.compare.statistics import worst
from imitate.compare.verdict import cost_words, typical_cost
from imitate.compare.words import number, percent

__all__ = ["ALL_COLUMNS", "SHOWN", "Cell", "Row", "as_csv", "as_latex", "as_markdown", "rows", "runs_csv"]

SHOWN = ("Learner", "Mean return", "95 % interval", "Random to expert", "Steps to 95 %", "Expert answers")
FOLDED = (
    *("Worst 10 %", "Steps to 50 %", "Steps to 90 %", "Answers to 95 %", "CPU s to 95 %", "Area under share"),
    *("Own steps", "Demo steps", "CPU seconds", "Seeds"),
)
ALL_COLUMNS = SHOWN + FOLDED


@dataclass(frozen=True)
class Cell:
    """The text, and the value by which a column is sorted; None comes last."""

    text: str
    value: float | None = None


@dataclass(frozen=True)
class Row:
    """A row for a learner, whose place in the comparison gives the colour, or for a reference (None)."""

    name: str
    place: int | None
    cells: dict[str, Cell]


def rows(outcome: Outcome) -> list[Row]:
    """Learners, best first; then the expert and random actions."""
    expert = outcome.references.expert
    references = [_reference(outcome, "Random actions", outcome.references.random)]
    if expert is not None:
        references.insert(0, _reference(outcome, "Expert", expert.measured))
    return [_row(outcome, entry) for entry in outcome.ranked()] + references


def _row(outcome: Outcome, entry: Entry) -> Row:
    share, ends = outcome.share(entry.mean), entry.ci95
    shares = bool(outcome.shares(entry.results[0]))
    cells = {
        "Learner": Cell(entry.title),
        "Mean return": Cell(mean_words(outcome, entry), entry.mean),
        "95 % interval": Cell(
            "one seed" if ends is None else _range(*ends), None if ends is None else ends[0]
        ),
        "Random to expert": Cell("–" if share is None else percent(share), share),
    }

    def to(goal: float, cost: Cost = "steps") -> Cell:
        if not shares or (cost == "queries" and not entry.imitates):
            return Cell("–")
        return Cell(cost_words(outcome, entry, goal, cost), typical_cost(outcome.to_reach(entry, goal, cost)))

    areas = outcome.area(entry)
    cells |= {
        "Steps to 95 %": to(0.95),
        "Expert answers": _count(entry.average("expert_queries")),
        "Worst 10 %": Cell(number(entry.worst), entry.worst),
        "Steps to 50 %": to(0.5),
        "Steps to 90 %": to(0.9),
        "Answers to 95 %": to(0.95, "queries"),
        "CPU s to 95 %": to(0.95, "cpu_seconds"),
        "Area under share": Cell(percent(float(np.mean(areas))), float(np.mean(areas)))
        if areas
        else Cell("–"),
        "Own steps": _count(entry.average("env_steps")),
        "Demo steps": _count(entry.average("demo_steps")),
        "CPU seconds": Cell(number(round(entry.average("cpu_seconds"), 1)), entry.average("cpu_seconds")),
        "Seeds": _count(len(entry.results)),
    }
    return Row(entry.title, outcome.place(entry), cells)


def _reference(outcome: Outcome, name: str, measured: Reference) -> Row:
    share, (low, high) = outcome.share(measured.mean), measured.interval
    cells = dict.fromkeys(ALL_COLUMNS, Cell("")) | {
        "Learner": Cell(name),
        "Mean return": Cell(number(measured.mean), measured.mean),
        "95 % interval": Cell(_range(low, high), low),
        "Random to expert": Cell("–" if share is None else percent(share), share),
        "Worst 10 %": Cell(number(value := worst(measured.returns)), value),
    }
    return Row(name, None, cells)


def _range(low: float, high: float) -> str:
    return "–" if math.isnan(low) else f"{number(low)} to {number(high)}"


def _count(value: float) -> Cell:
    return Cell(number(round(value)), value)


def as_markdown(table: list[Row], columns: tuple[str, ...] = SHOWN) -> str:
    """GitHub's Markdown."""
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" + " ---: |" * (len(columns) - 1)]
    for row in table:
        lines.append("| " + " | ".join(row.cells[name].text.replace("|", "\\|") for name in columns) + " |")
    return "\n".join(lines) + "\n"


def as_latex(table: list[Row], columns: tuple[str, ...] = SHOWN) -> str:
    """A tabular with booktabs' rules."""

    def line(cells: list[str]) -> str:
        return " & ".join(map(_tex, cells)) + r" \\"

    body = [line([row.cells[name].text for name in columns]) for row in table]
    head = [
        rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}",
        r"\toprule",
        line(list(columns)),
        r"\midrule",
    ]
    return "\n".join([*head, *body, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _tex(text: str) -> str:
    text = re.sub(r"([&%$#_{}])", r"\\\1", text.replace("\\", r"\textbackslash{}"))
    return (
        text.replace("−", "$-$").replace("–", "--").replace("> ", "$>$ ").replace("~", r"\textasciitilde{}")
    )


def as_csv(table: list[Row], columns: tuple[str, ...] = ALL_COLUMNS) -> str:
    """The table as it is shown; `runs_csv` has every run in full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_quoted(row.cells[name].text.replace("−", "-")) for name in columns] for row in table)
    return text.getvalue()


def runs_csv(outcome: Outcome) -> str:
    """One row for each run, in full precision."""
    text = io.StringIO()
    counts = ("expert_queries", "env_steps", "demo_steps", "cpu_seconds")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["algorithm", "seed", "mean", "std", "worst_tenth", "share_of_expert", *counts])
    for entry in [*outcome.learners, *outcome.controls]:
        for result in entry.results:
            values = [
                result.mean,
                float(np.std(result.returns)),
                worst(result.returns),
                outcome.share(result.mean),
            ]
            counted = [getattr(result, name) for name in counts]
            writer.writerow([_quoted(result.algorithm), result.seed, *values, *counted])
    return text.getvalue()


def _quoted(text: str) -> str:
    """A cell that no spreadsheet takes for a formula; a number is none."""
    formula = text.startswith(("=", "+", "-", "@")) and not re.fullmatch(r"-?[\d,.]+( %)?", text)
    return f"'{text}" if formula else text
