"""`Experiment` describes a training run completely: it is the run's config.json. `execute` carries it out.

Nothing here imports torch before it is needed, so that a command line is checked at once.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from imitate import experts
from imitate.algorithms import find, is_own
from imitate.configs.shared import convert_fields
from imitate.envs import resolve_backend
from imitate.envs.make import is_installed, resolve_env_id
from imitate.envs.vec import MOST_ENVS
from imitate.errors import LARGEST, InputError, check_range, did_you_mean, one_line
from imitate.experts.sources import is_callable
from imitate.files import read_json, versions, write_json
from imitate.imitators.reward_files import reward_sha256
from imitate.toml import as_toml, read_toml
from imitate.training.needs import check_needs, check_widths
from imitate.training.person import is_person
from imitate.training.settings import REMEDIES, RUN_FIELDS, make_config, over, tuned

__all__ = ["Experiment", "resolve_device"]


_OFFLINE_BUDGET = 100_000_000
"""Demonstrations count as steps, and offline learners take no others."""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Everything a run depends on, with complete `hyperparameters`. Steps are environment steps.

    env_id            an offline learner's may be missing here: then spaces are those of `demos`, and nothing is
                      evaluated
    budget            demonstration, training and validation steps together
    expert, demos     what to learn from: an expert's spec, a file of demonstrations
    other_experts     specs of further experts, each to be imitated where it is best
    vecnormalize      statistics for a zipped expert, instead of those in its folder; "none": don't normalise
    demo_episodes     learn only from this many episodes of `demos`, the first ones
    init              a run whose policy to start from
    reward            a run whose learned reward takes the place of the environment's in training; everything that is
                      measured stays true. `reward_sha256` is its hash, and a run with another one is rejected
    backend           steps the learner's environments (see `imitate.envs.vectorize`). `execute` requires it resolved,
                      not "auto", so that a repeated run uses the same one. Policies are evaluated on gymnasium
    episodic_life     for Atari on backend ale, in training only: the loss of a life ends an episode
    clip_rewards      for Atari on backend ale, in training only: learn from the sign of rewards
    eval_every        training steps between validations (iterations of an offline learner); 0: never validate, keep
                      the last policy
    validate_by       "return", or "demos": keep the policy whose episodes are closest to the demonstrations
    checkpoint_every  training steps (or iterations) between checkpoints; these wait until a few episodes have ended,
                      since each checkpoint begins new episodes. 0: save only when interrupted
    device            "cpu" or "cuda"

    Raises InputError for an unknown algorithm, for values of another type and for values out of range.
    """

    algorithm: str
    env_id: str
    hyperparameters: dict[str, Any]
    env_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    expert: str | None = None
    other_experts: tuple[str, ...] = ()
    vecnormalize: str | None = None
    demos: str | None = None
    demo_episodes: int | None = None
    init: str | None = None
    reward: str | None = None
    reward_sha256: str = ""
    seed: int = 0
    budget: int = 100_000
    num_envs: int = 8
    backend: str = "gymnasium"
    episodic_life: bool = False
    clip_rewards: bool = False
    eval_every: int = 0
    eval_episodes: int = 10
    validate_by: Literal["return", "demos"] = "return"
    checkpoint_every: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        convert_fields(self, REMEDIES)
        if not is_own(self.algorithm):  # importing a class of the user's waits until it is needed
            find(self.algorithm)
        check_range(self, 1, MOST_ENVS, "num_envs", "eval_episodes")  # these are played side by side
        check_range(self, 1, LARGEST, "budget")
        check_range(self, 0, LARGEST, "seed", "eval_every", "checkpoint_every")
        check_range(self, 1, LARGEST, "demo_episodes")

    @property
    def experts(self) -> tuple[str, ...]:
        """All specs of experts."""
        return (*((self.expert,) if self.expert is not None else ()), *self.other_experts)

    @classmethod
    def create(
        cls, algorithm: str, env_id: str, *, hyperparameters: Mapping[str, Any] | None = None, **run: Any
    ) -> Experiment:
        """The preset of (algorithm, environment) with the given settings changed; paths may be strings or Paths.

        Raises InputError for an unknown algorithm, environment or hyperparameter, for values out of range, and if
        demonstrations or an expert are missing.
        """
        return cls.preset(algorithm, env_id).changed(hyperparameters, **run)

    @classmethod
    def preset(cls, algorithm: str, env_id: str = "") -> Experiment:
        """Tuned settings for (algorithm, environment), or for any environment.

        Give demonstrations or an expert by `changed`.

        Raises InputError for an unknown algorithm, variant or environment.
        """
        env_id = _resolved(algorithm, env_id) if env_id else ""
        settings = tuned(algorithm, env_id)
        run = {name: settings.pop(name) for name in RUN_FIELDS if name in settings}
        if find(algorithm).offline:
            run.setdefault("budget", _OFFLINE_BUDGET)
        if "total_steps" in _fields(algorithm):
            settings.setdefault("total_steps", run.get("budget", cls.budget))
        config = make_config(algorithm, settings)
        return cls(algorithm, env_id, _plain(config), device="auto", **run)

    def changed(self, hyperparameters: Mapping[str, Any] | None = None, **run: Any) -> Experiment:
        """A copy with other settings. If `total_steps` was equal to the budget, it stays so.

        Raises InputError as `create` does.
        """
        _check_settings(self.algorithm, run)
        new = dataclasses.replace(self, **run)
        if not isinstance(hyperparameters, Mapping | None):
            kind = type(hyperparameters).__name__
            raise InputError(f"hyperparameters must be a dict such as {{'gamma': 0.99}}, got a {kind}")
        given = dict(hyperparameters or {})
        if self.hyperparameters.get("total_steps") == self.budget:
            given.setdefault("total_steps", new.budget)
        config = make_config(self.algorithm, over(self.hyperparameters, given))
        env_id, backend = _resolved(self.algorithm, new.env_id), new.backend
        if not find(self.algorithm).offline:
            backend = resolve_backend(backend, env_id, new.env_kwargs)
        new = dataclasses.replace(new, hyperparameters=_plain(config), env_id=env_id, backend=backend)
        new.check_inputs()
        check_widths(new.init, given)
        if "reward" in run:
            sha256 = "" if new.reward is None else reward_sha256(new.reward)
            new = dataclasses.replace(new, reward_sha256=sha256)
        return dataclasses.replace(new, device=resolve_device(new.device))

    @classmethod
    def read(cls, path: str | Path) -> Experiment:
        """Read a run's config.json, or settings over those of the preset as TOML; relative paths in it are relative to
        its folder.

        Raises InputError if it is not a valid one.
        """
        path = Path(path)
        if path.suffix != ".toml":
            experiment = read_json(path, cls)
        else:
            data = read_toml(path)
            try:
                experiment = msgspec.convert(_over_preset(data), cls)
            except (msgspec.ValidationError, InputError) as error:
                raise InputError(f"{path} does not describe a run: {one_line(error)}; correct it") from error
        return experiment._with_paths(path.parent, lambda name: str(path.parent / name))

    def write(self, path: str | Path) -> None:
        """Write as config.json, with absolute paths."""
        write_json(Path(path), self.to_json() | {"versions": versions()})

    def to_json(self) -> dict[str, Any]:
        """Plain data with absolute paths."""
        return dataclasses.asdict(self._with_paths(Path(), lambda name: str(Path(name).absolute())))

    def to_toml(self, folder: Path) -> str:
        """The settings other than the preset's, with paths from `folder`, for `read`. Seed and device are left out.

        Raises InputError if a setting is null, or has a null in it.
        """
        folder = folder.resolve()  # behind a link it has other parents than its name says
        run = dataclasses.asdict(self._with_paths(Path(), lambda name: os.path.relpath(name, folder)))
        preset = dataclasses.asdict(Experiment.preset(self.algorithm, self.env_id))
        if self.hyperparameters.get("total_steps") == self.budget:
            del run["hyperparameters"]["total_steps"]  # it follows
        given = {"algorithm": self.algorithm, "env_id": self.env_id} | _beside(run, preset)
        return as_toml({name: value for name, value in given.items() if name not in ("seed", "device")})

    def portable(self) -> Experiment:
        """A copy that names files without their folders, for people who have other folders."""

        def bare(name: str) -> str:
            head, colon, path = ("", "", name) if Path(name).is_absolute() else name.rpartition(":")
            return f"{head}{colon}{Path(path).name}" if Path(path).is_absolute() else name

        named = {name: getattr(self, name) for name in ("expert", "vecnormalize", "demos", "init", "reward")}
        new: dict[str, Any] = {name: value and bare(value) for name, value in named.items()}
        return dataclasses.replace(self, other_experts=tuple(map(bare, self.other_experts)), **new)

    def _with_paths(self, folder: Path, move: Callable[[str], str]) -> Experiment:
        """Apply `move` to every path. An expert's spec is a path if it is no expert's name and exists in `folder`."""

        def moved(name: str) -> str:
            if is_person(name) and ":" in name:
                return f"human:{move(name.partition(':')[2])}"
            return move(name) if name not in experts.known_experts() and (folder / name).exists() else name

        from imitate.datasets.convert.sources import is_spec

        new: dict[str, Any] = {"other_experts": tuple(map(moved, self.other_experts))}
        if self.expert is not None:
            new["expert"] = moved(self.expert)
        if self.demos is not None and not is_spec(self.demos):
            new["demos"] = move(self.demos)
        for name in ("init", "reward", "vecnormalize"):
            if (path := getattr(self, name)) is not None and path.lower() != "none":
                new[name] = move(path)
        return dataclasses.replace(self, **new)

    def resume_with(self, out: Path) -> str:
        """The command that resumes the run in `out`."""
        return self.train_with("--resume", str(out))

    def train_with(self, *options: str) -> str:
        """`imitate train` with these options. It names again what only the user may have imported."""
        named = [("--env", self.env_id)] if ":" in self.env_id else []
        named += [("--expert", spec) for spec in self.experts if is_callable(spec)]
        own = [self.algorithm] if is_own(self.algorithm) else []
        words = ["imitate", "train", *own, *options, *(word for pair in named for word in pair)]
        return shlex.join(words)

    def check_inputs(self) -> None:
        """Raise InputError if the algorithm lacks something to learn from, or was given something it does not use."""
        check_needs(
            self.algorithm,
            demos=self.demos,
            experts=self.experts,
            vecnormalize=self.vecnormalize,
            num_envs=self.num_envs,
            backend=self.backend,
            init=self.init,
            reward=self.reward,
        )
        if self.eval_every and not self.evaluable:
            if ":" in self.env_id:
                resolve_env_id(self.env_id)  # raises, with what keeps its module from being imported
            raise InputError(
                f"{self.env_id} is not installed here, so nothing can be evaluated: leave --eval-every out"
            )
        if self.validate_by == "demos" and self.demos is None:
            raise InputError("--validate-by demos compares with demonstrations: give --demos FILE")

    @property
    def evaluable(self) -> bool:
        """True if the environment is installed, so that policies can play in it."""
        return is_installed(self.env_id) or not (is_own(self.algorithm) or find(self.algorithm).offline)


