"""A search for hyperparameters: each trial is an ordinary run with its own seed, and poor ones are stopped early."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imitate.algorithms import find
from imitate.envs.answers import closing_env
from imitate.envs.make import make_env
from imitate.envs.seeds import draw_seed
from imitate.errors import LARGEST, InputError, one_line, pip_install
from imitate.files import atomic, lock, read_json, write_json
from imitate.training.experiment import Experiment
from imitate.training.log import continued, validations
from imitate.tune.ranges import RANGES, nested, searched

if TYPE_CHECKING:
    import optuna

    from imitate.experts import Expert

__all__ = ["FIRST_SEED", "Best", "prepared", "tune"]

logger = logging.getLogger(__name__)

FIRST_SEED = 1_000
"""Seed of trial 0; trial n has this plus n. Tables of results use seeds below 200, and none from here on."""
_VALIDATIONS = 5  # of a trial
_EPISODES = 5  # of each, at most, since validation is part of the budget
_BEFORE_PRUNING = 5  # trials
_SPARED = ("hidden", "activation")  # of a run that starts from a policy
_REASON = "reason"  # why a trial failed, among the attributes that Optuna stores


@dataclass(frozen=True)
class Best:
    """The best trial so far.

    score      of its best validation, which chose it and so flatters it: the mean return, or minus the distance from
               the demonstrations if runs are validated by that
    settings   those that were searched, by names such as `ppo.learning_rate`
    file       its run as TOML, for `imitate train --config`
    """

    trial: int
    score: float
    settings: dict[str, Any]
    file: Path


def prepared(experiment: Experiment) -> Experiment:
    """The run with a few validations, by which trials are compared; an offline learner has one, at the end.

    Raises InputError if its environment is not installed.
    """
    if not experiment.evaluable:
        raise InputError(
            f"tuning plays {experiment.env_id}, which is not installed here: install it, or name one of yours with "
            f"--env MODULE:{experiment.env_id}"
        )
    every = LARGEST if find(experiment.algorithm).offline else max(experiment.budget // _VALIDATIONS, 1)
    return replace(experiment, eval_every=every, eval_episodes=min(experiment.eval_episodes, _EPISODES))


def tune(
    base: Experiment,
    out: Path,
    trials: int,
    *,
    held: Mapping[str, Any] | None = None,
    experts: Sequence[Expert] = (),
    go_on: str = "imitate tune",
) -> Best:
    """Search until the folder `out` holds so many trials; an earlier search there is continued.

    held      hyperparameters that keep their values
    experts   those that the experiment names, if they are loaded already
    go_on     the command that continues the search, for messages

    Raises KeyboardInterrupt at Ctrl-C, and InputError if Optuna is not installed, if `out` holds another search, if
    nothing is left to search, if a setting is null, which best.toml can't have, if no trial came to its end, and as
    `execute` does.
    """
    try:
        import optuna
    except ImportError as error:
        raise InputError(f"tuning needs Optuna: {pip_install('tune')}") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    fixed = dict(held or {}) | (dict.fromkeys(_SPARED) if base.init else {})
    with closing_env(make_env(base.env_id, base.env_kwargs)) as env:
        actions = env.action_space
    ranges = searched(base.algorithm, base.hyperparameters, fixed, actions)
    if not ranges and not searched(base.algorithm, base.hyperparameters, {}, actions):
        raise InputError(
            f"{base.algorithm} has no hyperparameter with a range to search: names with ranges are {', '.join(RANGES)}"
        )
    if not ranges:
        raise InputError(
            f"every hyperparameter of {base.algorithm} that could be searched is given: leave some out"
        )
    base.to_toml(out)  # refuses what best.toml can't have, before the first trial
    with lock(out, "a search"):
        _check_same(out, base, sorted(ranges), fixed)
        study = _study(out)

        def objective(trial: optuna.Trial) -> float:
            drawn = {name: each.drawn(trial, name) for name, each in ranges.items()}
            seed = FIRST_SEED + trial.number
            run = base.changed(nested(drawn), seed=seed)
            folder = out / "trials" / f"{trial.number:04}"
            try:
                return _returned(trial, run, folder, experts, go_on)
            except optuna.TrialPruned:
                from imitate.training.checkpoint import CHECKPOINT  # imports torch

                (folder / CHECKPOINT).unlink(missing_ok=True)  # nobody goes on with it, and a replay is large
                raise

        # The file may be lost, or the process was killed before it was written.
        best = _write_best(study, base, out)
        while len(_ended(study)) < trials:
            study.optimize(objective, n_trials=1)
            best, last = _write_best(study, base, out), _ended(study)[-1]
            so_far = f"; the best so far is trial {best.trial} with {best.score:.4g}" if best else ""
            logger.info("trial %d: %s%s", last.number, _said(last), so_far)
        if best is None:
            raise InputError(
                f"no trial came to its end; the last one: {_said(_ended(study)[-1])}; a search with other settings "
                "needs another --out"
            )
        return best


def _log(out: Path) -> Path:
    return out / "trials.log"


def _study(out: Path) -> optuna.Study:
    """The search in the folder, or a new one. Raises InputError if its log is damaged."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    log = _log(out)
    # Of a process that was killed: Optuna would wait for its lock, and read no further than half a line.
    log.with_name("trials.log.lock").unlink(missing_ok=True)
    if log.exists():
        with continued(log, log.stat().st_size):
            pass
    try:
        storage = optuna.storages.JournalStorage(JournalFileBackend(str(log)))
        study = optuna.create_study(
            storage=storage, study_name="tune", direction="maximize", load_if_exists=True
        )
    except OSError:
        raise
    except Exception as error:  # Optuna checks nothing that it reads
        raise InputError(f"{log} is damaged ({one_line(error)}): choose another --out") from error
    # A continued search must not draw again what it drew at its start.
    study.sampler = optuna.samplers.TPESampler(seed=draw_seed(FIRST_SEED, len(study.trials)) >> 32)
    study.pruner = optuna.pruners.MedianPruner(n_startup_trials=_BEFORE_PRUNING)
    return study


