"""The records as the documents show them: rows with their marks, pairs of learners, the suite, and costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from evidence import (
    KNOWN,
    LEARNERS,
    LEAST_SEEDS,
    LEVELS,
    Cost,
    Curve,
    Interval,
    aggregate,
    costs,
    minus_teacher,
    pair,
    returns,
    row_curves,
    share_of_best,
    winners,
)
from mujoco_suite import suite, suite_curves, suite_tasks
from scipy import stats

from imitate.compare.statistics.intervals import Difference, difference

Record = Mapping[str, Any]

LONG_PPO = {
    "HalfCheetah-v5": ("ppo-halfcheetah", "aggrevated-halfcheetah-a2c"),
    "Hopper-v5": ("ppo-hopper", "aggrevated-hopper-sac"),
    "Walker2d-v5": ("ppo-walker2d", "aggrevated-walker2d-tqc"),
}
"""Tasks of examples/mujoco on which PPO was run for a million steps: PPO's row, and a row with the same teacher."""

BESIDE = {
    "guided-halfcheetah-a2c": ("sac-halfcheetah", "rlpd-halfcheetah-a2c"),
    "guided-hopper-sac": ("sac-hopper", "rlpd-hopper-sac"),
    "guided-walker2d-ars": ("sac-walker2d", "rlpd-walker2d-ars"),
    "guided-bipedalwalker-ppo": ("tqc-bipedalwalker", "rlpd-bipedalwalker-ppo"),
    "guided-bipedalwalkerhardcore-ppo": ("tqc-bipedalwalkerhardcore-600k", ""),
}
"""Rows of guided, each with those of plain RL and of RLPD after as many steps."""


def commits_of(record: Record) -> list[str]:
    """The code of a record's seeds, seven letters each; `older` where it was not stored."""
    first = record.get("machine", {}).get("commit", "older")
    seeds = [seed["commit"] for seed in record["seeds"] if seed.get("commit")]
    return [commit[:7] for commit in dict.fromkeys([first, *seeds])]


def figures(name: str, row: Record, record: Record, teachers: Record) -> dict[str, Any]:
    """A row of rows.toml with the figures that tables show. Steps include demonstrations and validation, for the seed
    that took most."""
    counted = ("env_steps", "demo_steps", "validation_steps")
    share, gain, best = record.get("share_of_range"), minus_teacher(record, teachers), share_of_best(record)
    wanted, commits, enough = row.get("seeds", 3), commits_of(record), len(record["seeds"]) >= LEAST_SEEDS
    marks = [f"{len(record['seeds'])} of {wanted} seeds"] if len(record["seeds"]) < wanted else []
    marks += [row["settings"]] if "settings" in row else []
    return {
        **row,
        "name": name,
        "label": ", ".join([row["label"], *marks]),
        "older": commits[0] == "older",
        "mean": record["mean"],
        "each": ", ".join(f"{seed['mean']:.1f}" for seed in record["seeds"]),
        "expert_return": record["expert_mean"],
        "share": "" if share is None else f"{share:.1%}",
        "of_best": "" if best is None or row.get("env_kwargs") else f"{best:.0%}",
        "minus": "" if gain is None else signed(gain) if enough else f"{gain.mean:+,.1f}",
        "better": gain is not None and enough and gain.low > 0,
        "commit": ", ".join(commits),
        "steps": max(sum(seed.get(kind, 0) for kind in counted) for seed in record["seeds"]),
    }


def beside(name: str, known: Mapping[str, Record]) -> list[str]:
    """Plain RL and RLPD beside a row of guided: their returns, and guided's minus theirs if they have three seeds."""
    cells = []
    for other in BESIDE[name]:
        if other not in known:
            cells += ["not run", ""]
            continue
        record = known[other]
        minus = (
            difference(returns(known[name]), returns(record)) if len(record["seeds"]) >= LEAST_SEEDS else None
        )
        bold = "**" if minus is not None and minus.low > 0 else ""
        cells += [f"{record['mean']:,.0f} ({(count := len(record['seeds']))} seed{'s' * (count > 1)})"]
        cells += ["few seeds" if minus is None else f"{bold}{signed(minus)}{bold}"]
    return cells


def signed(found: Difference | Interval, digits: int | None = None) -> str:
    """A difference and its 95 % interval, such as `+63.7 [29.7, 97.7]`."""
    value = found.mean if isinstance(found, Difference) else found.value
    if digits is None:
        digits = 0 if max(abs(value), abs(found.low), abs(found.high)) >= 100 else 1
    return f"{value:+,.{digits}f} [{found.low:,.{digits}f}, {found.high:,.{digits}f}]"


