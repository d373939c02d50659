"""`imitate tune`"""

from __future__ import annotations

import logging
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from imitate.algorithms import ALGORITHMS, find, is_own
from imitate.commands.described import described
from imitate.commands.line import WORDS, CommandLine
from imitate.commands.option import Rare
from imitate.commands.parsing import NamesAsked
from imitate.commands.train import with_experts
from imitate.envs.trust import trust
from imitate.errors import InputError
from imitate.training.experiment import Experiment
from imitate.tune.search import FIRST_SEED, Best, prepared
from imitate.tune.search import tune as search

__all__ = ["tune"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TuneArguments:
    """Options of the search, besides those of its runs."""

    out: Path
    """the folder to write: best.toml has the best settings, trials/ the runs; the same command goes on with a search"""
    trials: int = 50
    """how many runs, with those that an earlier call has made"""
    eval_every: int | None = None
    """training steps between validations, by which trials are compared and stopped; by default a fifth of the budget.
    An offline learner is validated once, at its end"""
    eval_episodes: Annotated[int | None, Rare] = None
    """episodes in a validation; by default the preset's number, but at most 5"""


_USAGE = """usage: imitate tune ALGO --env ENV --trials N --out FOLDER [options of `imitate train ALGO`]

Searches for hyperparameters: `imitate tune ALGO --env ENV --help` lists the options. Those that you give stay fixed."""


def tune(argv: list[str]) -> int:
    line = CommandLine(argv)
    if not line.words:
        if line.has(WORDS):
            raise NamesAsked(names=ALGORITHMS)
        if line.asks_for_help:
            print(_USAGE)
            return 0
        raise InputError(
            f"which algorithm? wanted `imitate tune {'|'.join(ALGORITHMS)} --env ENV --trials N --out FOLDER`"
        )
    named = line.words[0]
    if is_own(named):
        trust(named)
    if line.has("--seed"):
        raise InputError(f"trials have seeds of their own, from {FIRST_SEED} on: leave out --seed")
    summary = (
        f"Search for hyperparameters of {find(named).title} with Optuna. Options that you give stay fixed, others are "
        "searched. A trial is a run with a few validations, and those in the worse half are stopped. Their seeds are "
        f"{FIRST_SEED}, {FIRST_SEED + 1} and so on, which no table of results uses."
    )
    base = Experiment.preset(named, line.value("--env") or "")
    own, rest = TuneArguments(out=tyro.MISSING), CommandLine(argv[1:])
    found = described(base, rest, "tune", summary, own, without=["seed"])
    experiment, out = prepared(found.experiment), found.settings["out"]
    typed = {name: found.settings[name] for name in ("eval_every", "eval_episodes") if name in found.settings}
    experiment = experiment.changed(**typed)
    if not experiment.eval_every:
        raise InputError("trials are compared by their validations: --eval-every must be at least 1")
    trials = found.settings.get("trials", TuneArguments.trials)
    if trials < 1:
        raise InputError(f"--trials must be at least 1, got {trials}")
    again = shlex.join(["imitate", "tune", *argv])
    try:
        experiment, experts = with_experts(experiment)
        logger.info("trials to make: %d; a line follows after each", trials)
        best = search(experiment, out, trials, held=found.hyperparameters, experts=experts, go_on=again)
    except (KeyboardInterrupt, SystemExit):  # Ctrl-C or SIGTERM
        kept = (
            f"the best settings so far are in {out / 'best.toml'}; " if (out / "best.toml").exists() else ""
        )
        print(f"imitate: {kept}go on with `{again}`", file=sys.stderr)
        raise
    _print_best(best, experiment)
    return 0


def _print_best(best: Best, experiment: Experiment) -> None:
    for name, value in best.settings.items():
        print(f"{name} = {value}")
    by_return = experiment.validate_by == "return"
    found = (
        f"a return of {best.score:.4g}"
        if by_return
        else f"a distance of {-best.score:.4g} from demonstrations"
    )
    again = experiment.train_with("--config", str(best.file), "--seed", "0", "--out", "RUN")
    print(
        f"imitate: trial {best.trial} has {found} in its best validation, which chose it: another seed may do worse. "
        f"Train with `{again}`",
        file=sys.stderr,
    )
