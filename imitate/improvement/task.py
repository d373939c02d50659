"""The task of a search: whose policy to improve, where, and for how many steps."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imitate.configs.shared import convert_fields
from imitate.envs.make import resolve_env_id
from imitate.errors import LARGEST, InputError, check_range
from imitate.training.person import is_person
from imitate.training.settings import REMEDIES

__all__ = ["Task"]


@dataclass(frozen=True)
class Task:
    """The expert to improve on, its environment and the budget.

    expert        an expert's spec, as for `load_expert`
    budget        environment steps of everything: measuring, training, validation and test
    vecnormalize  statistics for a zipped expert, instead of those beside it

    Raises InputError for an unknown environment, for a person, for values of another type and for numbers out of range.
    """

    expert: str
    env_id: str
    budget: int
    seed: int = 0
    env_kwargs: dict[str, Any] | None = None
    vecnormalize: str | None = None

    def __post_init__(self) -> None:
        convert_fields(self, REMEDIES)
        object.__setattr__(self, "env_id", resolve_env_id(self.env_id))
        check_range(self, 1, LARGEST, "budget")
        check_range(self, 0, LARGEST, "seed")
        if is_person(self.expert):
            raise InputError(
                "a person can't be asked for so many episodes: record some with `imitate collect human`"
            )

    def command(self, out: Path) -> str:
        """The command that carries out the search, or goes on with it."""
        words = ["imitate", "improve", self.expert, "--env", self.env_id, "--budget", str(self.budget)]
        words += ["--out", str(out), "--seed", str(self.seed)]
        words += ["--vecnormalize", self.vecnormalize] if self.vecnormalize else []
        words += [] if self.env_kwargs is None else ["--env-kwargs", json.dumps(self.env_kwargs)]
        return shlex.join(words)

    def measuring(self, out: Path) -> str:
        """The command that measures the policy in `out`. It names the module of an own environment, which is not
        imported otherwise."""
        named = ["--env", self.env_id] if ":" in self.env_id else []
        return shlex.join(["imitate", "evaluate", str(out / "policy"), *named])
