"""The checkpoint of a run: its account, the state of its learner, and how many labels it had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from imitate.errors import InputError, one_line
from imitate.files import Count, Number
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_state

__all__ = ["CHECKPOINT", "Account", "Checkpoint", "require_finite"]

CHECKPOINT = "checkpoint.safetensors"


@dataclass
class Account:
    """The progress of a run, saved in its checkpoint. Steps are environment steps."""

    iterations: Count = 0
    validation_steps: Count = 0
    last_validation: Count = 0
    """Steps that the last validation took."""
    validated: Count = 0
    """Iterations at the time of the last validation."""
    faults: int = 0
    """Exceptions that ended the run so far. After each it goes on with other episodes."""
    demos: str = ""
    """`Inputs.demos_digest`, which a resumed run must find again."""
    closing: bool = False
    """The last reserved validation is done, and the rest of the budget is being spent."""
    next_validation: Count = 0
    last_checkpoint: Count = 0
    episode_steps: Number = 0.0
    """Mean length of the latest finished training episodes."""
    best_score: float | None = None
    metrics_bytes: Count = 0
    evaluations_bytes: Count = 0
    wall_seconds: Number = 0.0
    cpu_seconds: Number = 0.0


@dataclass(frozen=True)
class Checkpoint:
    """The state from which a run resumes."""

    account: Account
    learner: Mapping[str, Any]
    store_episodes: Count

    @classmethod
    def read(cls, folder: Path) -> Checkpoint | None:
        """Read the checkpoint of a run's folder; None if it has none. Raises InputError if it is damaged."""
        path = folder / CHECKPOINT
        if not path.exists():
            return None
        try:
            return msgspec.convert(load_state(path), cls)
        except msgspec.ValidationError as error:
            raise InputError(
                f"{path} is damaged: {one_line(error)}; begin anew with another --out"
            ) from error


def require_finite(policy: ActorPolicy) -> None:
    """Raise FloatingPointError if a weight of the policy is not finite."""
    for name, tensor in policy.state_dict().items():
        if not torch.isfinite(tensor).all():
            raise FloatingPointError(f"the policy's {name} is not finite any more")
