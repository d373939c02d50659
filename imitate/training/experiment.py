"""Training runs: `Experiment` describes one (it is a run's config.json), and `execute` carries it out."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from imitate.algorithms import ALGORITHMS, Learner, find
from imitate.datasets.convert.sources import is_spec
from imitate.datasets.evaluation import Evaluation, evaluate
from imitate.envs import BACKENDS, resolve_backend
from imitate.envs.make import resolve_env_id
from imitate.envs.seeds import Stream, draw_seed
from imitate.envs.trust import bare_id
from imitate.errors import InputError, check_range, did_you_mean
from imitate.experts import known_experts
from imitate.files import read_json, versions, write_json
from imitate.nn.policy import ActorPolicy
from imitate.training.checkpoint import Checkpoint
from imitate.training.inputs import check_demos, check_expert, check_widths, handed_to, held, opened_store
from imitate.training.person import check_person, is_person
from imitate.training.run import Progress, Run, Snapshot
from imitate.training.settings import RUN_FIELDS, make_config, over, tuned, variant_settings

__all__ = ["Experiment", "check_demos", "check_expert", "execute", "make_learner", "variant_settings"]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Everything a run depends on, with complete `hyperparameters`. Steps are environment steps.

    budget            demonstration, training and validation steps together
    expert, demos     what to learn from: an expert's spec, a file of demonstrations
    other_experts     specs of further experts, each to be imitated where it is best
    vecnormalize      statistics for a zipped expert, instead of those in its folder; "none": don't normalise
    demo_episodes     learn only from this many episodes of `demos`, the first ones
    init              a run whose policy to start from
    backend           steps the learner's environments (see `imitate.envs.vectorize`). `execute` requires it resolved,
                      not "auto", so that a repeated run uses the same one. Policies are evaluated on gymnasium
    episodic_life     for Atari on backend ale, in training only: the loss of a life ends an episode
    clip_rewards      for Atari on backend ale, in training only: learn from the sign of rewards
    eval_every        training steps between validations; 0: never validate, keep the last policy
    checkpoint_every  training steps between checkpoints; these wait until a few episodes have ended, since each
                      checkpoint begins new episodes. 0: save only when interrupted
    device            "cpu" or "cuda"

    Raises InputError for an unknown algorithm and for values out of range.
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
    seed: int = 0
    budget: int = 100_000
    num_envs: int = 8
    backend: str = "gymnasium"
    episodic_life: bool = False
    clip_rewards: bool = False
    eval_every: int = 0
    eval_episodes: int = 10
    checkpoint_every: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        find(self.algorithm)
        for name in ("expert", "demos", "init"):
            if isinstance(path := getattr(self, name), Path):
                object.__setattr__(self, name, str(path))
        check_range(self, 1, math.inf, "budget", "num_envs", "eval_episodes")
        check_range(self, 0, math.inf, "seed", "eval_every", "checkpoint_every")
        if self.demo_episodes is not None:
            check_range(self, 1, math.inf, "demo_episodes")

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
        env_id = resolve_env_id(env_id) if env_id else ""
        settings = tuned(algorithm, env_id)
        run = {name: settings.pop(name) for name in RUN_FIELDS if name in settings}
        if "total_steps" in _fields(algorithm):
            settings.setdefault("total_steps", run.get("budget", cls.budget))
        config = make_config(algorithm, settings)
        return cls(algorithm, env_id, _plain(config), device="auto", **run)

    def changed(self, hyperparameters: Mapping[str, Any] | None = None, **run: Any) -> Experiment:
        """A copy with other settings. If `total_steps` was equal to the budget, it stays so.

        Raises InputError as `create` does.
        """
        new = dataclasses.replace(self, **run)
        given, fields = dict(hyperparameters or {}), _fields(self.algorithm)
        for name in given:
            if name not in fields:
                raise InputError(
                    f"{self.algorithm} has no hyperparameter {name!r}{did_you_mean(name, fields)}"
                )
        if self.hyperparameters.get("total_steps") == self.budget:
            given.setdefault("total_steps", new.budget)
        config = make_config(self.algorithm, over(self.hyperparameters, given))
        env_id, backend = resolve_env_id(new.env_id), new.backend
        if not find(self.algorithm).offline:
            backend = resolve_backend(backend, env_id, new.env_kwargs)
        new = dataclasses.replace(
            new, hyperparameters=_plain(config), env_id=env_id, backend=backend, device=_device(new.device)
        )
        new.check_inputs()
        if new.init is not None:
            check_widths(new.init, given)
        return new

    @classmethod
    def read(cls, path: str | Path) -> Experiment:
        """Read a run's config.json; relative paths in it are relative to its folder.

        Raises InputError if it is not a valid config.json.
        """
        path = Path(path)
        experiment = read_json(path, cls)
        return experiment._with_paths(path.parent, lambda name: str(path.parent / name))

    def write(self, path: str | Path) -> None:
        """Write as config.json, with absolute paths."""
        absolute = self._with_paths(Path(), lambda name: str(Path(name).absolute()))
        write_json(Path(path), dataclasses.asdict(absolute) | {"versions": versions()})

    def _with_paths(self, folder: Path, move: Callable[[str], str]) -> Experiment:
        """Apply `move` to every path. An expert's spec is a path if it is no expert's name and exists in `folder`."""

        def moved(name: str) -> str:
            if is_person(name) and ":" in name:
                return f"human:{move(name.partition(':')[2])}"
            return move(name) if name not in known_experts() and (folder / name).exists() else name

        new: dict[str, Any] = {"other_experts": tuple(map(moved, self.other_experts))}
        if self.expert is not None:
            new["expert"] = moved(self.expert)
        if self.demos is not None and not is_spec(self.demos):
            new["demos"] = move(self.demos)
        if self.init is not None:
            new["init"] = move(self.init)
        return dataclasses.replace(self, **new)

    def check_inputs(self) -> None:
        """Raise InputError if the algorithm lacks something to learn from, or was given something it does not use."""
        algorithm = find(self.algorithm)
        if self.backend not in BACKENDS or self.backend == "auto":
            known = ", ".join(name for name in BACKENDS if name != "auto")
            raise InputError(f"backend of a run must be one of {known}, got {self.backend!r}")
        for name in ("demos", "expert"):
            if getattr(self, name) is not None and name not in algorithm.needs:
                raise InputError(f"{self.algorithm} makes no use of --{name}: leave it out")
        if "demos" in algorithm.needs and self.demos is None:
            raise InputError(
                f"{self.algorithm} learns from demonstrations: give --demos FILE (see `imitate collect`)"
            )
        if "expert" in algorithm.needs and self.expert is None:
            raise InputError(
                f"{self.algorithm} asks an expert: give --expert SPEC (see `imitate expert list`)"
            )
        if self.other_experts and not algorithm.teachers:
            takers = ", ".join(name for name, entry in ALGORITHMS.items() if entry.teachers)
            raise InputError(
                f"{self.algorithm} learns from one expert, got {len(self.experts)}: give one --expert, or take one of "
                f"{takers}"
            )
        if any(map(is_person, self.experts)):
            check_person(self)
        if self.other_experts and self.vecnormalize is not None:
            raise InputError(
                "--vecnormalize is for one expert: leave it out, or keep the file beside each zip"
            )
        if self.init is not None and "policy" not in algorithm.optional:
            takers = ", ".join(name for name, entry in ALGORITHMS.items() if "policy" in entry.optional)
            raise InputError(f"{self.algorithm} does not start from another policy: --init is for {takers}")


def execute(
    experiment: Experiment,
    out: str | Path,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    snapshot: Snapshot | None = None,
) -> bool:
    """Train, writing the run folder `out`. Returns False if Ctrl-C ended it early.

    Ctrl-C and SIGTERM save a checkpoint first; SIGTERM then ends the process with status 143.

    resume    go on from the last checkpoint, or from the beginning if there is none
    progress  called with (steps of the budget spent, metrics) after each iteration
    snapshot  called with (steps of the budget spent, the policy), with 0 before the first iteration and after each

    Raises InputError if `out` exists (and `resume` is not set), if another process trains there, if inputs don't fit
    together, if the budget is too small for one update, and if learning diverges.
    """
    out = Path(out)
    if (out / "finished.json").exists():
        raise InputError(f"{out} is a finished run: there is nothing to go on with; choose another --out")
    if out.exists() and not resume:
        raise InputError(f"{out} exists; choose another --out, or --resume the run in it")
    experiment.check_inputs()
    with held(out):
        with ExitStack() as stack:
            run = _prepare(experiment, out, stack, progress, snapshot)
            finished = run.finish()
        run.write_timing()  # again, as the environments' processes have ended by now and their time is known
    return finished


def make_learner(
    experiment: Experiment, out: Path, stack: ExitStack, checkpoint: Checkpoint | None, *, new: bool
) -> tuple[Learner, dict[str, Any]]:
    """The learner of a run in the folder `out`, and what it was handed, which `stack` closes.

    checkpoint  of the run, for the demonstrations that the learner has stored
    new         also check the expert's critic

    Raises InputError where inputs don't fit together, and where it can't act in this environment.
    """
    algorithm = find(experiment.algorithm)
    config = make_config(experiment.algorithm, experiment.hyperparameters)
    handed = handed_to(experiment, config, stack, new=new)
    if "store" in algorithm.needs:
        handed["store"] = stack.enter_context(opened_store(out, experiment, handed["envs"], checkpoint))
    device = _device(experiment.device)
    return algorithm.learner(config, seed=experiment.seed, device=device, **handed), handed


def _prepare(
    experiment: Experiment, out: Path, stack: ExitStack, progress: Progress | None, snapshot: Snapshot | None
) -> Run:
    """Prepare everything up to the first step; `stack` closes what was opened."""
    checkpoint = Checkpoint.read(out)
    # Before anything is written, since unusable demonstrations raise here.
    learner, handed = make_learner(experiment, out, stack, checkpoint, new=checkpoint is None)

    def validate(policy: ActorPolicy, max_steps: int) -> Evaluation:
        return evaluate(
            policy,
            experiment.env_id,
            episodes=experiment.eval_episodes,
            seed=draw_seed(Stream.VALIDATION, experiment.seed),
            env_kwargs=experiment.env_kwargs,
            num_envs=experiment.eval_episodes,
            max_steps=max_steps,
        )

    limit = gym.spec(bare_id(experiment.env_id)).max_episode_steps
    run = Run(
        learner,
        out,
        budget=experiment.budget,
        demo_steps=int(handed["demos"].lengths[handed["episodes"]].sum()) if "demos" in handed else 0,
        validate=validate,
        eval_every=experiment.eval_every,
        eval_episodes=experiment.eval_episodes,
        most_validation=math.inf if limit is None else limit * experiment.eval_episodes,
        checkpoint_every=experiment.checkpoint_every,
        num_envs=0 if find(experiment.algorithm).offline else experiment.num_envs,
        store=handed.get("store"),
        checkpoint=checkpoint,
        progress=progress,
        snapshot=snapshot,
    )
    experiment.write(out / "config.json")
    return run


def _fields(algorithm: str) -> set[str]:
    return {field.name for field in dataclasses.fields(find(algorithm).config)}


def _plain(config: Any) -> dict[str, Any]:
    """A config as plain data, as it is read back from config.json."""
    data: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return data


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda: this torch sees no GPU; use --device cpu")
    return name
