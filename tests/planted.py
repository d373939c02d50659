"""A module whose names files plant. It's imported already, and records what is called in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

CALLED: list[str] = []


def make_expert() -> Any:
    CALLED.append("make_expert")
    return lambda obs: obs[:, 0] > 0


@dataclass(frozen=True)
class LearnerConfig:
    total_steps: int = 100

    def __post_init__(self) -> None:
        CALLED.append("LearnerConfig")


class Learner:
    def __init__(self, config: LearnerConfig, **handed: Any) -> None:  # noqa: ARG002
        CALLED.append("Learner")
