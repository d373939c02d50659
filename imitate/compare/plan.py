"""What a comparison is, and the jobs that it comes to: the same number of environment steps for everyone."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from imitate.algorithms import ALGORITHMS, find
from imitate.envs.make import resolve_env_id
from imitate.errors import InputError, did_you_mean

__all__ = ["CURVE_PARTS", "Comparison", "Job", "demos_path", "jobs", "validation"]

CURVE_PARTS = (8, 4, 2)
"""Offline learners are also trained on the first 1/8, 1/4 and 1/2 of their demonstrations: their curve."""

DEMONSTRATING = ("one-action", "random")
"""Controls that have demonstrations of their own."""
DEMO_EPISODES = 10  # of learners that have an environment too: what is left of the budget is for that


@dataclass(frozen=True)
class Comparison:
    """One environment, one expert, several algorithms, each with `seeds` seeds and `budget` steps.

    budget           of environment steps: demonstrated ones, the learner's own and those of choosing its best
                     policy count; updates and the final test do not
    episodes         of the final test, the same for every learner, the expert and random actions
    num_envs         environments that a learner steps side by side; None: as its preset says
    hyperparameters  overrides of the presets: {"ppo": {"learning_rate": 1e-3}}

    An algorithm's controls (of GAIL, see `imitate.compare.audit`) join `algorithms`; they run with the first seed only.

    Raises InputError for an unknown environment or algorithm, an algorithm named twice or without the
    expert that it needs, or a number out of range.
    """

    env_id: str
    algorithms: tuple[str, ...]
    expert: str | None = None
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 3
    budget: int = 50_000
    episodes: int = 20
    num_envs: int | None = None
    device: str = "cpu"
    hyperparameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "algorithms", tuple(self.algorithms))
        object.__setattr__(self, "env_id", resolve_env_id(self.env_id))
        if not self.algorithms:
            raise InputError(f"no algorithm to compare; known: {', '.join(ALGORITHMS)}")
        for name in self.algorithms:
            needs_expert = {"demos", "expert"} & set(find(name).needs)
            if needs_expert and self.expert is None:
                raise InputError(f"{name} needs an expert: name one with --expert, or leave {name} out")
            if self.algorithms.count(name) > 1:
                raise InputError(f"algorithm {name!r} is named twice; name each once")
        controls = [f"{name}:{control}" for name in self.algorithms for control in _controls(name)]
        named = dict.fromkeys([*self.algorithms, *controls])
        object.__setattr__(self, "algorithms", tuple(named))
        for name, overrides in self.hyperparameters.items():
            if not isinstance(overrides, Mapping):
                raise InputError(
                    f"hyperparameters of {name} must be an object of names and values, got {overrides!r}"
                )
            if name not in self.algorithms:
                hint = did_you_mean(name, self.algorithms)
                raise InputError(f"hyperparameters of {name!r}, which is not in this comparison{hint}")
        for name, least in (("seeds", 1), ("budget", 100), ("episodes", 2), ("num_envs", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} must be at least {least}, got {value}")

    def to_json(self) -> dict[str, Any]:
        """Plain data, equal for equal comparisons: what says whether a folder can be gone on with."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "algorithms": tuple(data["algorithms"])})

    def is_control(self, name: str) -> bool:
        """Whether this one of the algorithms is another's control."""
        base, _, variant = name.partition(":")
        return base in self.algorithms and variant in _controls(base)

    @property
    def command(self) -> str:
        """The command line that repeats it (overrides of hyperparameters apart)."""
        words = ["imitate", "compare", "--env", self.env_id]
        if self.env_kwargs:
            words += ["--env-kwargs", json.dumps(dict(self.env_kwargs))]
        if self.expert is not None:
            words += ["--expert", self.expert]
        words += ["--algorithms", *self.algorithms]
        for name in ("seeds", "budget", "episodes", "num_envs"):
            if getattr(self, name) is not None:
                words += [f"--{name.replace('_', '-')}", str(getattr(self, name))]
        return shlex.join([*words, "--out", "report"])


