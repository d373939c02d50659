"""What summary.json of a comparison says: everything on its page, as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from imitate.compare.curves import band
from imitate.compare.outcome import Entry, Outcome
from imitate.compare.results import COSTS
from imitate.compare.verdict import Answer, Pair, warnings

__all__ = ["plain", "summary_of"]


def summary_of(outcome: Outcome, said: Answer, found: Sequence[Pair]) -> dict[str, Any]:
    comparison, expert = outcome.comparison, outcome.references.expert
    return {
        "verdict": said.verdict,
        "sentence": said.sentence,
        "warnings": warnings(outcome),
        "env_id": comparison.env_id,
        "budget": comparison.budget,
        "seeds": comparison.seeds,
        "expert": None if expert is None else {"spec": expert.spec, "mean": expert.measured.mean},
        "random": {"mean": outcome.random_mean},
        "algorithms": {entry.algorithm: _facts(outcome, entry) for entry in outcome.learners},
        "pairs": [plain(vars(pair)) for pair in found],
        "audit": {entry.algorithm: entry.mean for entry in outcome.controls},
        "failures": list(outcome.failures),
        "missing": list(outcome.missing),
        "comparison": comparison.to_json(),
    }


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
        "seed_means": [result.mean for result in entry.results],
        **{name: entry.average(name) for name in counts},
        **{
            f"{cost}_to_{round(100 * goal)}": outcome.to_reach(entry, goal, cost)
            for cost in COSTS
            for goal in (0.5, 0.9, 0.95)
        },
        "area": sum(areas) / len(areas) if areas else None,
        "notes": entry.results[0].notes,
        "curve": {name: plain({"": [float(v) for v in column]})[""] for name, column in curve.items()},
    }


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """NaN is no JSON."""

    def known(value: Any) -> Any:
        if isinstance(value, list):
            return [known(each) for each in value]
        return None if isinstance(value, float) and math.isnan(value) else value

    return {name: known(value) for name, value in values.items()}