def _returned(
    trial: optuna.Trial, run: Experiment, folder: Path, experts: Sequence[Expert], go_on: str
) -> float:
    """The score of the run's best validation.

    Raises TrialPruned if it is among the worse half, or if the trial fails: learning diverges, or every validation is
    cut by the budget.
    """
    import optuna

    from imitate.training.execute import execute

    shutil.rmtree(folder, ignore_errors=True)  # of a trial that was killed
    for expert in experts:
        expert.seed(0)  # as it was loaded
    told = 0

    def report(_spent: int, _metrics: dict[str, float]) -> None:
        nonlocal told
        rows = validations(folder)
        for step in range(told, len(rows)):
            trial.report(rows[step].score, step)
        # Stopping a run that has finished saves nothing.
        if len(rows) > told and not (folder / "finished.json").exists() and trial.should_prune():
            raise optuna.TrialPruned
        told = len(rows)

    try:
        if not execute(run, folder, experts=experts, progress=report, go_on=go_on):
            raise KeyboardInterrupt
    except InputError as error:
        if not isinstance(error.__cause__, FloatingPointError):
            raise
        diverged = f"learning diverged ({error.__cause__}): hold --learning-rate at a smaller value"
        trial.set_user_attr(_REASON, diverged)
        raise optuna.TrialPruned from error
    rows = validations(folder)
    if not rows:
        small = f"a budget of {run.budget} steps is too small for a validation: give a larger --budget"
        trial.set_user_attr(_REASON, small)
        raise optuna.TrialPruned
    return max(row.score for row in rows)


def _ended(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))


def _said(trial: optuna.trial.FrozenTrial) -> str:
    """The result of a trial in words."""
    return f"{trial.value:.4g}" if _complete(trial) else str(trial.user_attrs.get(_REASON, "stopped early"))


def _complete(trial: optuna.trial.FrozenTrial) -> bool:
    return trial.state.name == "COMPLETE"


def _best(study: optuna.Study, out: Path) -> Best | None:
    complete = [each for each in _ended(study) if _complete(each)]
    if not complete:
        return None
    best = max(complete, key=lambda each: float(each.value or 0.0))
    path = out / "trials" / f"{best.number:04}" / "config.json"
    run = read_json(path, dict[str, Any])
    try:
        chosen = {name: _at(run, f"hyperparameters.{name}") for name in best.params}
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{path} is not of trial {best.number} (no {one_line(error)}): choose another --out"
        ) from error
    return Best(best.number, float(best.value or 0.0), chosen, out / "best.toml")


def _at(settings: Any, name: str) -> Any:
    for part in name.split("."):
        settings = settings[part]
    return settings


def _write_best(study: optuna.Study, base: Experiment, out: Path) -> Best | None:
    """The best trial, if there is one, whose run is written to best.toml."""
    if (best := _best(study, out)) is not None:
        run = base.changed(nested(best.settings))
        if run.eval_every == LARGEST:  # validates at its end, which compares trials and chooses no policy
            preset = Experiment.preset(run.algorithm, run.env_id)
            run = replace(run, eval_every=preset.eval_every, eval_episodes=preset.eval_episodes)
        with atomic(best.file) as temporary:
            temporary.write_text(run.to_toml(out), "utf-8")
    return best


@dataclass(frozen=True)
class _Search:
    """The content of search.json: the run, the names of what is searched, and a hash of the demonstrations."""

    run: dict[str, Any] = field(default_factory=dict)
    searched: list[str] = field(default_factory=list)
    demos: str = ""


def _check_same(out: Path, base: Experiment, names: list[str], fixed: Mapping[str, Any]) -> None:
    """Raise InputError if the folder holds another search, or something else."""
    from imitate.training.inputs import demos_digest  # imports torch

    path, run = out / "search.json", base.to_json()
    if path.exists() and any((out / "trials").glob("*")):
        before = read_json(path, _Search)
        same, known = before.run == json.loads(json.dumps(run)), set(before.searched)
        # An older version may have searched more, but a value that is fixed now was not the same then.
        now_fixed = any(name.split(".")[0] in fixed for name in known.difference(names))
        if not same or not known.issuperset(names) or now_fixed:
            raise InputError(
                f"{out} holds a search with other settings: give the same ones, or another --out"
            )
        if before.demos not in ("", demos_digest(base)):
            raise InputError(
                f"{base.demos} has changed since the search in {out} began: restore it, or choose another --out"
            )
    elif not path.exists() and any(not file.name.startswith(".") for file in out.iterdir()):
        raise InputError(f"{out} exists and holds no search: choose another --out")
    else:
        search = _Search(run, names, demos_digest(base))
        _log(out).unlink(missing_ok=True)  # of a search whose input was refused before its first trial
        write_json(path, asdict(search))