@dataclass(frozen=True)
class Shown:
    """Pairs of rows of AggreVaTeD and DAgger with the same task and teacher."""

    rows: Mapping[str, Record]
    known: Mapping[str, Record]
    teachers: Mapping[str, Record]

    @property
    def names(self) -> list[tuple[str, str]]:
        """The rows (AggreVaTeD's, DAgger's) for each task and teacher that have both; if there are several, the
        first."""
        found: dict[tuple[str, str], dict[str, str]] = {}
        for name, row in self.rows.items():
            if row["algorithm"] in ("aggrevated", "dagger") and name in self.known:
                found.setdefault((row["env"], row["expert"]), {}).setdefault(row["algorithm"], name)
        return [(both["aggrevated"], both["dagger"]) for both in found.values() if len(both) == 2]

    def pairs(self) -> list[dict[str, Any]]:
        """Facts about the pairs: their rows, the learners' difference, and the better one (0 AggreVaTeD, 1 DAgger, None
        neither; Holm over all pairs)."""
        records = [(self.known[a], self.known[b]) for a, b in self.names]
        return [
            {
                "aggrevated": a,
                "dagger": b,
                "winner": winner,
                "difference": signed(difference(returns(self.known[a]), returns(self.known[b]))),
            }
            for (a, b), winner in zip(self.names, winners(records), strict=True)
        ]

    def over_pairs(self) -> dict[str, Interval]:
        """Interquartile means over all pairs, for both learners and their difference."""
        tasks = [pair(self.known[a], self.known[b], self.teachers) for a, b in self.names]
        return {
            "aggrevated": aggregate(tasks, "aggrevated"),
            "dagger": aggregate(tasks, "dagger"),
            "gain": aggregate(tasks, "aggrevated", minus="dagger"),
        }


@cache
def suite_scores() -> dict[str, Any]:
    """The scores of examples/mujoco for each learner: the interquartile mean with three intervals, and without
    Hopper."""
    everything, without = suite_tasks(), suite_tasks("Hopper-v5")
    found: dict[str, Any] = {
        name: {
            "published": aggregate(everything, name, episodes=False, stretch=False),
            "episodes": aggregate(everything, name, stretch=False),
            "all": aggregate(everything, name),
            "without_hopper": aggregate(without, name),
        }
        for name in LEARNERS
    }
    found["gain"] = signed(aggregate(everything, "aggrevated", minus="dagger"), 2)
    found["gain_without_hopper"] = signed(aggregate(without, "aggrevated", minus="dagger"), 2)
    found["ant"] = {name: float(x.mean()) for name, x in everything[-1].learners.items()}
    return found


def curves(label: str, learner: str, known: Mapping[str, Record]) -> list[Curve]:
    """Learning curves in examples/mujoco; PPO's come from its runs of a million steps, if there are any."""
    if learner != "ppo" or label not in LONG_PPO:
        return suite_curves(label, learner)
    record, other = (known[name] for name in LONG_PPO[label])
    return row_curves(record, record["random"], other["expert_mean"])


def costs_by_task(known: Mapping[str, Record]) -> list[dict[str, Any]]:
    """Costs of each learner until each of LEVELS, for each task of examples/mujoco."""
    return [
        {
            "task": label,
            "expert": part["expert"],
            "learner": LEARNERS[name],
            "costs": all_levels(curves(label, name, known)),
        }
        for label, part in suite().items()
        for name in LEARNERS
    ]


def costs_of_three(known: Mapping[str, Record]) -> list[list[Cost]]:
    """By level and learner, over all runs of the three tasks for which PPO was run to a million steps."""
    by_learner = [
        all_levels([curve for label in LONG_PPO for curve in curves(label, name, known)]) for name in LEARNERS
    ]
    return [[each[n] for each in by_learner] for n in range(len(LEVELS))]


def all_levels(found: list[Curve]) -> list[Cost]:
    return [costs(found, level) for level in LEVELS]


def spent(cost: Cost) -> str:
    """A cost as text, such as `4,000 steps, 4,000 answers, 2 s (5 of 5)`."""
    if math.isinf(cost.steps):
        return f"not reached ({cost.reached} of {cost.runs})"
    said = [f"{cost.steps:,.0f} steps"]
    said += [f"{cost.queries:,.0f} answers"] if cost.queries else []
    said += [] if cost.cpu_seconds is None else [f"{cost.cpu_seconds:,.0f} s"]
    return f"{', '.join(said)} ({cost.reached} of {cost.runs})"


def by_teacher(known: Mapping[str, Record], rows: Mapping[str, Record]) -> list[dict[str, Any]]:
    """Each teacher: its mean in the rows' records, its mean measured again, and its training steps."""
    found = []
    for spec, again in known["teachers"]["teachers"].items():
        means = {row["expert_return"] for row in rows.values() if row.get("expert") == spec}
        x = np.array(again["returns"])
        found.append(
            {
                "spec": spec,
                "env": again["env"],
                "then": ", ".join(f"{mean:,.1f}" for mean in sorted(means)),
                "now": f"{x.mean():,.1f} +- {x.std():,.1f}",
                "steps": KNOWN["teacher_steps"].get(spec),
            }
        )
    return found


def gain(one: Record, other: Record) -> str:
    """Mean difference of two settings of BC over their seeds, which share demonstrations, with its t interval."""
    differences = [one[seed]["mean"] - other[seed]["mean"] for seed in other]
    middle, error = np.mean(differences), stats.sem(differences)
    low, high = stats.t.interval(0.95, len(differences) - 1, middle, error)
    return f"{middle:+,.0f} [{low:,.0f}, {high:,.0f}]"


def reached(record: Record, goal: float) -> list[int]:
    """Training steps of each seed at its first validation of at least `goal`, without the seeds that never reached
    it."""
    first = [[steps for steps, mean, *_ in seed["curve"] if mean >= goal] for seed in record["seeds"]]
    return [steps[0] for steps in first if steps]
