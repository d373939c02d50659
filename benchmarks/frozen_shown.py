"""The frozen measurement as RESULTS.md shows it: returns beside the teacher's, scores over all tasks, and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from evidence import (
    BENCHMARKS,
    KNOWN,
    LEAST_SEEDS,
    Array,
    Cost,
    Curve,
    Interval,
    Task,
    aggregate,
    costs,
    iqm_of,
    share,
)
from frozen_rows import Plan, name_of, read_plan

from imitate.compare.statistics.intervals import Difference, difference, holm

TITLES = {
    "bc": "BC",
    "bc-1-episode": "BC, 1 episode",
    "dagger": "DAgger",
    "aggrevated": "AggreVaTeD",
    "gail": "GAIL",
    "gail-clone": "GAIL's clone",
    "loki": "LOKI",
    "qdagger": "QDagger",
    "guided": "guided",
    "ppo": "PPO",
    "ppo-1m": "PPO, 1 M steps",
    "dqn": "DQN",
    "sac": "SAC",
    "tqc": "TQC",
}


@dataclass(frozen=True)
class Frozen:
    """The record that benchmarks/frozen.py writes, which may have few of its runs so far."""

    record: Mapping[str, Any]

    @cached_property
    def plan(self) -> Plan:
        return read_plan(BENCHMARKS / "frozen.toml")

    @property
    def learners(self) -> dict[str, str]:
        """Titles of the learners that have a run."""
        return {
            name: title
            for name, title in TITLES.items()
            if any(self.runs(name, task) for task in self.plan.tasks)
        }

    @property
    def done(self) -> int:
        return sum(len(row["seeds"]) for row in self.record["rows"].values())

    @property
    def on_gpu(self) -> int:
        """Runs that learned on a GPU."""
        runs = [run for row in self.record["rows"].values() for run in row["seeds"].values()]
        return sum(run.get("config", {}).get("device") == "cuda" for run in runs)

    @property
    def failures(self) -> list[str]:
        """Rows and seeds that ended with an error, and the error."""
        return [
            f"{row}, seed {seed}: {run['failed']}"
            for row, about in self.record["rows"].items()
            for seed, run in about["seeds"].items()
            if "failed" in run
        ]

    def runs(self, learner: str, task: str) -> list[dict[str, Any]]:
        """The results of a learner's seeds on a task, by seed; none if the plan does not have it there."""
        row = self.record["rows"].get(name_of(learner, task, self.plan), {"seeds": {}})
        return [row["seeds"][seed] for seed in sorted(row["seeds"], key=int)]

    def distinct_runs(self, learner: str) -> int:
        """Runs of a learner. One without a teacher is only one run, though `runs` has it for each task of its
        environment."""
        rows = {name_of(learner, task, self.plan) for task in self.plan.tasks}
        return sum(len(self.record["rows"][row]["seeds"]) for row in rows if row in self.record["rows"])

    def reference(self, who: str, task: str, part: str = "returns") -> Array:
        """Returns (E,) of `teacher` or `random` in the test, or in the curves' episodes (`curve`)."""
        return np.array(self.record["references"][task][who][part], float)

    def returns(self, learner: str, task: str) -> Array:
        """Test returns (S, E). A run that failed counts as random actions."""
        random = self.reference("random", task)
        return np.array([run.get("returns", random) for run in self.runs(learner, task)], float)

    def cell(self, learner: str, task: str) -> str:
        """Mean return, bold if it is above the teacher's, with the number of seeds."""
        found = self.returns(learner, task)
        if not len(found):
            return ""
        said = f"{found.mean():,.0f} ({len(found)})"
        if len(found) < LEAST_SEEDS:
            return said
        return f"**{said}**" if difference(found, self.reference("teacher", task)).low > 0 else said

    def short(self, learner: str, task: str) -> str:
        """Mean return, with the number of seeds if some of the plan's are missing."""
        found = self.returns(learner, task)
        planned = self.plan.learners[learner].seeds or len(self.plan.seeds)
        seeds = "" if len(found) == planned else f" ({len(found)})"
        return f"{found.mean():,.0f}{seeds}" if len(found) else ""

    def minus(self, learner: str, task: str) -> Difference:
        """A learner minus its teacher, paired by episode."""
        return difference(self.returns(learner, task), self.reference("teacher", task))

    def above(self, tasks: Sequence[str], learners: Sequence[str]) -> set[tuple[str, str]]:
        """The (task, learner) that are above their teacher, at the 5 % level with Holm's correction over all that have
        enough seeds."""
        enough = [
            (task, learner)
            for task in tasks
            for learner in learners
            if len(self.runs(learner, task)) >= LEAST_SEEDS
        ]
        found = [self.minus(learner, task) for task, learner in enough]
        adjusted = holm([each.p for each in found])
        return {
            name for name, each, p in zip(enough, found, adjusted, strict=True) if each.mean > 0 and p < 0.05
        }

    def tasks(self, learner: str, *, to_best: bool = False) -> list[Task]:
        """Every task that the learner has a run of; with `to_best` a score of 1 is the best return known."""
        return [
            Task(
                task.env,
                np.full(self.record["episodes"], KNOWN["best"][task.env]["return"])
                if to_best
                else self.reference("teacher", name),
                self.reference("random", name),
                {learner: self.returns(learner, name)},
            )
            for name, task in self.plan.tasks.items()
            if self.runs(learner, name)
        ]

    def score(self, learner: str, *, to_best: bool = False) -> Interval | float:
        """Interquartile mean of all runs' scores; without an interval where a task has few seeds."""
        tasks = self.tasks(learner, to_best=to_best)
        few = min(len(task.learners[learner]) for task in tasks) < LEAST_SEEDS
        return iqm_of(tasks, learner) if few else aggregate(tasks, learner)

    def cost(self, learner: str, level: float = 0.95) -> Cost:
        """Median cost until a run is at this share of the way from random actions to its teacher."""
        curves = [self.curve(task, run) for task in self.plan.tasks for run in self.runs(learner, task)]
        return costs(curves, level)

    def curve(self, task: str, run: Mapping[str, Any]) -> Curve:
        """A run's curve on episodes of its own; BC, which has none, has its end in the test."""
        spent = {"steps": run.get("demo_steps"), "queries": run.get("expert_queries")}
        part, points = "curve", run.get("curve", [])
        if "curve" not in run and "returns" in run:
            part, points = "returns", [run | spent]
        low, high = (float(self.reference(who, task, part).mean()) for who in ("random", "teacher"))
        return [
            (p["steps"], p["queries"], p["cpu_seconds"], share(float(np.mean(p["returns"])), low, high))
            for p in points
            if p["steps"]
        ]


def scored(found: Interval | float) -> str:
    """A score, with its interval if it has one."""
    if isinstance(found, float):
        return f"{found:.2f}"
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"
