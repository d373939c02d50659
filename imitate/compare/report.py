"""The report of a comparison: one self-contained HTML file, and its figures and numbers beside it."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from imitate.algorithms import find
from imitate.compare.figures import COLORS, draw_bars, draw_curves, inline_svg, save_png
from imitate.compare.results import Entry, Outcome, read_outcome
from imitate.compare.sentences import (
    bars_in_words,
    curves_in_words,
    listed,
    number,
    percent,
    points_in_words,
    summary,
)
from imitate.errors import InputError
from imitate.files import write_json

__all__ = ["write_report"]

VIDEO_BYTES = 4_000_000  # of one embedded video at most: a report must open on a phone


def write_report(out: Path) -> Path:
    """Write report.html, curves.png, bars.png, results.csv and summary.json from what the jobs left in `out`.

    The page needs nothing else: no network, no file beside it. Files of an earlier report are replaced.

    Raises InputError where `out` holds no comparison, or one of which no learner came to an end.
    """
    outcome = read_outcome(out)
    if not outcome.learners:
        reason = f": {outcome.failures[0]}" if outcome.failures else ""
        raise InputError(f"no learner of {out} came to an end, there is nothing to report{reason}")
    save_png(draw_curves, outcome, out / "curves.png")
    save_png(draw_bars, outcome, out / "bars.png")
    (out / "results.csv").write_text(_csv(outcome))
    write_json(out / "summary.json", _summary(outcome))
    page = out / "report.html"
    page.write_text(_html(outcome), encoding="utf-8")
    return page


def _summary(outcome: Outcome) -> dict[str, Any]:
    comparison = outcome.comparison
    return {
        "env_id": comparison.env_id,
        "budget": comparison.budget,
        "seeds": comparison.seeds,
        "summary": summary(outcome),
        "expert": outcome.expert,
        "random": outcome.random,
        "algorithms": {learner.algorithm: _facts(outcome, learner) for learner in outcome.learners},
        "failures": list(outcome.failures),
        "comparison": comparison.to_json(),
    }


def _facts(outcome: Outcome, learner: Entry) -> dict[str, Any]:
    counts = ("expert_queries", "env_steps", "demo_steps", "validation_steps", "wall_seconds")
    steps, mean, low, high = learner.curve()
    columns = {"budget_steps": steps, "mean_return": mean, "low": low, "high": high}
    return {
        "mean": learner.mean,
        "ci95": list(learner.ci95),
        "iqm": learner.iqm,
        "share_of_expert": outcome.share(learner.mean),
        "seeds": [result.seed for result in learner.results],
        "seed_means": [result.mean for result in learner.results],
        **{name: learner.average(name) for name in counts},
        "curve": {
            name: [None if math.isnan(v) else float(v) for v in column] for name, column in columns.items()
        },
    }


def _csv(outcome: Outcome) -> str:
    """A row an algorithm and seed, in full precision."""
    text = io.StringIO()
    counts = ("expert_queries", "env_steps", "demo_steps", "validation_steps", "wall_seconds")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["algorithm", "seed", "mean", "std", "iqm", "ci95_low", "ci95_high", "share_of_expert", *counts]
    )
    for learner in outcome.learners:
        for result in learner.results:
            final = result.final
            values = [final["mean"], final["std"], final["iqm"], *final["ci95"], outcome.share(result.mean)]
            writer.writerow(
                [_quoted(result.algorithm), result.seed, *values, *(getattr(result, name) for name in counts)]
            )
    return text.getvalue()


def _quoted(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _html(outcome: Outcome) -> str:
    comparison = outcome.comparison
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["number"] = number
    template = environment.from_string(
        (resources.files("imitate.compare") / "report.html").read_text("utf-8")
    )
    first = outcome.learners[0].results[0]
    return template.render(
        comparison=comparison,
        titles=listed([find(name).title for name in comparison.algorithms]),
        summary=_unbroken(summary(outcome)),
        outcome=outcome,
        rows=[_row(outcome, learner) for learner in outcome.learners],
        curves=inline_svg(draw_curves, outcome, "curves", curves_in_words(outcome), points_in_words(outcome)),
        bars=inline_svg(draw_bars, outcome, "bars", bars_in_words(outcome)),
        films=_films(outcome),
        parts=any(find(name).offline for name in comparison.algorithms),
        versions=first.versions,
    )


def _unbroken(text: str) -> str:
    """No line ends before a unit or at a sign."""
    return text.replace(" %", "\u00a0%").replace(" ± ", "\u00a0±\u00a0")


def _row(outcome: Outcome, learner: Entry) -> dict[str, Any]:
    """What the table and the list of settings say of a learner."""
    low, high = learner.ci95
    share = outcome.share(learner.mean)
    first = learner.results[0]
    return {
        "learner": learner,
        "color": outcome.place(learner) % len(COLORS),
        "summary": find(learner.algorithm).summary,
        "low": low,
        "high": high,
        "share": None if share is None else percent(share),
        "best": number(learner.mean) == number(outcome.ranked()[0].mean),
        "seconds": learner.average("wall_seconds"),
        "queries": learner.average("expert_queries"),
        "own": learner.average("env_steps"),
        "demos": learner.average("demo_steps"),
        "validation": learner.average("validation_steps"),
        "hyperparameters": json.dumps({**first.stepped, **first.hyperparameters}, indent=2),
    }


def _films(outcome: Outcome) -> list[dict[str, Any]]:
    """The videos as data URLs: the expert's, then the learners' in their order."""
    films = []
    about: dict[str, tuple[str, float | None, int | None]] = {"expert": ("Expert", outcome.expert_mean, None)}
    for learner in outcome.learners:
        about[learner.algorithm] = (learner.title, learner.mean, outcome.place(learner) % len(COLORS))
    for name, (title, mean, color) in about.items():
        path, shown = outcome.videos.get(name, (None, 0.0))
        if path is not None and path.stat().st_size <= VIDEO_BYTES:
            url = f"data:video/mp4;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
            films.append({"title": title, "shown": shown, "mean": mean, "color": color, "url": url})
    return films
