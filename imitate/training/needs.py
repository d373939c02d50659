"""Checks that a run is given what its algorithm learns from, and nothing else, before anything is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from imitate.algorithms import ALGORITHMS, Algorithm, find
from imitate.envs import BACKENDS
from imitate.errors import InputError
from imitate.training.person import is_person

if TYPE_CHECKING:
    from imitate.training.experiment import Experiment

__all__ = ["check_needs", "check_widths"]


def check_needs(run: Experiment) -> None:
    """Raise InputError if the run's algorithm lacks something to learn from, or was given something it does not use."""
    algorithm, entry = run.algorithm, find(run.algorithm)
    backends = [name for name in BACKENDS if name != "auto"]
    if run.backend not in backends:
        raise InputError(f"backend of a run must be one of {', '.join(backends)}, got {run.backend!r}")
    for name, value in (("demos", run.demos), ("expert", run.experts)):
        if value not in (None, ()) and name not in (*entry.needs, *entry.optional):
            raise InputError(f"{algorithm} makes no use of --{name}: leave it out")
    if run.demos is None and "demos" in entry.needs:
        raise InputError(f"{algorithm} learns from demonstrations: give --demos FILE (see `imitate collect`)")
    _check_experts(run, entry)
    if run.init is not None and "policy" not in entry.optional:
        takers = _those(lambda other: "policy" in other.optional)
        raise InputError(f"{algorithm} does not start from another policy: --init is for {takers}")
    if run.reward is not None and not entry.rewarded:
        takers = _those(lambda other: other.rewarded)
        raise InputError(f"{algorithm} does not learn from a reward alone: --reward is for {takers}")
    if run.reward is not None and run.demos is not None:
        raise InputError(
            "demonstrations hold the environment's own rewards: give --reward or --demos, not both"
        )
    if run.eval_every and not run.evaluable:
        raise InputError(
            f"{run.env_id} is not installed here, so nothing can be evaluated: leave --eval-every out"
        )
    if run.validate_by == "demos" and run.demos is None:
        raise InputError("--validate-by demos compares with demonstrations: give --demos FILE")


def _check_experts(run: Experiment, entry: Algorithm) -> None:
    algorithm, count = run.algorithm, len(run.experts)
    if not count and "expert" in entry.needs:
        raise InputError(f"{algorithm} asks an expert: give --expert SPEC (see `imitate expert list`)")
    if count > 1 and not entry.teachers:
        raise InputError(
            f"{algorithm} learns from one expert, got {count}: give one --expert, or take one of "
            f"{_those(lambda other: other.teachers)}"
        )
    if count > 1 and run.vecnormalize is not None:
        raise InputError("--vecnormalize is for one expert: leave it out, or keep the file beside each zip")
    if not any(map(is_person, run.experts)):
        return
    if not entry.live:
        raise InputError(
            f"{algorithm} can't ask a person: --expert human is for {_those(lambda other: other.live)}"
        )
    if count > 1:
        raise InputError("a person is the only expert of a run: give --expert human alone")
    if run.num_envs != 1 or run.backend != "gymnasium":
        raise InputError(
            "a person watches one environment: num_envs must be 1 and backend gymnasium, got "
            f"{run.num_envs} and {run.backend}"
        )


def check_widths(init: str | None, hyperparameters: Mapping[str, Any]) -> None:
    """Raise InputError if these hyperparameters ask for another network than the initial policy's."""
    if init is None:
        return
    from imitate.nn.stored_policy import load_policy  # torch takes a second, which only this check needs

    has = load_policy(init).architecture
    left_behind = has.get("state_std", False) and hyperparameters.get("head") != has["head"]
    if hyperparameters.get("log_std_init") is not None and not left_behind:
        raise InputError(
            f"--log-std-init is for a new policy, and {init} has a deviation of its own: leave it out"
        )
    for name in ("hidden", "activation", "normalize_obs"):
        wanted = hyperparameters.get(name)
        wanted = list(wanted) if isinstance(wanted, tuple) else wanted
        if wanted is not None and wanted != has[name]:
            raise InputError(
                f"--{name} {wanted}, but the policy of {init} has {name} {has[name]}: leave it out, or start anew"
            )


def _those(able: Callable[[Algorithm], bool]) -> str:
    return ", ".join(name for name, entry in ALGORITHMS.items() if able(entry))
