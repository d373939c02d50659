"""A comparison on CartPole that takes seconds."""

from __future__ import annotations

from typing import Any

from imitate.compare import Comparison

EXPERT = "CartPole-v1:ppo"
QUICK: dict[str, Any] = {"bc": {"max_epochs": 2}, "dagger": {"updates_per_iteration": 20}}


def comparison(*algorithms: str, **fields: Any) -> Comparison:
    hyperparameters = {name: QUICK[name] for name in algorithms if name in QUICK}
    settings: dict[str, Any] = {
        "expert": EXPERT,
        "seeds": 1,
        "budget": 4_000,
        "episodes": 4,
        "curve_episodes": 3,
    }
    return Comparison(
        "CartPole-v1",
        **({"algorithms": algorithms} | settings | {"hyperparameters": hyperparameters} | fields),
    )
