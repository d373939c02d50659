"""Writes the report of a search: one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imitate.compare.formatting import interval_words, number, percent, signed
from imitate.compare.machine import provenance
from imitate.compare.plan.learners import title
from imitate.compare.report import page_data
from imitate.compare.report.charts import Line, Lines, rounded
from imitate.compare.report.report import page_template, write_texts
from imitate.compare.statistics.job_results import COSTS
from imitate.improvement.films import Film
from imitate.improvement.journal import Journal, Snapshot
from imitate.improvement.verdict import Result

__all__ = ["write_report"]


def write_report(journal: Journal, result: Result, films: dict[str, dict[str, Film]], out: Path) -> None:
    """Write index.html, which needs no network and no other file, and its figure as .pdf, .png and .csv in figures/."""
    assert journal.expert is not None
    names = list(dict.fromkeys(each.learner for each in journal.snapshots if each.validation.seeds))
    figure = page_data.figure(out / "figures", "curves", [_curves(journal, names)], names)
    kind = result.verdict.kind
    text = page_template("improve.html", "imitate.improvement").render(
        result=result,
        tone={"better": "yes", "worse": "no", "untested": "no"}.get(kind, ""),
        tiles=_tiles(result),
        figures={"curves": figure},
        learners=page_data.learners(names),
        costs=dict(COSTS),
        rows=[_row(journal, name) for name in names],
        dropped=journal.dropped,
        films=films,
        validated=sorted({len(each.validation.seeds) for name in names for each in _of(journal, name)}),
        measured=len(journal.expert.seeds),
        out=out,
        here=provenance(),
    )
    write_texts(out, {"index.html": text})


def _tiles(result: Result) -> list[dict[str, str]]:
    gain, teacher = result.verdict.gain, result.teacher
    tiles: list[tuple[str, str, str]] = []
    if gain is not None:
        ends, pairs = interval_words(gain.low, gain.high), f"in {gain.pairs} paired episodes"
        tiles += [
            ("Student minus expert, paired", signed(gain.mean), ends),
            ("Student in the test", number(gain.student), title(result.verdict.learner)),
            ("Expert in the test", number(gain.expert), pairs),
        ]
    if teacher.best_known is not None:
        share = "" if teacher.share is None else f"the expert has {percent(teacher.share)} of it"
        tiles.append(("Best published return", number(teacher.best_known), share))
    spent = sum(result.costs.values())
    tiles.append(("Environment steps", number(spent), f"of {number(result.task.budget)}"))
    return [{"title": name, "value": value, "who": who} for name, value, who in tiles]


def _row(journal: Journal, name: str) -> dict[str, Any]:
    """A learner's costs, and its best and last validation."""
    snapshots = _of(journal, name)
    last = snapshots[-1]
    return {
        "title": title(name),
        "steps": number(last.steps),
        "answers": number(last.answers),
        "cpu_seconds": number(last.cpu_seconds),
        "best": number(max(each.validation.mean for each in snapshots)),
        "last": number(last.validation.mean),
    }


def _of(journal: Journal, name: str) -> list[Snapshot]:
    return [each for each in journal.snapshots if each.learner == name and each.validation.seeds]


def _curves(journal: Journal, names: Sequence[str]) -> Lines:
    """Mean return in validation against each cost."""
    lines = []
    for name in names:
        snapshots = _of(journal, name)
        spent: dict[str, list[float]] = {
            "steps": [each.steps for each in snapshots],
            "queries": [each.answers for each in snapshots],
            "cpu_seconds": [each.cpu_seconds for each in snapshots],
        }
        means = [rounded(each.validation.mean) for each in snapshots]
        points = {
            cost: [(rounded(x), mean, None, None) for x, mean in zip(values, means, strict=True)]
            for cost, values in spent.items()
        }
        lines.append(Line(name, False, points))
    assert journal.expert is not None
    heights = [journal.expert.mean, *(each.validation.mean for name in names for each in _of(journal, name))]
    margin = 0.05 * (max(heights) - min(heights) or 1.0)
    return Lines(
        "",
        "mean return in validation",
        lines,
        {str(cost): name for cost, name in COSTS.items()},
        float(max(each.steps for each in journal.snapshots)),
        (min(heights) - margin, max(heights) + margin),
        [("expert", journal.expert.mean)],
    )
