"""The content of a comparison's summary.json: everything on its page, as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from imitate.compare.report.curves import band
from imitate.compare.report.estimates import GOALS
from imitate.compare.statistics.collapse import collapse
from imitate.compare.statistics.entry import Entry
from imitate.compare.statistics.job_results import COSTS, Reference
from imitate.compare.statistics.outcome import Outcome
from imitate.compare.statistics.verdict import Answer, answer, warnings
from imitate.files import without_nan

__all__ = ["answer_facts", "summary_of"]


def summary_of(outcome: Outcome) -> dict[str, Any]:
    comparison, expert = outcome.comparison, outcome.references.expert
    return {
        **answer_facts(answer(outcome)),
        "warnings": warnings(outcome),
        "env_id": comparison.env_id,
        "budget": comparison.budget,
        "seeds": comparison.seeds,
        "expert": None if expert is None else {"spec": expert.spec} | _reference(expert.measured),
        "random": _reference(outcome.references.random),
        "algorithms": {entry.algorithm: _facts(outcome, entry) for entry in outcome.learners},
        "pairs": [without_nan(asdict(pair)) for pair in outcome.pairs],
        "audit": {entry.algorithm: entry.mean for entry in outcome.controls},
        "failures": list(outcome.failures),
        "missing": list(outcome.missing),
        "comparison": comparison.to_json(),
    }


def answer_facts(said: Answer) -> dict[str, Any]:
    """The verdict, the reasons, and the test that decided; `test` is None if none did."""
    result = said.result
    test = None if result is None else {"name": said.test, "a": said.a, "b": said.b} | asdict(result)
    return {"verdict": said.verdict, "sentence": said.sentence, "test": test}


def _reference(measured: Reference) -> dict[str, float]:
    """Mean returns on the test episodes and on those of the curves."""
    return {"mean": measured.mean, "curve_mean": float(np.mean(measured.curve))}


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
        "collapsed": collapse(outcome, entry) or None,
        "seed_means": [result.mean for result in entry.results],
        "last_seed_means": [result.last_mean for result in entry.results],
        **{name: entry.average(name) for name in counts},
        **{
            f"{cost}_to_{round(100 * goal)}": outcome.to_reach(entry, goal, cost)
            for cost in COSTS
            for goal in GOALS
        },
        "area": sum(areas) / len(areas) if areas else None,
        "notes": entry.results[0].notes,
        "curve": {name: without_nan([float(v) for v in column]) for name, column in curve.items()},
    }
