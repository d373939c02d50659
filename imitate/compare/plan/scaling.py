"""Adapts presets to a smaller budget: iterations are shortened so that a learner still has several of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["made_for", "notes", "shortened"]

LEAST_ITERATIONS = 20
"""Minimum number of iterations in the budget. A preset that was made for more steps would learn only a few times, so
its iterations are shortened."""
LEAST_STEPS = 32  # of each environment in a shortened iteration


def shortened(
    has: Mapping[str, Any],
    num_envs: int,
    budget: int,
    fixed: Mapping[str, Any],
    rollout: str = "num_steps",
) -> tuple[dict[str, Any], int]:
    """The hyperparameters to change, so that an iteration takes at most 1/20 of the budget, and the number of
    environments.

    fixed    settings that the user gave, which stay
    rollout  name of the field with the steps of one environment in an iteration

    Nested settings (`ppo` in GAIL) are shortened in the same way.
    """
    most = budget // LEAST_ITERATIONS
    new: dict[str, Any] = {}
    for name, inner in has.items():
        if isinstance(inner, Mapping):
            own = dict(fixed.get(name, {}))
            if "num_envs" in fixed:
                own["num_envs"] = fixed["num_envs"]
            changed, num_envs = shortened(inner, num_envs, budget, own, rollout)
            new |= {name: changed} if changed else {}
    if has.get("learning_starts", 0) > most and "learning_starts" not in fixed:
        new["learning_starts"] = max(most, 1)
    long = has.get(rollout, 0) > LEAST_STEPS  # the rounds of DQN and A2C are short already
    if long and not {rollout, "batch_size"} & set(fixed) and num_envs * has[rollout] > most:
        if "num_envs" not in fixed:
            num_envs = max(1, min(num_envs, most // LEAST_STEPS))
        new[rollout] = max(LEAST_STEPS, min(has[rollout], most // num_envs))
        if has.get("batch_size", 0) > num_envs * new[rollout]:
            new["batch_size"] = num_envs * new[rollout]
    return {name: value for name, value in new.items() if value != has[name]}, num_envs


def notes(has: Mapping[str, Any], new: Mapping[str, Any], envs: tuple[int, int]) -> list[str]:
    """The changes, such as `num_steps 128 -> 32`; `envs` is the number of environments before and after."""
    said = []
    for name, value in new.items():
        if isinstance(value, Mapping):
            said += [f"{name}.{each}" for each in notes(has[name], value, (0, 0))]
        else:
            said.append(f"{name} {has[name]} -> {value}")
    return said if envs[0] == envs[1] else [*said, f"num_envs {envs[0]} -> {envs[1]}"]


def made_for(steps: int, budget: int) -> list[str]:
    """A warning if a preset for `steps` is used with a budget that is more than three times larger or smaller."""
    return [] if 1 / 3 <= steps / budget <= 3 else [f"preset made for another budget: {steps:,} steps"]