_SETTINGS = [field.name for field in dataclasses.fields(Experiment)]


def _check_settings(algorithm: str, names: Iterable[str]) -> None:
    """Raise InputError for a name that is no setting of a run."""
    for name in names:
        if name not in _SETTINGS:
            own = name in _fields(algorithm)
            hint = ": it belongs in its hyperparameters" if own else did_you_mean(name, _SETTINGS)
            raise InputError(f"a run has no setting {name!r}{hint}")


def _over_preset(data: dict[str, Any]) -> dict[str, Any]:
    """A run's settings over its preset, where `total_steps` follows the budget."""
    algorithm, env_id = data.get("algorithm"), data.get("env_id")
    if not isinstance(algorithm, str) or not isinstance(env_id, str):
        return data  # which is no run
    _check_settings(algorithm, data)
    preset = dataclasses.asdict(Experiment.preset(algorithm, env_id))
    if preset["hyperparameters"].get("total_steps") == preset["budget"]:
        preset["hyperparameters"]["total_steps"] = data.get("budget", preset["budget"])
    return over(preset, data)


def _beside(values: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """The values that differ from the base, also within tables."""
    found = {}
    for name, value in values.items():
        before = base.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            value = _beside(value, before) or before
        if name not in base or value != before:
            found[name] = value
    return found


def _resolved(algorithm: str, env_id: str) -> str:
    """The registered id; for offline learners an unknown one as it is."""
    if find(algorithm).offline and ":" not in env_id and not is_installed(env_id):
        return env_id
    return resolve_env_id(env_id)


def _fields(algorithm: str) -> set[str]:
    return {field.name for field in dataclasses.fields(find(algorithm).config)}


def _plain(config: Any) -> dict[str, Any]:
    """A config as plain data, as it is read back from config.json."""
    data: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return data


def resolve_device(name: str) -> str:
    """`cpu` or `cuda`; `auto` takes a GPU if there is one. Raises InputError for other names, and without a GPU."""
    if name not in ("auto", "cpu", "cuda"):
        raise InputError(f"device must be auto, cpu or cuda, got {name!r}")
    if name == "cpu":
        return name
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        raise InputError("device cuda: this torch sees no GPU; use --device cpu")
    return "cpu"
