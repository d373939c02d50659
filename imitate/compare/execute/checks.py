"""Checks before a comparison runs: the folder must suit, every learner must be able to act here, and the budget must
suffice."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from imitate.compare.execute.training import training
from imitate.compare.plan.comparison import DEMO_EPISODES, DEMO_SHARE, Comparison, jobs
from imitate.compare.plan.learners import find
from imitate.compare.statistics.job_results import References
from imitate.errors import InputError
from imitate.files import read_json

__all__ = ["check_budget", "check_folder", "is_used", "least_steps"]


def is_used(out: Path) -> bool:
    """True if there is something at `out`."""
    return any(path.name != ".lock" for path in out.iterdir()) if out.is_dir() else out.exists()


def check_folder(comparison: Comparison, out: Path) -> None:
    """Raise InputError unless `out` is new, empty, or holds a comparison on the same environment, expert and budget:
    then learners, seeds and episodes may be added, and settings changed."""
    if not is_used(out):
        return
    try:
        found = read_json(out / "comparison.json", dict[str, Any])
    except InputError as error:
        raise InputError(f"{out} exists and is no comparison; choose another --out") from error
    wanted = comparison.to_json()
    for name in ("env_id", "env_kwargs", "expert", "budget"):
        if found.get(name) != wanted[name]:
            got = f"its {name} is {found.get(name)!r}, not {wanted[name]!r}"
            raise InputError(f"{out} holds another comparison: {got}; choose another --out")


def least_steps(comparison: Comparison, out: Path) -> dict[str, int]:
    """The smallest number of its own environment steps with which each learner learns anything.

    Raises InputError if one can't act here, or does not take its hyperparameters.
    """
    # No demonstrations have been recorded yet, and any path will do here.
    planned = jobs(replace(comparison, seeds=1), out, episode_steps=1)
    with _quiet():
        return {job.algorithm: training(comparison, job).least_steps() for job in planned if not job.records}


def check_budget(comparison: Comparison, references: References, least: Mapping[str, int]) -> None:
    """Raise InputError if the budget is less than an episode, or less than a learner needs (`least_steps`) in addition
    to its demonstrations."""
    budget, longest = comparison.budget, references.episode_steps
    if budget < longest:
        raise InputError(
            f"a budget of {budget} steps is too small: an episode takes {longest:.0f} steps; "
            f"give at least {int(longest) + 1}"
        )
    for name, own in least.items():
        shows = "demos" in find(name).needs and (own or comparison.demo_episodes)
        shown = _demonstrated(comparison, references) if shows else 0
        if own + shown > budget:
            beside = f" and about {shown} for demonstrations" if shown else ""
            raise InputError(
                f"a budget of {budget} steps is too small for {name}, which takes {own} steps before it learns"
                f"{beside}; give more, or leave {name} out"
            )


def _demonstrated(comparison: Comparison, references: References) -> int:
    """The approximate cost of the demonstrations that a learner gets, if it does not take all that the budget pays."""
    assert references.expert is not None
    episode = float(np.mean(references.expert.measured.lengths))
    if comparison.demo_episodes is not None:
        return int(episode * comparison.demo_episodes)
    return int(episode * max(min(DEMO_EPISODES, DEMO_SHARE * comparison.budget // episode), 1))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence notices about the expert: they are given once, when it is measured, and not for every learner."""
    logger = logging.getLogger("imitate")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
