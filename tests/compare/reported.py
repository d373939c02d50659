"""A finished comparison, made up: learners with returns that a reader can check."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from imitate.compare.plan.comparison import POINTS, Comparison
from imitate.compare.statistics.finished_runs import read_outcome
from imitate.compare.statistics.job_results import ExpertFacts, Point, Reference, References, Result
from imitate.compare.statistics.outcome import Outcome
from imitate.files import write_json

BUDGET = 1_600


def result(algorithm: str, seed: int, returns: list[float], **other: Any) -> Result:
    """Its curve climbs straight from 20, what random actions get, to its mean return, in 16 parts of 100 steps."""
    online, mean = algorithm != "bc", float(np.mean(returns))
    asks = algorithm.removeprefix("sb3:") not in ("ppo", "dqn", "a2c", "reinforce")
    curve = [
        Point(100 * n, 50 * n if asks else 0, 2.0 * n, [20 + (mean - 20) * n / POINTS] * 2)
        for n in range(POINTS + 1)
    ]
    facts: dict[str, Any] = {
        "curve": curve,
        "lengths": [10] * len(returns),
        "expert_queries": 800 if asks else 0,
        "env_steps": BUDGET if online else 0,
        "demo_steps": 0 if online else BUDGET,
        "cpu_seconds": 12.0 + seed,
        "hyperparameters": {"learning_rate": 1e-3, "note": "</pre><script>alert(1)</script>"},
        "stepped": {"num_envs": 4, "backend": "envpool"} if online else {},
        "versions": {"python": "3.11", "imitate-rl": "0"},
        "machine": {"cpu": "a 486", "os": "Linux"},
    }
    return Result("CartPole-v1", algorithm, seed, BUDGET, returns=returns, **(facts | other))


def five(low: float, high: float) -> list[list[float]]:
    """Five seeds of two episodes: means from `low` to `high`, episodes 5 below and above."""
    return [[mean - 5, mean + 5] for mean in np.linspace(low, high, 5)]


RETURNS = {"bc": five(390, 410), "dagger": five(500, 500), "ppo": five(100, 180)}
"""Of the way from 20 to 500: 79 %, 100 % and 25 %."""


def fill(
    out: Path,
    returns: dict[str, list[list[float]]] = RETURNS,
    expert: float | None = 500.0,
    changes: dict[str, Any] | None = None,
    **fields: Any,
) -> Path:
    """A folder as `carry_out` leaves it."""
    names = tuple(name for name in returns if ":" not in name)
    seeds = max(1, *map(len, returns.values()))
    settings = {"expert": "CartPole-v1", "seeds": seeds, "budget": BUDGET, "episodes": 2} | fields
    comparison = Comparison("CartPole-v1", names, **settings)
    write_json(out / "comparison.json", comparison.to_json())
    facts = None
    if expert is not None:
        measured = Reference([expert - 5, expert + 5], [10, 10], [expert, expert])
        facts = ExpertFacts("CartPole-v1", "DQN on CartPole-v1", "0123456789abcdef" * 4, None, measured)
    references = References("key", 10.0, True, Reference([18.0, 22.0], [10, 10], [20.0, 20.0]), facts)
    write_json(out / "references.json", asdict(references))
    index = {}
    for name in (*names, *comparison.controls):
        for seed in range(comparison.first_seed, comparison.first_seed + (1 if ":" in name else seeds)):
            index[f"{name}-seed{seed}"] = f"runs/{name.replace(':', '-')}-seed{seed}-0123456789"
    write_json(out / "runs.json", index)
    for name, seed_returns in returns.items():
        for seed, final in enumerate(seed_returns, comparison.first_seed):
            result(name, seed, final, **(changes or {})).save(out / index[f"{name}-seed{seed}"])
    return out


def outcome(tmp_path: Path, *args: Any, **fields: Any) -> Outcome:
    return read_outcome(fill(tmp_path / "out", *args, **fields))
