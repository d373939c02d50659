"""Writes the report of a comparison: one self-contained HTML file, with its figures and numbers beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from imitate.compare.formatting import listed, number, percent
from imitate.compare.plan.learners import title
from imitate.compare.report import page_data
from imitate.compare.report.curves import curves
from imitate.compare.report.estimates import finals, frontier
from imitate.compare.report.results_table import (
    SHOWN,
    TableRow,
    as_csv,
    as_markdown,
    columns,
    latex,
    rows,
    runs_csv,
)
from imitate.compare.report.summary_json import summary_of
from imitate.compare.statistics.finished_runs import read_finished
from imitate.compare.statistics.intervals import ENOUGH_SEEDS
from imitate.compare.statistics.job_results import COSTS
from imitate.compare.statistics.outcome import Outcome
from imitate.compare.statistics.verdict import answer, warnings
from imitate.files import atomic, versions, write_json

__all__ = ["page_template", "write_outcome", "write_report", "write_texts"]


def write_report(*folders: str | Path, out: str | Path | None = None) -> Path:
    """Write report.html, table.md, table.tex, results.csv, comparison.toml, summary.json and the figures as .pdf, .png
    and .csv to `out` (by default the first of `folders`), from the results in `folders`.

    The page needs no network and no other file. Files of an earlier report are replaced.

    Raises InputError if a folder holds no comparison, if they do not fit together, or if no learner finished.
    """
    paths = [Path(folder) for folder in folders]
    return write_outcome(read_finished(*paths), Path(out or paths[0]))


def write_outcome(outcome: Outcome, out: Path) -> Path:
    """As `write_report`, of results that have been read."""
    table = rows(outcome)
    write_json(out / "summary.json", summary_of(outcome))
    texts = {
        "results.csv": runs_csv(outcome),
        "table.md": as_markdown(table),
        "table.tex": latex(outcome),
        "comparison.toml": outcome.comparison.to_toml(),
    }
    texts["report.html"] = _html(outcome, table, texts, _figures(outcome, out / "figures"))
    write_texts(out, texts)
    return out / "report.html"


def write_texts(out: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        with atomic(out / name) as temporary:
            temporary.write_text(text, "utf-8")


def _figures(outcome: Outcome, folder: Path) -> dict[str, Any]:
    """The figures of the page by name, with their files in the folder."""
    order = outcome.comparison.algorithms
    found = [
        page_data.figure(folder, "final", finals(outcome), order),
        page_data.figure(folder, "curves", [curves(outcome)], order, columns=2, near=True),
    ]
    if outcome.costed:
        costs = [panel for cost in COSTS if (panel := frontier(outcome, cost)).rows]
        found.append(page_data.figure(folder, "cost", costs, order))
    return {each["name"]: each for each in found}


def _html(
    outcome: Outcome, table: list[TableRow], texts: Mapping[str, str], figures: Mapping[str, Any]
) -> str:
    """The page; `texts` are the files beside it, by name."""
    comparison, expert = outcome.comparison, outcome.references.expert
    return page_template("report.html").render(
        comparison=comparison,
        titles=listed([title(name) for name in comparison.algorithms]),
        answer=answer(outcome),
        tiles=page_data.tiles(outcome),
        warnings=warnings(outcome),
        outcome=outcome,
        expert=expert,
        figures=figures,
        learners=page_data.learners(comparison.algorithms),
        costs=dict(COSTS),
        rows=table,
        columns=columns(outcome),
        shown=len(SHOWN),
        copies={"CSV": as_csv(table), "Markdown": texts["table.md"], "LaTeX": texts["table.tex"]},
        matrix=page_data.pairs_matrix(outcome),
        few=outcome.seeds < ENOUGH_SEEDS,
        films=page_data.films(outcome),
        audit=page_data.audit(outcome),
        settings=[page_data.settings(outcome, entry) for entry in outcome.learners],
        toml=texts["comparison.toml"],
        machines=page_data.machines([outcome]),
        versions=outcome.learners[0].results[0].versions or versions(),
        provenance=page_data.provenance({"": outcome}),
    )


def page_template(name: str, package: str = "imitate.compare.report") -> jinja2.Template:
    """A template in the folder page/ of a package. It can include files from there and from this package's."""
    folders = [jinja2.PackageLoader(each, "page") for each in (package, "imitate.compare.report")]
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(folders),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"number": number, "percent": percent, "charts": _charts}
    return environment.get_template(name)


def _charts(figures: Mapping[str, Any]) -> Markup:
    """The points of the figures, for the page's script."""
    charts = {name: figure["charts"] for name, figure in figures.items()}
    return htmlsafe_json_dumps(charts, separators=(",", ":"), allow_nan=False)
