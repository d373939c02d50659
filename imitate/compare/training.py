"""How a job trains: what runs of our algorithms and of Stable-Baselines3's have in common for a comparison."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from imitate.algorithms import Algorithm
from imitate.compare.baselines import Baseline
from imitate.compare.learners import base, baseline, find
from imitate.compare.plan import Comparison, Job, overrides
from imitate.compare.scaling import made_for, notes, shortened
from imitate.compare.snapshots import Snapshots
from imitate.datasets.trajectory import Policy
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.experts import load_expert
from imitate.nn.state import as_tuples
from imitate.nn.stored_policy import load_policy, save_policy
from imitate.training.experiment import Experiment, execute

__all__ = ["Trained", "Training", "stored_policy", "training"]

CHECKPOINT_EVERY = 100_000  # own steps; shorter runs save at Ctrl-C only: saving cuts episodes in flight


class Training(Protocol):
    """A run that can be carried out: its complete settings, what its environments are (`stepped`, empty where it steps
    none), and what should be known of its settings (`notes`)."""

    @property
    def hyperparameters(self) -> dict[str, Any]: ...
    @property
    def stepped(self) -> dict[str, Any]: ...
    @property
    def notes(self) -> list[str]: ...
    def check(self) -> None:
        """Raise InputError where the learner can't act in this environment."""
        ...

    def save(self, folder: Path, policy: Any) -> None:
        """Write the policy that `snapshots` are called with, for `stored_policy`."""
        ...

    def execute(
        self, folder: Path, progress: Callable[[int], None], snapshots: Snapshots | None = None
    ) -> bool:
        """Train in `folder`, or go on; False where Ctrl-C came first. Leaves policy/, metrics.jsonl, timing.json and
        finished.json with env_steps, demo_steps and expert_queries."""
        ...


def training(comparison: Comparison, job: Job, demo_episodes: int | None = None) -> Training:
    """The run that a job comes to, or a part of it on the first `demo_episodes`.

    Raises InputError for hyperparameters that the algorithm does not take.
    """
    if baseline(job.algorithm):
        return Baseline.create(comparison, job)
    return Trained.create(comparison, job, demo_episodes)


def stored_policy(comparison: Comparison, folder: Path) -> Policy:
    """What `Training.save` wrote, or the last policy of a run's folder."""
    folder = folder / "policy" if (folder / "policy").is_dir() else folder
    if (folder / "expert.json").is_file():
        return load_expert(folder, env_id=comparison.env_id, env_kwargs=comparison.env_kwargs)
    return load_policy(folder)


@dataclass(frozen=True)
class Trained:
    """A run of one of our algorithms, or of a user's own."""

    run: Experiment
    algorithm: Algorithm
    notes: list[str] = field(default_factory=list)

    @classmethod
    def create(cls, comparison: Comparison, job: Job, demo_episodes: int | None = None) -> Trained:
        """The preset with the settings given, shortened to the budget. The last policy counts: nothing of the budget
        goes into validation."""
        name, algorithm = base(job.algorithm), find(job.algorithm)
        given = overrides(comparison, job.algorithm)
        run_fields = {} if comparison.num_envs is None else {"num_envs": comparison.num_envs}
        chosen = Experiment.create(
            name,
            comparison.env_id,
            hyperparameters=given,
            env_kwargs=dict(comparison.env_kwargs),
            expert=comparison.expert if "expert" in algorithm.needs else None,
            demos=None if job.demos is None else str(job.demos),
            demo_episodes=demo_episodes or job.demo_episodes,
            seed=job.seed,
            budget=job.steps,
            eval_every=0,
            checkpoint_every=CHECKPOINT_EVERY,
            device=comparison.device,
            **run_fields,
        )
        new, envs = shortened(chosen.hyperparameters, chosen.num_envs, job.steps, fixed={*given, *run_fields})
        said = notes(chosen.hyperparameters, new, (chosen.num_envs, envs))
        if not algorithm.offline:
            said = made_for(Experiment.preset(name, comparison.env_id).budget, job.steps) + said
        return cls(chosen.changed(new, num_envs=envs) if said else chosen, algorithm, said)

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return self.run.hyperparameters

    @property
    def stepped(self) -> dict[str, Any]:
        return {} if self.algorithm.offline else {"num_envs": self.run.num_envs, "backend": self.run.backend}

    def check(self) -> None:
        """Where it needs no more than environments a learner is made, and thrown away."""
        if set(self.algorithm.needs) == {"envs"}:
            run = self.run
            config = self.algorithm.config(**as_tuples(run.hyperparameters))
            with closing(SyncVecEnv([partial(make_env, run.env_id, run.env_kwargs)])) as envs:
                self.algorithm.learner(config, envs=envs, seed=run.seed, device=run.device)

    def save(self, folder: Path, policy: Any) -> None:
        save_policy(folder, policy)

    def execute(
        self, folder: Path, progress: Callable[[int], None], snapshots: Snapshots | None = None
    ) -> bool:
        if (folder / "finished.json").is_file():
            return True
        return execute(
            self.run,
            folder,
            resume=True,
            progress=lambda steps, _metrics: progress(steps),
            snapshot=snapshots,
        )
