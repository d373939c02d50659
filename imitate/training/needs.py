"""Checks that a run is given what its algorithm learns from, and nothing else, before anything is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from imitate.algorithms import ALGORITHMS, Algorithm, find
from imitate.envs import BACKENDS
from imitate.errors import InputError
from imitate.training.person import is_person

__all__ = ["check_needs", "check_widths"]


def check_needs(
    algorithm: str,
    *,
    demos: str | None,
    experts: Sequence[str],
    vecnormalize: str | None,
    num_envs: int,
    backend: str,
    init: str | None,
    reward: str | None,
) -> None:
    """Raise InputError if the algorithm lacks something to learn from, or was given something it does not use."""
    entry = find(algorithm)
    backends = [name for name in BACKENDS if name != "auto"]
    if backend not in backends:
        raise InputError(f"backend of a run must be one of {', '.join(backends)}, got {backend!r}")
    for name, value in (("demos", demos), ("expert", experts)):
        if value not in (None, ()) and name not in (*entry.needs, *entry.optional):
            raise InputError(f"{algorithm} makes no use of --{name}: leave it out")
    if demos is None and "demos" in entry.needs:
        raise InputError(f"{algorithm} learns from demonstrations: give --demos FILE (see `imitate collect`)")
    _check_experts(algorithm, experts, vecnormalize)
    if any(map(is_person, experts)):
        _check_person(algorithm, experts, num_envs, backend)
    if init is not None and "policy" not in entry.optional:
        takers = _those(lambda other: "policy" in other.optional)
        raise InputError(f"{algorithm} does not start from another policy: --init is for {takers}")
    if reward is not None and not entry.rewarded:
        takers = _those(lambda other: other.rewarded)
        raise InputError(f"{algorithm} does not learn from a reward alone: --reward is for {takers}")
    if reward is not None and demos is not None:
        raise InputError(
            "demonstrations hold the environment's own rewards: give --reward or --demos, not both"
        )


def _check_experts(algorithm: str, experts: Sequence[str], vecnormalize: str | None) -> None:
    entry = find(algorithm)
    if not experts and "expert" in entry.needs:
        raise InputError(f"{algorithm} asks an expert: give --expert SPEC (see `imitate expert list`)")
    if len(experts) > 1 and not entry.teachers:
        raise InputError(
            f"{algorithm} learns from one expert, got {len(experts)}: give one --expert, or take one of "
            f"{_those(lambda other: other.teachers)}"
        )
    if len(experts) > 1 and vecnormalize is not None:
        raise InputError("--vecnormalize is for one expert: leave it out, or keep the file beside each zip")


def _check_person(algorithm: str, experts: Sequence[str], num_envs: int, backend: str) -> None:
    if not find(algorithm).live:
        raise InputError(
            f"{algorithm} can't ask a person: --expert human is for {_those(lambda other: other.live)}"
        )
    if len(experts) > 1:
        raise InputError("a person is the only expert of a run: give --expert human alone")
    if num_envs != 1 or backend != "gymnasium":
        raise InputError(
            f"a person watches one environment: num_envs must be 1 and backend gymnasium, got {num_envs} and {backend}"
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
