"""The runs of examples/mujoco, read from its archive: test returns, learning curves, and GAIL's initial clones."""

from __future__ import annotations

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from evidence import BENCHMARKS, LEARNERS, Curve, Task, share
from scipy import stats

SUITE = BENCHMARKS.parent / "examples" / "mujoco" / "runs.tar.gz"


@cache
def suite(path: Path = SUITE) -> dict[str, dict[str, Any]]:
    """The runs of examples/mujoco by environment: the `references`, and the results of each learner's seeds."""
    with tarfile.open(path) as archive:
        files = {
            member.name: json.load(archive.extractfile(member) or archive)
            for member in archive
            if member.isfile() and member.name.endswith(".json")
        }
    found: dict[str, dict[str, Any]] = {}
    for label in files["suite.json"]["parts"]:
        learners: dict[str, list[Any]] = {}
        for name, place in files[f"{label}/runs.json"].items():
            learners.setdefault(name.rpartition("-seed")[0], []).append(files[f"{label}/{place}/result.json"])
        comparison = files[f"{label}/comparison.json"]
        found[label] = {"references": files[f"{label}/references.json"], "expert": comparison["expert"]}
        found[label] |= {"learners": learners, "budget": comparison["budget"]}
    return found


def suite_tasks(*without: str) -> list[Task]:
    """The tasks of examples/mujoco, except those named."""
    return [
        Task(
            label,
            np.array(part["references"]["expert"]["measured"]["returns"]),
            np.array(part["references"]["random"]["returns"]),
            {name: np.array([run["returns"] for run in part["learners"][name]]) for name in LEARNERS},
        )
        for label, part in suite().items()
        if label not in without
    ]


def suite_curves(label: str, learner: str) -> list[Curve]:
    """Learning curves of all seeds: (steps, expert's answers, CPU seconds, score), without the untrained policy."""
    part = suite()[label]
    references = part["references"]
    low = float(np.mean(references["random"]["curve"]))
    high = float(np.mean(references["expert"]["measured"]["curve"]))
    return [
        [
            (p["steps"], p["queries"], p["cpu_seconds"], share(float(np.mean(p["returns"])), low, high))
            for p in run["curve"]
            if p["steps"]
        ]
        for run in part["learners"][learner]
    ]


def clones() -> dict[str, dict[str, float]]:
    """GAIL by environment: mean returns of its initial `clone` and of the final policy, `gail`, both on the curves'
    episodes; `over all` has the interquartile means of their scores.

    PPO does not change the policy in its first rollouts (`value_warmup`), so the first policy of the curve after the
    first rollout is the clone.
    """
    found: dict[str, dict[str, float]] = {}
    scores: dict[str, list[float]] = {"clone": [], "gail": []}
    for label, part in suite().items():
        references = part["references"]
        low = np.mean(references["random"]["curve"])
        high = np.mean(references["expert"]["measured"]["curve"])
        runs = [[point["returns"] for point in run["curve"]] for run in part["learners"]["gail"]]
        means = {
            "clone": [np.mean(next(x for x in points if x != points[0])) for points in runs],
            "gail": [np.mean(points[-1]) for points in runs],
        }
        found[label] = {who: float(np.mean(each)) for who, each in means.items()}
        for who, each in means.items():
            scores[who] += [share(float(mean), float(low), float(high)) for mean in each]
    return found | {"over all": {who: float(stats.trim_mean(each, 0.25)) for who, each in scores.items()}}
