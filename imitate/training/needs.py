"""Checks that an algorithm is given what it learns from, before anything is opened: one function for each need.

Each raises InputError if the algorithm of this name lacks the need, or has no use for what is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from imitate.algorithms import ALGORITHMS, Algorithm, find
from imitate.envs import BACKENDS
from imitate.errors import InputError
from imitate.training.person import is_person

__all__ = [
    "check_backend",
    "check_demos",
    "check_experts",
    "check_init",
    "check_person",
    "check_reward",
    "check_used",
    "check_widths",
]


def check_used(algorithm: str, **given: object) -> None:
    """Check that the algorithm makes use of what it is given under these names."""
    entry = find(algorithm)
    for name, value in given.items():
        if value not in (None, ()) and name not in (*entry.needs, *entry.optional):
            raise InputError(f"{algorithm} makes no use of --{name}: leave it out")


def check_demos(algorithm: str, demos: str | None) -> None:
    if demos is None and "demos" in find(algorithm).needs:
        raise InputError(f"{algorithm} learns from demonstrations: give --demos FILE (see `imitate collect`)")


def check_experts(algorithm: str, experts: Sequence[str], vecnormalize: str | None) -> None:
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


def check_person(algorithm: str, experts: Sequence[str], num_envs: int, backend: str) -> None:
    """Check that a person among the experts, if there is one, can steer this run."""
    if not any(map(is_person, experts)):
        return
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


def check_backend(backend: str) -> None:
    known = [name for name in BACKENDS if name != "auto"]
    if backend not in known:
        raise InputError(f"backend of a run must be one of {', '.join(known)}, got {backend!r}")


def check_init(algorithm: str, init: str | None) -> None:
    if init is not None and "policy" not in find(algorithm).optional:
        takers = _those(lambda other: "policy" in other.optional)
        raise InputError(f"{algorithm} does not start from another policy: --init is for {takers}")


def check_reward(algorithm: str, reward: str | None, demos: str | None) -> None:
    if reward is None:
        return
    if not find(algorithm).rewarded:
        takers = _those(lambda other: other.rewarded)
        raise InputError(f"{algorithm} does not learn from a reward alone: --reward is for {takers}")
    if demos is not None:
        raise InputError(
            "demonstrations hold the environment's own rewards: give --reward or --demos, not both"
        )


def check_widths(init: str | None, hyperparameters: Mapping[str, Any]) -> None:
    """Check that these hyperparameters ask for no other network than the initial policy's."""
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
