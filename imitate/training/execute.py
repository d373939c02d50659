"""Carries out a training run, from its description to its folder."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from imitate.algorithms import Learner, find
from imitate.envs.make import time_limit
from imitate.errors import Fault, InputError
from imitate.experts import Expert
from imitate.files import filling
from imitate.training.checkpoint import Checkpoint
from imitate.training.experiment import Experiment, resolve_device
from imitate.training.inputs import Inputs, open_inputs, with_store
from imitate.training.protocol import check_learner
from imitate.training.run import Progress, Run, Snapshot
from imitate.training.settings import make_config
from imitate.training.validation import validation_of

__all__ = ["as_begun", "beginning", "check_folder", "execute", "make_learner"]

_MAY_CHANGE = ("device", "backend", "checkpoint_every", "budget", "hyperparameters.total_steps")
"""Settings in which a resumed run may differ; `total_steps` follows the budget."""


def execute(
    experiment: Experiment,
    out: str | Path,
    *,
    experts: Sequence[Expert] = (),
    resume: bool = False,
    progress: Progress | None = None,
    snapshot: Snapshot | None = None,
    until: float = math.inf,
    go_on: str = "",
    check: bool = True,
) -> bool:
    """Train, writing the run folder `out`. Returns False if Ctrl-C ended it early.

    Ctrl-C, SIGTERM and SIGHUP save a checkpoint first; these two then end the process with status 143 or 129.

    experts   those that the experiment names, if they are loaded already
    resume    go on from the last checkpoint, or from the beginning if there is none
    progress  called with (steps of the budget spent, metrics) after each iteration
    snapshot  called with (steps of the budget spent, the policy), with 0 before the first iteration and after each
    until     pause, to be resumed later, once even the shortest iteration would go past so many steps of the budget;
              one that has begun is not cut
    go_on     the command that goes on, for messages; by default `imitate train --resume`
    check     let AggreVaTeD check the critic of its expert first, on four episodes outside the budget

    A resumed run may have another device, backend, budget and `checkpoint_every`, and files whose folders have moved.

    Raises InputError if `out` exists (and `resume` is not set), if the run in it has other settings, if another process
    trains there, if inputs don't fit together, if the budget is too small for one update, and if learning diverges.
    """
    if not isinstance(experiment, Experiment):
        raise InputError(
            f"execute takes an Experiment, got {type(experiment).__name__}: make one with Experiment.create('ppo', ENV)"
        )
    out = Path(out)
    check_folder(out, resume=resume)
    if (out / "config.json").exists():
        _check_same(experiment, out)
    experiment.check_inputs()
    with filling(out, "a training run"):
        with ExitStack() as stack:
            go_on = go_on or experiment.resume_with(out)
            with beginning(out, go_on):
                run = _prepare(experiment, out, stack, experts, check=check)
            run.resume_with = go_on
            run.progress, run.snapshot, run.until = progress, snapshot, until
            finished = run.finish()
        run.write_timing()  # again, as the environments' processes have ended by now and their time is known
    return finished


def check_folder(out: Path, *, resume: bool) -> None:
    """Raise InputError if a run in `out` is finished, if `out` exists and nothing is resumed, or if it can't be
    written."""
    if (out / "finished.json").exists():
        raise InputError(f"{out} is a finished run: there is nothing to go on with; choose another --out")
    if out.exists() and not resume:
        raise InputError(f"{out} exists; choose another --out, or --resume the run in it")
    there = next(parent for parent in (out.absolute(), *out.absolute().parents) if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise InputError(f"{out} can't be written in {there}: choose another --out")


def as_begun(experiment: Experiment, out: Path) -> Experiment:
    """The experiment with the hyperparameters, environments and demonstrations that the run in `out` began with, if
    there is one: a preset may be another since, and other learners may have asked for more episodes."""
    if not (out / "config.json").exists():
        return experiment
    begun = Experiment.read(out / "config.json")
    steps = {name: n for name, n in experiment.hyperparameters.items() if name == "total_steps"}
    kept: tuple[str, ...] = (
        "num_envs",
        "episodic_life",
        "clip_rewards",
        "eval_every",
        "eval_episodes",
        "validate_by",
    )
    if begun.demos is not None and Path(begun.demos).exists():
        kept = (*kept, "demos", "demo_episodes")
    return replace(
        experiment,
        hyperparameters=begun.hyperparameters | steps,
        **{name: getattr(begun, name) for name in kept},
    )


def _check_same(experiment: Experiment, out: Path) -> None:
    """Raise InputError that names the first setting which the run in `out` has otherwise.

    Only the run's and the experiment's common hyperparameters are compared: an older version lacks some.
    """
    complete = asdict(make_config(experiment.algorithm, experiment.hyperparameters))
    stored = _settings(Experiment.read(out / "config.json"))
    given = _settings(replace(experiment, hyperparameters=complete))
    for name in stored | given:
        if name.startswith("hyperparameters.") and not (name in stored and name in given):
            continue
        if (before := stored.get(name)) != (now := given.get(name)):
            raise InputError(
                f"{out} is a run with {name} {before!r}, got {now!r}: go on with "
                f"Experiment.read({str(out / 'config.json')!r}), or choose another folder"
            )


def _settings(experiment: Experiment) -> dict[str, Any]:
    """The settings that a resumed run keeps, by name, with files without their folders."""
    plain = json.loads(json.dumps(asdict(Experiment(**experiment.to_json()).portable())))
    return {name: value for name, value in _flat(plain).items() if name not in _MAY_CHANGE}


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested tables by their names, such as `hyperparameters.ppo.gamma`."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


@contextmanager
def beginning(out: Path, go_on: str) -> Iterator[None]:
    """Say that nothing is lost if a resumed run is interrupted, or something of the user fails, before it goes on."""
    try:
        yield
    except (Fault, KeyboardInterrupt) as error:
        if not (out / "config.json").exists():  # a new run
            raise
        kept = f"{out} is as it was: go on with `{go_on}`"
        if isinstance(error, Fault):
            raise InputError(f"{error}; {kept}") from error
        error.add_note(kept)
        raise


def make_learner(experiment: Experiment, inputs: Inputs) -> Learner:
    """The learner of a run. Raises InputError if it can't act in this environment, or lacks what a run asks of it."""
    learner: Learner = find(experiment.algorithm).learner(
        make_config(experiment.algorithm, experiment.hyperparameters),
        seed=experiment.seed,
        device=resolve_device(experiment.device),
        **inputs.keywords(),
    )
    check_learner(learner)
    return learner


