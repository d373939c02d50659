"""Checks of a learner that a run drives, which may be a user's own: the members of `Learner`, a policy that can be
stored, a state that can be resumed, steps within their limit, and metrics that are numbers."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from imitate.algorithms import Learner
from imitate.errors import InputError, one_line
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import check_like, check_state

__all__ = ["Unlawful", "check_learner", "first_state", "restore", "take_step"]

_METHODS = {"step": ("limit",), "state_dict": (), "load_state_dict": ("state",)}


class Unlawful(InputError):
    """A learner broke the protocol, so the step in which it did must not be saved."""


def check_learner(learner: Any) -> None:
    """Raise InputError if a new learner lacks a member of `Learner`, or has one of another kind."""
    own = type(learner).__name__
    members = [name for name in vars(Learner) if not name.startswith("_")]
    if missing := [name for name in members if not hasattr(learner, name)]:
        raise InputError(
            f"the learner {own} has no {', '.join(missing)}; wanted {', '.join(members)}, "
            'as "What is asked of it" in docs/tutorials/your-algorithm.md says'
        )
    for name, arguments in _METHODS.items():
        try:
            inspect.signature(getattr(learner, name)).bind(*arguments)
        except TypeError as error:
            raise InputError(
                f"the learner {own} can't be asked for {name}({', '.join(arguments)}): {error}; define it so"
            ) from error
    if callable(learner.done):
        raise InputError(f"{own}.done is a method, wanted true or false: make it a @property")
    _check_counts(learner)


def first_state(learner: Learner) -> Mapping[str, Any]:
    """The state of a new learner. Raises InputError if a run can't store this state or the learner's policy."""
    # A subclass would be loaded as an ActorPolicy, which acts differently.
    if type(learner.policy) is not ActorPolicy:
        raise InputError(
            f"the learner's policy is a {type(learner.policy).__name__}: a run stores and loads an imitate.ActorPolicy "
            "alone; train others in Python, and measure them with imitate.evaluate"
        )
    state = learner.state_dict()
    check_state(state)
    return state


def restore(learner: Learner, state: Mapping[str, Any], folder: Path) -> None:
    """Load the state from the checkpoint in a run's folder. Raises InputError if it does not fit the learner."""
    try:
        check_like(learner.state_dict(), state)
        learner.load_state_dict(dict(state))
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"the checkpoint in {folder} does not fit this learner ({type(error).__name__}: {one_line(error)}); "
            "begin anew with another --out"
        ) from error


def take_step(learner: Learner, limit: int, first: Mapping[str, Any] | None) -> dict[str, float]:
    """One step of a learner, of at most `limit` environment steps; returns its metrics.

    first  its state before the first step, with which the state after this step is compared; None: it is not

    Raises InputError if the step ends the program, or if the metrics are not a dict of numbers that a float can hold.
    Raises Unlawful if the step took more than its limit, if the learner's counts are no ints, or if its state got other
    types or shapes, with which it could not be resumed.
    """
    before = learner.env_steps
    try:
        metrics: Any = learner.step(limit)
    except SystemExit as error:
        raise InputError(f"the learner's step called sys.exit({error.code!r})") from error
    if not isinstance(metrics, dict):
        raise InputError(f"the learner's step returned a {type(metrics).__name__}, wanted a dict of numbers")
    for name, value in metrics.items():
        if not isinstance(name, str):
            raise InputError(f"the learner's step returned a metric of the name {name!r}, wanted a text")
        if not isinstance(value, float | int):
            raise InputError(
                f"the learner's step returned {name} as a {type(value).__name__}, wanted a float or an int"
            )
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise InputError(
                f"the learner's step returned {name} beyond the largest float, 1.8e308: scale it down"
            )
    _check_counts(learner)
    if (taken := learner.env_steps - before) > limit:
        raise Unlawful(f"the learner's step took {taken} environment steps, at most {limit} were left to it")
    if first is not None:
        state = learner.state_dict()
        check_state(state)
        try:
            check_like(first, state)
        except ValueError as error:
            raise Unlawful(
                f"the learner's state could not be resumed: {error} as before its first step; an empty tensor may grow"
            ) from error
    return metrics


def _check_counts(learner: Learner) -> None:
    for name in ("env_steps", "least_steps", "expert_queries"):
        if not isinstance(count := getattr(learner, name), int):
            raise Unlawful(f"the learner's {name} is a {type(count).__name__}, wanted an int")
