"""The plan of a comparison and its jobs: every learner gets the same number of environment steps."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

import msgspec

from imitate.algorithms import ALGORITHMS
from imitate.compare.plan.learners import base, code_of_learner, find, is_own
from imitate.configs.shared import convert_fields
from imitate.envs.make import resolve_env_id
from imitate.envs.vec import MOST_ENVS
from imitate.errors import LARGEST, InputError, check_range, did_you_mean, one_line
from imitate.files import versions
from imitate.toml import as_toml
from imitate.training.settings import REMEDIES, over, variant_settings

__all__ = [
    "DEMO_SHARE",
    "POINTS",
    "Comparison",
    "Job",
    "digest",
    "file_name",
    "is_given",
    "jobs",
    "overrides",
]

POINTS = 16
"""Points of a learning curve: every learner is measured after 0, 1/16, 2/16 ... of the budget."""
DEMONSTRATING = ("one-action", "random")
"""Controls with their own demonstrations."""
DEMO_EPISODES = 10
"""Maximum number of demonstrations for a learner that also has an environment; it gets as many as DEMO_SHARE of its
budget pays for, but at least one."""
DEMO_SHARE = 0.25


@dataclass(frozen=True)
class Comparison:
    """One environment, one expert, several algorithms, each with `seeds` seeds and `budget` steps.

    first_seed       the seeds are this one and those that follow it
    budget           environment steps of a run: demonstrations, the learner's own steps, and validations if there are
                     any. The last policy is measured, unless `keep_closest`
    episodes         number of test episodes, the same ones for every learner, the expert and random actions
    curve_episodes   number of episodes for each point of a learning curve. They differ from the test's, are the same
                     for everyone, and do not count against the budget
    num_envs         environments that a learner steps side by side; None: the preset's number
    demo_episodes    number of demonstrations of every learner that has some; None: for a learner with an environment at
                     most 10, as many as a quarter of its budget pays for but at least 1, and for another the whole
                     budget
    demo_every       learn from each n-th step of the demonstrations only; they cost what they cost whole
    keep_closest     learners whose preset keeps the policy that is closest to the demonstrations (SQIL, IQ-Learn) do so
                     here, which sees no reward; their last policy is measured beside it
    audit            False: without the controls
    hyperparameters  overrides of the presets: {"ppo": {"learning_rate": 1e-3}}; those of "ppo@wide" apply to the
                     learner "ppo@wide"

    The controls of an algorithm (GAIL has some, see `imitate.compare.execute.audit`) run with the first seed only. They
    are an audit and take no part in the comparison.

    Raises InputError for an unknown environment or algorithm, an algorithm named twice or without the expert that it
    needs, a value of another type, or a number out of range.
    """

    env_id: str
    algorithms: tuple[str, ...]
    expert: str | None = None
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    seeds: int = 5
    first_seed: int = 0
    budget: int = 50_000
    episodes: int = 20
    curve_episodes: int = 10
    num_envs: int | None = None
    demo_episodes: int | None = None
    demo_every: int = 1
    keep_closest: bool = False
    audit: bool = True
    device: str = "cpu"
    hyperparameters: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        convert_fields(self, REMEDIES)
        object.__setattr__(self, "env_id", resolve_env_id(self.env_id))
        if not self.algorithms:
            raise InputError(f"no algorithm to compare; known: {', '.join(ALGORITHMS)}")
        for name in self.algorithms:
            if not is_own(name):  # the user's are imported when they run
                _check_expert(self, name)
            if self.algorithms.count(name) > 1:
                raise InputError(f"algorithm {name!r} is named twice; name each once")
        for name in self.hyperparameters:
            if name not in self.everybody:
                hint = did_you_mean(name, self.everybody)
                raise InputError(f"hyperparameters of {name!r}, which is not in this comparison{hint}")
        check_range(self, 1, 10_000, "seeds", "curve_episodes")
        check_range(self, 1, LARGEST, "demo_every", "demo_episodes")
        check_range(self, 2, 10_000, "episodes")
        check_range(self, 0, LARGEST, "first_seed")
        check_range(self, 100, LARGEST, "budget")
        check_range(self, 1, MOST_ENVS, "num_envs")

    @property
    def everybody(self) -> tuple[str, ...]:
        """The learners and the controls."""
        return *self.algorithms, *self.controls

    @property
    def controls(self) -> dict[str, str]:
        """The runs that audit one of the algorithms, such as `gail:random`, each with its description."""
        return {
            f"{name}:{control}": what
            for name in self.algorithms
            if self.audit and name in ALGORITHMS
            for control, what in ALGORITHMS[name].controls.items()
            if f"{name}:{control}" not in self.algorithms
        }

    def to_json(self) -> dict[str, Any]:
        """Plain data, equal for equal comparisons."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    def to_toml(self) -> str:
        """A file that `imitate compare` takes. Raises InputError if a setting has a null in it."""
        return as_toml({name: value for name, value in self.to_json().items() if value is not None})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The comparison in plain data. Raises InputError for an unknown name, and for values of another type."""
        known = [each.name for each in fields(cls)]
        for name in data:
            if name not in known:
                raise InputError(f"a comparison has no {name!r}{did_you_mean(name, known)}")
        try:
            return msgspec.convert(dict(data), cls)
        except msgspec.ValidationError as error:
            raise InputError(f"a comparison that can't be used: {one_line(error)}") from error

    def changed(self, add: Sequence[str] = (), **given: Any) -> Self:
        """A copy with other fields and more learners, as `over`."""
        return self.over(self.to_json(), add, **given)

    @classmethod
    def over(cls, data: Mapping[str, Any], add: Sequence[str] = (), **given: Any) -> Self:
        """The comparison in plain data, with other fields and more learners. A learner without hyperparameters in
        `given` keeps its own; those of learners that are dropped are dropped too. Raises InputError as `from_json`
        does."""
        plain = dict(data) | given
        if isinstance(plain["algorithms"], list | tuple):
            plain["algorithms"] = list(dict.fromkeys((*plain["algorithms"], *add)))
        known = cls.from_json(plain | {"hyperparameters": {}}).everybody
        stored, others = data.get("hyperparameters", {}), given.get("hyperparameters", {})
        if isinstance(stored, Mapping) and isinstance(others, Mapping):
            kept = {name: own for name, own in stored.items() if name in known}
            plain["hyperparameters"] = kept | dict(others)
        return cls.from_json(plain)

    @property
    def command(self) -> str:
        """The command line that repeats this comparison."""
        words = ["imitate", "compare", "--env", self.env_id]
        if self.env_kwargs:
            words += ["--env-kwargs", json.dumps(self.env_kwargs)]
        if self.expert is not None:
            words += ["--expert", self.expert]
        words += ["--algorithms", *self.algorithms]
        always = ("seeds", "budget", "episodes", "curve_episodes")
        others = ("num_envs", "demo_episodes", "demo_every", "keep_closest", "audit", "first_seed", "device")
        for name in (*always, *others):
            value = getattr(self, name)
            if name in always or value != getattr(Comparison, name):
                words += [f"--{name.replace('_', '-')}", str(value)]
        if self.hyperparameters:
            words += ["--hyperparameters", json.dumps(self.hyperparameters)]
        return shlex.join([*words, "--out", "report"])


@dataclass(frozen=True)
class Job:
    """The work of one process: record the demonstrations of a seed, or train, measure and test a learner.

    algorithm      the learner; "demos" records demonstrations, and "demos:CONTROL" those of a control
    folder         of the run. Its name ends with a hash of everything that its result depends on, so a comparison
                   finds exactly those earlier runs that it would repeat
    steps          environment steps to spend
    demo_episodes  number of demonstrations, at most if the comparison names none; None: as many as `steps` allow
    """

    algorithm: str
    seed: int
    folder: Path
    steps: int
    demos: Path | None = None
    demo_episodes: int | None = None

    @property
    def name(self) -> str:
        return f"{self.algorithm}-seed{self.seed}"

    def moved(self, move: Callable[[Path], Path]) -> Job:
        """A copy with `move` applied to its paths."""
        return replace(self, folder=move(self.folder), demos=None if self.demos is None else move(self.demos))

    @property
    def records(self) -> bool:
        return self.algorithm.partition(":")[0] == "demos"


def jobs(comparison: Comparison, out: Path, episode_steps: float, made_from: str = "") -> list[Job]:
    """The recordings, then the learners, seed by seed. `episode_steps` is the typical length of an episode, and
    `made_from` the hashes of the expert and the user's own code (`References`).

    Raises InputError if a learner lacks the expert that it needs.
    """
    common = {
        "env": [comparison.env_id, comparison.env_kwargs],
        "expert": [comparison.expert, made_from],
        "budget": comparison.budget,
        "versions": versions(),
    } | _demonstrated(comparison)
    for name in comparison.algorithms:
        _check_expert(comparison, name)
    algorithms = {name: find(name) for name in (*comparison.algorithms, *comparison.controls)}
    offline = any(algorithm.offline for algorithm in algorithms.values())
    recordings: dict[Path, Job] = {}  # the controls of GAIL and DAC share theirs
    learners = []
    for seed in range(comparison.first_seed, comparison.first_seed + comparison.seeds):
        demos = out / "demos" / f"seed{seed}-{digest(common, offline)}.h5"
        if any("demos" in algorithm.needs for algorithm in algorithms.values()):
            episodes = _shown(comparison, offline=offline)
            recordings[demos] = Job("demos", seed, demos.parent, comparison.budget, demos, episodes)
        for name, algorithm in algorithms.items():
            if name in comparison.controls and seed != comparison.first_seed:
                continue
            use = demos if "demos" in algorithm.needs else None
            control = base(name).partition(":")[2]
            if control in algorithm.controls and control in DEMONSTRATING:
                use = out / "demos" / f"seed{seed}-{control}-{digest(common)}.h5"
                steps = min(_control_steps(comparison, episode_steps), comparison.budget)
                recordings[use] = Job(f"demos:{control}", seed, use.parent, steps, use)
            key = digest(
                common, name, overrides(comparison, name), comparison.num_envs, comparison.device,
                comparison.curve_episodes, code_of_learner(name), *(("closest",) if comparison.keep_closest else ()),
            )  # fmt: skip
            folder = out / "runs" / f"{file_name(name)}-seed{seed}-{key}"
            episodes = _shown(comparison, offline=algorithm.offline) if use == demos else None
            learners.append(Job(name, seed, folder, comparison.budget, use, episodes))
    return [*recordings.values(), *learners]


def _check_expert(comparison: Comparison, name: str) -> None:
    """Raise InputError for an unknown learner, and if it needs an expert and there is none."""
    if {"demos", "expert"} & {*find(name).needs} and comparison.expert is None:
        raise InputError(
            f"{name} needs an expert: name one with --expert, in a suite's file with `expert`, "
            f"or leave {name} out"
        )


def _shown(comparison: Comparison, *, offline: bool) -> int | None:
    """Maximum number of demonstrations. Offline learners spend the whole budget on them, unless their number is given;
    others take the first few of the same episodes."""
    return comparison.demo_episodes if comparison.demo_episodes is not None or offline else DEMO_EPISODES


def _control_steps(comparison: Comparison, episode_steps: float) -> int:
    """Steps of a control's own demonstrations, of an expert's length."""
    if comparison.demo_episodes is not None:
        return int(comparison.demo_episodes * episode_steps)
    return min(
        int(DEMO_EPISODES * episode_steps), max(int(DEMO_SHARE * comparison.budget), int(episode_steps))
    )


def _demonstrated(comparison: Comparison) -> dict[str, Any]:
    """The choice of demonstrations; nothing for the default, so that it keeps its hashes."""
    if comparison.demo_episodes is None and comparison.demo_every == 1:
        return {}
    return {"demo_episodes": comparison.demo_episodes, "demo_every": comparison.demo_every}


def overrides(comparison: Comparison, name: str) -> dict[str, Any]:
    """The settings given for a learner. Those of its algorithm are overridden by its variant's, and these by its
    own."""
    plain, given = base(name), comparison.hyperparameters
    found = over(given.get(plain.partition(":")[0], {}), variant_settings(plain))
    for each in dict.fromkeys((plain, name)):
        found = over(found, given.get(each, {}))
    return found


def is_given(comparison: Comparison, name: str) -> bool:
    """True if the comparison has settings for the learner or for its algorithm."""
    plain = base(name)
    return any(comparison.hyperparameters.get(each) for each in (plain.partition(":")[0], plain, name))


def file_name(name: str) -> str:
    """A learner's name in file names: `gail-random`."""
    return name.replace(":", "-")


def digest(*parts: Any) -> str:
    """Ten hexadecimal digits that differ if the plain data differs."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:10]