def _prepare(
    experiment: Experiment,
    out: Path,
    stack: ExitStack,
    experts: Sequence[Expert],
    *,
    check: bool,
) -> Run:
    """Prepare everything up to the first step; `stack` closes what was opened."""
    checkpoint = Checkpoint.read(out)
    faults = 0 if checkpoint is None else checkpoint.account.faults
    # Before anything is written, since unusable demonstrations raise here.
    check = check and checkpoint is None
    inputs = open_inputs(experiment, stack, experts=experts, faults=faults, check=check)
    demos = inputs.demos_digest
    if checkpoint is not None and checkpoint.account.demos not in ("", demos):
        raise InputError(
            f"{experiment.demos} has changed since the run in {out} began: restore it, or choose another --out"
        )
    inputs = with_store(inputs, experiment, out, stack, checkpoint)

    limit = time_limit(experiment.env_id, experiment.env_kwargs) if experiment.evaluable else None
    run = Run(
        make_learner(experiment, inputs),
        out,
        budget=experiment.budget,
        demo_steps=inputs.demo_steps,
        validate=validation_of(experiment, inputs),
        eval_every=experiment.eval_every,
        eval_episodes=experiment.eval_episodes,
        most_validation=math.inf if limit is None else limit * experiment.eval_episodes,
        checkpoint_every=experiment.checkpoint_every,
        num_envs=0 if find(experiment.algorithm).offline else experiment.num_envs,
        store=inputs.store,
        save_each=inputs.store is not None and not inputs.reproducible,
        checkpoint=checkpoint,
    )
    run.account.demos = demos
    experiment.write(out / "config.json")
    return run
