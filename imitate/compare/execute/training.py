"""Training in a comparison: the common interface of our algorithms' runs and Stable-Baselines3's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np

from imitate.algorithms import Algorithm
from imitate.compare.execute.snapshots import Snapshots
from imitate.compare.plan.comparison import Comparison, Job, is_given, overrides
from imitate.compare.plan.learners import base, baseline, find
from imitate.compare.plan.scaling import made_for, notes, shortened
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Policy, Trajectory
from imitate.envs.answers import closing_env, spaces_of
from imitate.envs.fields import in_rows
from imitate.envs.make import make_env
from imitate.errors import InputError
from imitate.experts import Expert, load_expert
from imitate.nn.stored_policy import load_policy, save_policy
from imitate.training.execute import as_begun, execute, make_learner
from imitate.training.experiment import Experiment
from imitate.training.inputs import open_inputs, with_store
from imitate.training.settings import preset_of

__all__ = ["Trained", "Training", "expert_of", "stored_policy", "training"]

CHECKPOINT_EVERY = 100_000  # own steps; shorter runs save at Ctrl-C only: saving cuts the episodes in flight
MADE_UP_STEPS = 16


class Training(Protocol):
    """A run that can be carried out.

    hyperparameters  complete settings
    stepped          num_envs and backend of its environments; empty if it steps none
    notes            remarks on its settings for the report
    settings_from    origin of the settings
    """

    @property
    def hyperparameters(self) -> dict[str, Any]: ...
    @property
    def stepped(self) -> dict[str, Any]: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def settings_from(self) -> str: ...
    def least_steps(self) -> int:
        """The smallest number of its own environment steps with which it learns anything. Raises InputError if the
        learner can't act in this environment."""
        ...

    def save(self, folder: Path, policy: Any) -> None:
        """Write a policy of the run to a folder, for `stored_policy` to read."""
        ...

    def execute(
        self, folder: Path, progress: Callable[[int], None], snapshots: Snapshots | None = None
    ) -> bool:
        """Train in `folder`, or continue; returns False if Ctrl-C came first. Leaves policy/, metrics.jsonl,
        timing.json, finished.json with env_steps, demo_steps, validation_steps and expert_queries, and last_policy/
        if it validated."""
        ...


def training(comparison: Comparison, job: Job, demo_episodes: int | None = None) -> Training:
    """The run of a job, or a part of it on the first `demo_episodes` demonstrations.

    Raises InputError for hyperparameters that the algorithm does not take.
    """
    if baseline(job.algorithm):
        from imitate.compare.execute.baselines import Baseline  # imports Stable-Baselines3

        return Baseline.create(comparison, job)
    return Trained.create(comparison, job, demo_episodes)


def expert_of(comparison: Comparison) -> Expert:
    """The expert that is imitated, in the environment of the comparison. Raises InputError if it can't be loaded."""
    assert comparison.expert is not None
    return load_expert(comparison.expert, env_id=comparison.env_id, env_kwargs=comparison.env_kwargs or None)


def stored_policy(comparison: Comparison, folder: Path) -> Policy:
    """Load the policy that `Training.save` wrote, or the one that the run in a folder hands over."""
    folder = folder / "policy" if (folder / "policy").is_dir() else folder
    if (folder / "expert.json").is_file():
        return load_expert(folder, env_id=comparison.env_id, env_kwargs=comparison.env_kwargs)
    return load_policy(folder)


