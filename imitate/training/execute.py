"""Carries out a training run, from its description to its folder."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium as gym

from imitate.algorithms import Learner, find
from imitate.datasets.evaluation import Evaluation, evaluate
from imitate.envs.seeds import Stream, draw_seed
from imitate.envs.trust import bare_id
from imitate.errors import InputError
from imitate.nn.policy import ActorPolicy
from imitate.training.checkpoint import Checkpoint
from imitate.training.experiment import Experiment, resolve_device
from imitate.training.inputs import handed_to, held, opened_store
from imitate.training.run import Progress, Run, Snapshot
from imitate.training.settings import make_config

__all__ = ["check_folder", "execute", "make_learner"]


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
    check_folder(out, resume=resume)
    experiment.check_inputs()
    with held(out):
        with ExitStack() as stack:
            run = _prepare(experiment, out, stack, progress, snapshot)
            finished = run.finish()
        run.write_timing()  # again, as the environments' processes have ended by now and their time is known
    return finished


def check_folder(out: Path, *, resume: bool) -> None:
    """Raise InputError if a run in `out` is finished, or `out` exists and nothing is resumed."""
    if (out / "finished.json").exists():
        raise InputError(f"{out} is a finished run: there is nothing to go on with; choose another --out")
    if out.exists() and not resume:
        raise InputError(f"{out} exists; choose another --out, or --resume the run in it")


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
    faults = 0 if checkpoint is None else checkpoint.account.faults
    handed = handed_to(experiment, config, stack, new=new, faults=faults)
    if "store" in algorithm.needs:
        handed["store"] = stack.enter_context(opened_store(out, experiment, handed, checkpoint))
    device = resolve_device(experiment.device)
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
        resume_with=experiment.resume_with(out),
    )
    experiment.write(out / "config.json")
    return run