def _controls(name: str) -> Mapping[str, str]:
    return {} if ":" in name else find(name).controls


@dataclass(frozen=True)
class Job:
    """One process's work: record a seed's demonstrations (`algorithm` "demos", or "demos:CONTROL" those of a
    control), or train and test a learner.

    steps          environment steps to spend
    demo_episodes  at most so many demonstrations; None: as many as `steps` allow
    eval_every     own steps after which the learner is tried on validation episodes, to keep its best policy
    eval_episodes  how many; 0: never
    parts          an offline learner is also trained on the first 1/n of its demonstrations, for n in `parts`
    """

    algorithm: str
    seed: int
    folder: Path
    steps: int
    demos: Path | None = None
    demo_episodes: int | None = None
    eval_every: int = 0
    eval_episodes: int = 0
    parts: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.algorithm}-seed{self.seed}"

    @property
    def records(self) -> bool:
        return self.algorithm.partition(":")[0] == "demos"


def jobs(comparison: Comparison, out: Path, episode_steps: float) -> list[Job]:
    """The recordings, then the learners, seed by seed. `episode_steps` is what an episode takes.

    Raises InputError where the budget is too small for the learners to choose a policy within it.
    """
    algorithms = {name: find(name) for name in comparison.algorithms}
    offline = [name for name, algorithm in algorithms.items() if algorithm.offline]
    recordings, learners = [], []
    for seed in range(comparison.seeds):
        demos = demos_path(out, seed)
        if any("demos" in algorithm.needs for algorithm in algorithms.values()):
            # Offline learners use all of the budget; others need a few episodes, the first of the same.
            episodes = None if offline else DEMO_EPISODES
            recordings.append(Job("demos", seed, demos.parent, comparison.budget, demos, episodes))
        for name, algorithm in algorithms.items():
            control = name.partition(":")[2] if comparison.is_control(name) else ""
            if control and seed:
                continue
            folder = out / "runs" / f"{name}-seed{seed}"
            use = demos if "demos" in algorithm.needs else None
            if control in DEMONSTRATING:
                use = demos_path(out, seed, control)
                steps = min(
                    int(DEMO_EPISODES * episode_steps), comparison.budget
                )  # about as many as the expert's
                recordings.append(Job(f"demos:{control}", seed, use.parent, steps, use))
            if algorithm.offline:
                learners.append(Job(name, seed, folder, comparison.budget, use, parts=CURVE_PARTS))
            else:
                episodes = DEMO_EPISODES if use == demos else None
                every, each = validation(comparison.budget, episode_steps)
                learners.append(Job(name, seed, folder, comparison.budget, use, episodes, every, each))
    return recordings + learners


def demos_path(out: Path, seed: int, control: str = "") -> Path:
    return out / "demos" / f"seed{seed}{control and '-'}{control}.h5"


def validation(budget: int, episode_steps: float) -> tuple[int, int]:
    """After how many own steps a learner is validated, and on how many episodes each time.

    About ten points make a curve, and five episodes or more tell policies apart, but their steps are taken
    from learning: a fifth of the budget is meant for them. Where that does not buy three times three
    episodes, they take up to half of it, fewer and fewer.
    """
    affordable = int(0.2 * budget / episode_steps)
    each = min(max(affordable // 8, 3), 10)
    times = min(max(affordable // each, 3), 10)
    for times, each in ((times, each), (2, 3), (2, 2), (2, 1), (1, 1)):  # noqa: B020
        cost = times * each * episode_steps
        if cost <= budget / 2:
            return int((budget - cost) / times), each
    raise InputError(
        f"a budget of {budget} steps is too small to learn and validate in, where an episode takes "
        f"{episode_steps:.0f} steps; give at least {int(2 * episode_steps) + 1}"
    )
