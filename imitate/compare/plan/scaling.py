"""Presets are made for a budget; for a smaller one their iterations are shortened, so that a learner has several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["made_for", "notes", "shortened"]

LEAST_ITERATIONS = 20
"""A preset whose iterations are longer than this share of the budget has them shortened: made for more steps, it would
learn a few times only."""
LEAST_STEPS = 32  # of an environment in an iteration that is shortened so


def shortened(
    has: Mapping[str, Any],
    num_envs: int,
    budget: int,
    fixed: Mapping[str, Any],
    rollout: str = "num_steps",
) -> tuple[dict[str, Any], int]:
    """The hyperparameters to change, so that an iteration takes no more than 1/20 of the budget, and the number of
    environments; what the user gave (`fixed`) stays. `rollout` names the steps of one environment in an iteration.
    Nested settings (`ppo` in GAIL) are shortened alike."""
    most = budget // LEAST_ITERATIONS
    new: dict[str, Any] = {}
    for name, inner in has.items():
        if isinstance(inner, Mapping):
            own = {**fixed.get(name, {}), **{key: fixed[key] for key in ("num_envs",) if key in fixed}}
            changed, num_envs = shortened(inner, num_envs, budget, own, rollout)
            new |= {name: changed} if changed else {}
    if has.get("learning_starts", 0) > most and "learning_starts" not in fixed:
        new["learning_starts"] = max(most, 1)
    long = has.get(rollout, 0) > LEAST_STEPS  # rounds of DQN and A2C are short, and not what is shortened
    if long and not {rollout, "batch_size"} & set(fixed) and num_envs * has[rollout] > most:
        if "num_envs" not in fixed:
            num_envs = max(1, min(num_envs, most // LEAST_STEPS))
        new[rollout] = max(LEAST_STEPS, min(has[rollout], most // num_envs))
        if has.get("batch_size", 0) > num_envs * new[rollout]:
            new["batch_size"] = num_envs * new[rollout]
    return {name: value for name, value in new.items() if value != has[name]}, num_envs


def notes(has: Mapping[str, Any], new: Mapping[str, Any], envs: tuple[int, int]) -> list[str]:
    """What was changed, `num_steps 128 -> 32`; `envs` are their number before and after."""
    said = []
    for name, value in new.items():
        if isinstance(value, Mapping):
            said += [f"{name}.{each}" for each in notes(has[name], value, (0, 0))]
        else:
            said.append(f"{name} {has[name]} -> {value}")
    return said if envs[0] == envs[1] else [*said, f"num_envs {envs[0]} -> {envs[1]}"]


def made_for(steps: int, budget: int) -> list[str]:
    """A warning where a preset for `steps` is used for more than three times as many, or less than a third."""
    return [] if 1 / 3 <= steps / budget <= 3 else [f"preset made for another budget: {steps:,} steps"]