@dataclass(frozen=True)
class Trained:
    """A run of one of our algorithms, or of the user's own learner."""

    run: Experiment
    algorithm: Algorithm
    notes: list[str] = field(default_factory=list)
    settings_from: str = ""

    @classmethod
    def create(cls, comparison: Comparison, job: Job, demo_episodes: int | None = None) -> Trained:
        """The preset, overridden by the settings given and shortened to the budget. No steps are spent on validation,
        unless the comparison and the preset keep the policy that is closest to the demonstrations."""
        name, algorithm = base(job.algorithm), find(job.algorithm)
        given = overrides(comparison, job.algorithm)
        if comparison.demo_every > 1 and job.demos is not None:
            if "demo_every" not in {each.name for each in fields(algorithm.config)}:
                raise InputError(
                    f"{name} can't learn from one of {comparison.demo_every} steps of its demonstrations: "
                    f"leave demo_every out, or {name}"
                )
            given["demo_every"] = comparison.demo_every
        run_fields = {} if comparison.num_envs is None else {"num_envs": comparison.num_envs}
        preset = Experiment.preset(name, comparison.env_id)
        keeps = comparison.keep_closest and preset.validate_by == "demos"
        chosen = preset.changed(
            given,
            env_kwargs=dict(comparison.env_kwargs),
            expert=comparison.expert if "expert" in algorithm.needs else None,
            demos=None if job.demos is None else str(job.demos),
            demo_episodes=demo_episodes or job.demo_episodes,
            seed=job.seed,
            budget=job.steps,
            eval_every=preset.eval_every if keeps else 0,
            checkpoint_every=CHECKPOINT_EVERY,
            device=comparison.device,
            **run_fields,
        )
        used = _in_use(chosen, algorithm)
        new, envs = shortened(used, chosen.num_envs, job.steps, {**given, **run_fields})
        said = notes(used, new, (chosen.num_envs, envs))
        table = preset_of(name, comparison.env_id)
        if table and not algorithm.offline:
            said = made_for(preset.budget, job.steps) + said
        source = "algorithm's defaults"
        if is_given(comparison, job.algorithm):
            source = "given here"
        elif table:
            source = "preset of Atari's games" if table == "atari" else "preset of this environment"
        return cls(chosen.changed(new, num_envs=envs) if said else chosen, algorithm, said, source)

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return self.run.hyperparameters

    @property
    def stepped(self) -> dict[str, Any]:
        return {} if self.algorithm.offline else {"num_envs": self.run.num_envs, "backend": self.run.backend}

    def least_steps(self) -> int:
        """The learner's own answer: a learner is made from made-up demonstrations and thrown away."""
        run = self.run
        with TemporaryDirectory() as folder, ExitStack() as stack:
            if "demos" in self.algorithm.needs:
                demos = _made_up(Path(folder) / "demos.h5", run)
                few = {"demo_pairs": None} if run.hyperparameters.get("demo_pairs") else {}
                run = run.changed(few, demos=str(demos), demo_episodes=None)
            inputs = with_store(open_inputs(run, stack), run, Path(folder), stack)
            return make_learner(run, inputs).least_steps

    def save(self, folder: Path, policy: Any) -> None:
        save_policy(folder, policy)

    def execute(
        self, folder: Path, progress: Callable[[int], None], snapshots: Snapshots | None = None
    ) -> bool:
        if (folder / "finished.json").is_file():
            return True
        return execute(
            as_begun(self.run, folder),
            folder,
            resume=True,
            progress=lambda steps, _metrics: progress(steps),
            snapshot=snapshots,
            go_on="imitate compare ...",  # `train --resume` would leave no points of a curve
        )


def _in_use(run: Experiment, algorithm: Algorithm) -> dict[str, Any]:
    """The hyperparameters without those of inner learners that the run does not use."""
    unused = algorithm.unused(run.hyperparameters, spaces_of(run.env_id, run.env_kwargs)[1])
    return {name: value for name, value in run.hyperparameters.items() if name not in unused}


def _made_up(path: Path, run: Experiment) -> Path:
    """A short episode of random observations and actions with rewards, enough to construct any learner."""
    with closing_env(make_env(run.env_id, run.env_kwargs)) as env:
        obs_space, action_space = env.observation_space, env.action_space
    obs = np.stack([in_rows(obs_space, obs_space.sample()) for _ in range(MADE_UP_STEPS + 1)])
    if obs.ndim == 4:
        obs[:] = obs[:1, :1]  # a replay wants stacks of frames to overlap, so all frames are alike
    actions = np.stack([action_space.sample() for _ in range(MADE_UP_STEPS)])
    info = DemoInfo(run.env_id, obs_space, action_space, env_kwargs=run.env_kwargs, expert="random")
    with DemoWriter(path, info) as writer:
        writer.append(Trajectory(obs, actions, np.ones(MADE_UP_STEPS, np.float32), True, False))
    return path
