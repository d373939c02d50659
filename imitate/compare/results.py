"""What a comparison's folder holds when jobs have ended, read back, and the statistics of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from imitate.algorithms import find
from imitate.compare.plan import Comparison
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.files import write_json

__all__ = ["Entry", "Outcome", "Result", "interval", "read_outcome"]


@dataclass(frozen=True)
class Result:
    """One learner of one seed, as its job's `result.json` says.

    curve             (environment steps counted so far, mean return) of each validation
    final             the Evaluation of its best policy on the test episodes, as JSON
    env_steps         that the learner took itself; with demo_steps and validation_steps the whole budget
    wall_seconds      of recording its demonstrations, training and validating; the final test not
    hyperparameters   complete
    stepped           what its environments were: num_envs and backend; empty where it stepped none
    """

    algorithm: str
    seed: int
    curve: Sequence[tuple[int, float]]
    final: Mapping[str, Any]
    expert_queries: int
    env_steps: int
    demo_steps: int
    validation_steps: int
    wall_seconds: float
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    stepped: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        return float(self.final["mean"])

    def save(self, folder: Path) -> None:
        write_json(folder / "result.json", asdict(self))

    @classmethod
    def load(cls, folder: Path) -> Result | None:
        """None where the job has not ended."""
        path = folder / "result.json"
        return cls(**json.loads(path.read_text())) if path.is_file() else None


@dataclass(frozen=True)
class Entry:
    """All seeds of one algorithm."""

    algorithm: str
    results: Sequence[Result]

    @property
    def title(self) -> str:
        return find(self.algorithm).title

    @property
    def mean(self) -> float:
        return float(np.mean([result.mean for result in self.results]))

    @property
    def ci95(self) -> tuple[float, float]:
        """Of the mean, see `interval`: over seeds and episodes."""
        return interval([result.final["returns"] for result in self.results])

    @property
    def iqm(self) -> float:
        """Interquartile mean over all test episodes of all seeds (arXiv:2108.13264)."""
        return float(stats.trim_mean(np.concatenate([r.final["returns"] for r in self.results]), 0.25))

    @property
    def typical(self) -> Result:
        """Of the seeds the one of median return: neither the luckiest nor the worst."""
        return sorted(self.results, key=lambda result: result.mean)[(len(self.results) - 1) // 2]

    def average(self, name: str) -> float:
        """Mean over the seeds of a number in the results, e.g. `wall_seconds`."""
        return float(np.mean([getattr(result, name) for result in self.results]))

    def curve(self) -> tuple[Array, Array, Array, Array]:
        """Steps, mean return, and the ends of its interval over the seeds (NaN of one seed): (P,) each.

        Seeds validate at slightly different steps, since iterations end with an episode: each seed's curve is
        read, linearly, at the first one's steps, as far as all of them reach.
        """
        curves = [np.asarray(result.curve, float).reshape(-1, 2) for result in self.results]
        curves = [curve for curve in curves if len(curve)]
        if not curves:
            return (np.empty(0),) * 4
        first, last = max(curve[0, 0] for curve in curves), min(curve[-1, 0] for curve in curves)
        steps = np.unique(np.clip(curves[0][:, 0], first, last))
        returns = np.stack([np.interp(steps, curve[:, 0], curve[:, 1]) for curve in curves])  # (seeds, P)
        if len(curves) == 1:
            ends = np.full((len(steps), 2), np.nan)
        else:
            ends = np.array([interval(column[:, None]) for column in returns.T])
        return steps, returns.mean(0), ends[:, 0], ends[:, 1]


@dataclass(frozen=True)
class Outcome:
    """A whole comparison: learners in its order, those without a finished job left out.

    expert    {"spec", "source", "published_return", "evaluation"}; None: no expert was named
    random    the Evaluation of random actions on the same episodes, as JSON
    failures  what went wrong: a line a job
    videos    of the expert and the learners, with the return of what is shown
    """

    comparison: Comparison
    learners: Sequence[Entry]
    expert: Mapping[str, Any] | None
    random: Mapping[str, Any]
    failures: Sequence[str]
    videos: Mapping[str, tuple[Path, float]]

    @property
    def expert_mean(self) -> float | None:
        return None if self.expert is None else float(self.expert["evaluation"]["mean"])

    @property
    def random_mean(self) -> float:
        return float(self.random["mean"])

    def share(self, value: float) -> float | None:
        """0 where `value` is random's mean, 1 where the expert's; None where the expert is no better."""
        if self.expert_mean is None or self.expert_mean <= self.random_mean:
            return None
        return (value - self.random_mean) / (self.expert_mean - self.random_mean)

    def place(self, learner: Entry) -> int:
        """In the comparison's order, whether or not the others came to an end: what colours go by."""
        return self.comparison.algorithms.index(learner.algorithm)

    def ranked(self) -> list[Entry]:
        return sorted(self.learners, key=lambda learner: -learner.mean)


def interval(returns: Sequence[Sequence[float]] | Array) -> tuple[float, float]:
    """95 % percentile-bootstrap interval of the mean of returns (seeds, episodes): seeds are drawn, and
    episodes within each (arXiv:2108.13264).

    Of two or three seeds a t-interval would be many times as wide as what was seen, beyond what is possible;
    this one is about as wide as the seeds are apart, which is too narrow: more seeds make it right.
    """
    table = np.asarray(returns, float)
    (seeds, episodes), rng = table.shape, np.random.default_rng(0)
    drawn_seeds = rng.integers(seeds, size=(2_000, seeds, 1))
    drawn_episodes = rng.integers(episodes, size=(2_000, seeds, episodes))
    low, high = np.percentile(table[drawn_seeds, drawn_episodes].mean((1, 2)), (2.5, 97.5))
    return float(low), float(high)


def read_outcome(out: Path) -> Outcome:
    """Raises InputError where `out` holds no comparison, or one of which nothing has ended."""
    try:
        comparison = Comparison.from_json(json.loads((out / "comparison.json").read_text()))
        references = json.loads((out / "references.json").read_text())
    except FileNotFoundError as error:
        raise InputError(f"{out} holds no comparison to report ({error.filename} is missing)") from error
    learners = []
    for name in comparison.algorithms:
        folders = [out / "runs" / f"{name}-seed{seed}" for seed in range(comparison.seeds)]
        results = [result for folder in folders if (result := Result.load(folder))]
        if results:
            learners.append(Entry(name, results))
    failures = [
        str(json.loads(path.read_text())["error"]) for path in sorted((out / "errors").glob("*.json"))
    ]
    videos = {}
    for note in sorted((out / "videos").glob("*.json")):
        videos[note.stem] = (note.with_suffix(".mp4"), float(json.loads(note.read_text())["episode_return"]))
    return Outcome(comparison, learners, references["expert"], references["random"], failures, videos)
